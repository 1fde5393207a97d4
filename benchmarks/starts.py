"""Whether forked measuring processes measure what started ones do, and whether they scatter alike.

    python benchmarks/starts.py mnist_mlp --backend tensorflow

Takes turns between three ways to start a run: each started, each forked from a prepared process of
its own, as the first run of every round is, and all forked from one. Prints the speed of each way,
the ratios, and how runs scatter.
"""

import itertools
import math
import os
import statistics
import tempfile
import time
from pathlib import Path

import click
from harness import print_head, print_row
from scipy import stats

from tfbench.comparisons.intervals import Interval, log_interval
from tfbench.runs.forked import START_VARIABLE
from tfbench.runs.maker import RunMaker, open_maker
from tfbench.runs.observer import Observer
from tfbench.runs.record import RunRequest
from tfbench.runs.requests import load_request, merge_overrides, series_request
from tfbench.store.store import Store
from tfbench.tags import GROUP_TAG, ROUND_TAG

WAYS = ("started", "forked, one prepared process each", "forked, all from one")
TAILS = (0.975, 0.025)  # of an interval of 95 %


def make_runs(maker: RunMaker, request: RunRequest, way: int, number: int) -> tuple[float, float]:
    """Returns the samples/s of one run, and how many seconds it took in all."""
    tags = {GROUP_TAG: "starts", ROUND_TAG: str(number if way == 1 else 0)}
    start = time.monotonic()
    run = maker.make(series_request(request, suffix=f"{way}-{number}", tags=tags), Observer())
    if not run.samples_per_second or not run.result.environment:
        raise click.ClickException(run.reason or "a run has no speed")
    assert run.result.environment.start == ("own" if way == 0 else "forked")
    return run.samples_per_second, time.monotonic() - start


def ratio_to(ours: list[float], others: list[float]) -> Interval:
    """Returns the interval of a ratio of speeds, from runs that were made in turns."""
    interval = log_interval([one / other for one, other in zip(ours, others, strict=True)])
    assert interval is not None
    return interval


def scatter_of(speeds: list[float]) -> tuple[float, float, float]:
    """Returns the standard deviation of the speeds' logarithm, and its interval."""
    scatter = statistics.stdev(map(math.log, speeds))
    freedom = len(speeds) - 1
    bounds = [scatter * math.sqrt(freedom / stats.chi2.ppf(tail, freedom)) for tail in TAILS]
    return scatter, bounds[0], bounds[1]


@click.command()
@click.argument("recipe", default="mnist_mlp")
@click.option("--backend", default="tensorflow", show_default=True)
@click.option("--runs", "num_runs", type=int, default=18, show_default=True, help="Of each way.")
@click.option("--seconds", type=float, default=2.0, show_default=True, help="Steady time of a run.")
def main(recipe: str, backend: str, num_runs: int, seconds: float) -> None:
    """Compares runs of RECIPE in started and in forked processes, as Markdown."""
    unchecked = {"measurement.checks": False}
    values = merge_overrides(unchecked, backend=backend, devices="cpu:0", data="synthetic")
    request = load_request(recipe, values=values, steady_seconds=seconds)
    speeds: list[list[float]] = [[] for _ in WAYS]
    took: list[list[float]] = [[] for _ in WAYS]
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        makers = []
        for start in ("own", "prepared", "prepared"):
            os.environ[START_VARIABLE] = start
            makers.append(open_maker(store, False, None, None))
        # After six rounds, each way was first twice.
        orders = itertools.cycle(itertools.permutations(range(len(WAYS))))
        for number in range(num_runs):
            for way in next(orders):
                speed, run_seconds = make_runs(makers[way], request, way, number)
                speeds[way].append(speed)
                took[way].append(run_seconds)
            click.echo(f"{number + 1} of {num_runs}", err=True)
    scatter_heads = ("scatter of a run", "95 % CI")
    print_head("runs", "samples/s", "ratio to started", "95 % CI", *scatter_heads, "a run takes")
    for name, own, own_seconds in zip(WAYS, speeds, took, strict=True):
        ratio = ratio_to(own, speeds[0])
        scatter, least, most = scatter_of(own)
        print_row(
            name,
            f"{statistics.geometric_mean(own):,.0f}",
            f"{ratio.center:.3f}",
            f"{ratio.low:.3f} to {ratio.high:.3f}",
            f"{scatter:.1%}",
            f"{least:.1%} to {most:.1%}",
            f"{statistics.median(own_seconds):.1f} s",
        )


if __name__ == "__main__":
    main()
