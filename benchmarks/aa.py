"""How often tfbench calls two things different that are the same.

A/A comparisons, resampled from a pool of runs.

    python benchmarks/aa.py  # 60 processes of mnist_mlp, a quarter of an hour or more
    python benchmarks/aa.py --store mlruns  # the finished runs of a store instead

The pool holds the speed of at least 60 processes of one recipe, alike in everything. From it, ten
runs are drawn at a time, without replacement, as five pairs of two setups, and compared as tfbench
compares setups that took turns. Every alarm is a false one; at 95 %, one comparison in twenty
should give one. The interval of that share takes the comparisons for independent. They share the
runs of one pool, so that another pool can give a share a little beyond it.
"""

import datetime
import json
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from tfbench.comparisons.equality import run_settings
from tfbench.comparisons.judging import Runs, judge_pair
from tfbench.runs.summary import summarize_run
from tfbench.store.journal import read_result
from tfbench.store.store import Store

SEED = 0
MIN_POOL = 60


def run_pool(recipe: str, processes: int, seconds: float) -> list[float]:
    """Runs a recipe so many times.

    Returns the samples per second of those that finished, in their order.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "tfbench",
            "run",
            recipe,
            "--data",
            "synthetic",
            "--devices",
            "cpu:0",
        ]
        command += [
            "--seconds",
            str(seconds),
            "--set",
            "measurement.checks=false",
        ]  # which come after the training
        command += [
            "--repeats",
            str(processes),
            "--store",
            str(Path(folder) / "mlruns"),
            "--format",
            "json",
        ]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, check=False
        )  # runs that fail are left out
    if not done.stdout:
        raise click.ClickException(
            f"nothing was measured: `tfbench run` ended with exit code {done.returncode}."
        )
    return list(json.loads(done.stdout)["repeats"]["metrics"]["samples_per_second"]["values"])


def read_pool(store: Store, recipe: str) -> list[float]:
    """Returns the samples per second of a recipe's finished runs, oldest first."""
    speeds = []
    kinds = set()
    for head in reversed(store.heads()):
        path = store.journal_path(head.run_id)
        result = read_result(path)
        if result.request.recipe.name == recipe and result.status == "FINISHED":
            summary = summarize_run(result)
            kinds.add(
                repr((run_settings(result), result.placement, result.request.recipe.measurement))
            )
            speeds.append(summary.metrics["samples_per_second"])
    if len(kinds) > 1:
        raise click.ClickException(
            f"{store.root}: its runs of {recipe} are of {len(kinds)} kinds; they must be alike."
        )
    return [speed for speed in speeds if speed]


def count_alarms(pool: list[float], *, pairs: int, comparisons: int) -> int:
    """Returns how many of the comparisons say that the setups differ."""
    rng = random.Random(SEED)
    alarms = 0
    for _ in range(comparisons):
        drawn = rng.sample(pool, 2 * pairs)
        first, second = (
            Runs(setup=setup, speeds=tuple(speeds), rounds=tuple(range(pairs)))
            for setup, speeds in (("a", drawn[:pairs]), ("b", drawn[pairs:]))
        )
        alarms += judge_pair(first, second).judgement != "no measurable difference"
    return alarms


def describe_pool(recipe: str, pool: list[float], source: str) -> dict[str, Any]:
    """Returns the pool with what is needed to judge it."""
    return {
        "recipe": recipe,
        "source": source,
        "created": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        "python": platform.python_version(),
        "samples_per_second": pool,
    }


@click.command()
@click.option("--recipe", default="mnist_mlp", show_default=True)
@click.option("--processes", default=MIN_POOL, show_default=True, help="Runs to make.")
@click.option(
    "--seconds", default=2.0, show_default=True, help="Length of a run after its warm-up."
)
@click.option(
    "--store",
    type=click.Path(exists=True, path_type=Path),
    help="Take the finished runs of this store.",
)
@click.option(
    "--pairs",
    default=5,
    type=click.IntRange(2),
    show_default=True,
    help="Pairs of runs in a comparison.",
)
@click.option("--comparisons", default=1_000, show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path(__file__).with_name("aa_pool.json"),
    help="File for the pool's values. [default: aa_pool.json beside this script]",
)
def main(
    recipe: str,
    processes: int,
    seconds: float,
    store: Path | None,
    pairs: int,
    comparisons: int,
    out: Path,
) -> None:
    """Prints the share of A/A comparisons that give an alarm."""
    from scipy.stats import binomtest

    pool = read_pool(Store(store), recipe) if store else run_pool(recipe, processes, seconds)
    if len(pool) < 2 * pairs:
        raise click.ClickException(
            f"{pairs} pairs need {2 * pairs} runs or more. The pool has {len(pool)}."
        )
    if len(pool) < MIN_POOL:
        click.echo(
            f"only {len(pool)} runs: comparisons drawn from fewer than {MIN_POOL} are much alike",
            err=True,
        )
    source = f"store {store}" if store else f"{processes} processes of {seconds:g} s"
    out.write_text(
        json.dumps(describe_pool(recipe, pool, source), indent=2) + "\n", encoding="utf-8"
    )
    alarms = count_alarms(pool, pairs=pairs, comparisons=comparisons)
    interval = binomtest(alarms, comparisons).proportion_ci()
    spread = statistics.stdev(pool) / statistics.mean(pool)
    click.echo(
        f"pool of {len(pool)}: median {statistics.median(pool):.6g} samples/s, spread {spread:.2%},"
        f" in {out}"
    )
    click.echo(
        f"{comparisons} comparisons of {pairs} pairs: {alarms} alarms, {alarms / comparisons:.1%} "
        f"(95 %: {interval.low:.1%} to {interval.high:.1%})"
    )


if __name__ == "__main__":
    main()
