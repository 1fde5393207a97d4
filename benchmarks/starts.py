"""Whether forked measuring processes measure what started ones do, and whether they scatter alike.

    python benchmarks/starts.py mnist_mlp --backend tensorflow

Takes turns between three ways to start a run: each started, each forked from a prepared process of
its own, as the first run of every round is, and all forked from one. Prints the speed of each way,
the ratios, and how runs scatter.
"""

import itertools
import math
import os
import tempfile
import time
from pathlib import Path

import click
import numpy as np
from scipy import stats

from tfbench.runs.forked import START_VARIABLE
from tfbench.runs.maker import RunMaker, open_maker
from tfbench.runs.observer import Observer
from tfbench.runs.record import RunRequest
from tfbench.runs.requests import load_request, merge_overrides, series_request
from tfbench.store.store import Store
from tfbench.tags import GROUP_TAG, ROUND_TAG

WAYS = ("started", "forked, one prepared process each", "forked, all from one")
CONFIDENCE = 0.95


def make_runs(maker: RunMaker, request: RunRequest, way: int, number: int) -> tuple[float, float]:
    """Returns the samples/s of one run, and how many seconds it took in all."""
    tags = {GROUP_TAG: "starts", ROUND_TAG: str(number if way == 1 else 0)}
    start = time.monotonic()
    run = maker.make(series_request(request, suffix=f"{way}-{number}", tags=tags), Observer())
    if not run.samples_per_second or not run.result.environment:
        raise click.ClickException(run.reason or "a run has no speed")
    assert run.result.environment.start == ("own" if way == 0 else "forked")
    return run.samples_per_second, time.monotonic() - start


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
    logs = np.zeros((3, num_runs))
    took = np.zeros((3, num_runs))
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        makers = []
        for start in ("own", "prepared", "prepared"):
            os.environ[START_VARIABLE] = start
            makers.append(open_maker(store, False, None, None))
        orders = itertools.cycle(
            itertools.permutations(range(3))
        )  # after six rounds, each way was first twice
        for number, order in zip(range(num_runs), orders, strict=False):
            for way in order:
                speed, took[way, number] = make_runs(makers[way], request, way, number)
                logs[way, number] = math.log(speed)
            click.echo(f"{number + 1} of {num_runs}", err=True)
    click.echo(
        "| runs | samples/s | ratio to started | 95 % CI | scatter of a run | 95 % CI | a run"
        " takes |"
    )
    click.echo("| --- | --: | --: | --- | --: | --- | --: |")
    for way, name in enumerate(WAYS):
        ratios = logs[way] - logs[0]
        half = (
            stats.t.ppf((1 + CONFIDENCE) / 2, num_runs - 1)
            * ratios.std(ddof=1)
            / math.sqrt(num_runs)
        )
        low, high = (math.exp(ratios.mean() + sign * half) for sign in (-1, 1))
        ratio = f"{math.exp(ratios.mean()):.3f} | {low:.3f} to {high:.3f}" if way else "1 |"
        scatter = logs[way].std(ddof=1)
        freedom = num_runs - 1
        least, most = (
            scatter * math.sqrt(freedom / stats.chi2.ppf(share, freedom))
            for share in ((1 + CONFIDENCE) / 2, (1 - CONFIDENCE) / 2)
        )
        click.echo(
            f"| {name} | {math.exp(logs[way].mean()):,.0f} | {ratio} | {scatter:.1%} | {least:.1%}"
            f" to {most:.1%} | {np.median(took[way]):.1f} s |"
        )


if __name__ == "__main__":
    main()
