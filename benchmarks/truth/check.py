"""Holds `tfbench check` against planted slow-downs, and against none.

Both are resampled from pools of real processes.

    python benchmarks/truth/check.py

A small network naps 0.3 s in every step; so many processes of it are a pool, and as many that nap 5
% longer another. With no limit (`--fail-above 0`), five processes are drawn from the first pool as
a baseline, and five others to be held against it, 1,000 times: from the same pool, where 3 to 7 %
may be called different, and from the slower one, where at least 90 % must be called a regression.
The comparisons share the processes of two pools, so that other pools can give shares a little
beyond those. The naps log themselves: their means say how large the planted slow-down really was.
"""

import dataclasses
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from naps import RECIPE, with_planted
from planted import read_naps

from tfbench.comparisons.baseline import read_baseline
from tfbench.comparisons.regression import SpeedSample, judge_regression
from tfbench.store.store import Store

SEED = 0
NAP_SECONDS = 0.3
SLOW_DOWN = 1.05
WARMUP_STEPS = 3  # with so long naps, what later steps still take longer is nothing beside them
MIN_POOL = 60
DRAWN = 5  # processes on each side, as `tfbench check` makes by default


def make_pool(
    folder: Path, factor: float, processes: int, seconds: float
) -> tuple[SpeedSample, float]:
    """Returns the speeds of so many processes, and the mean of their naps in seconds."""
    recipe = folder / "planted.toml"
    log = folder / f"naps-{factor}"
    kept = folder / f"pool-{factor}.json"
    recipe.write_text(RECIPE)
    command = [
        sys.executable,
        "-m",
        "tfbench",
        "check",
        str(recipe),
        "--allow-code",
        "--save",
        str(kept),
    ]
    command += [
        "--repeats",
        str(processes),
        "--seconds",
        str(seconds),
        "--store",
        str(folder / "mlruns"),
    ]
    settings = (
        f"model.log={log}",
        f"model.nap_seconds={NAP_SECONDS * factor}",
        "measurement.checks=false",
    )
    settings += (f"measurement.warmup_steps={WARMUP_STEPS}",)
    command += [part for setting in settings for part in ("--set", setting)]
    done = subprocess.run(command, env=with_planted(), stdout=sys.stderr, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    sample = read_baseline(Store(folder / "mlruns"), str(kept)).sample
    return sample, statistics.fmean(end - start for start, end in read_naps(str(log)))


def draw(pool: SpeedSample, places: list[int]) -> SpeedSample:
    """Returns a sample of some of a pool's processes."""
    return dataclasses.replace(
        pool,
        samples_per_second=tuple(pool.samples_per_second[place] for place in places),
        run_ids=tuple(pool.run_ids[place] for place in places),
    )


@click.command()
@click.option("--processes", default=MIN_POOL, show_default=True, help="Of each pool.")
@click.option(
    "--seconds", default=2.0, show_default=True, help="Length of a run after its warm-up."
)
@click.option("--comparisons", default=1_000, show_default=True)
def main(processes: int, seconds: float, comparisons: int) -> None:
    """Prints a Markdown table.

    Ends with 1 if alarms are too many or too few, or slow-downs are missed.
    """
    if processes < 2 * DRAWN:
        raise click.ClickException(
            f"--processes: must be {2 * DRAWN} or more. Received: {processes}."
        )
    if processes < MIN_POOL:
        click.echo(
            f"comparisons drawn from fewer than {MIN_POOL} processes are much alike", err=True
        )
    with tempfile.TemporaryDirectory() as name:
        pool, nap = make_pool(Path(name), 1.0, processes, seconds)
        slower, longer_nap = make_pool(Path(name), SLOW_DOWN, processes, seconds)
    rng = random.Random(SEED)
    equal = []
    slowed = []
    for _ in range(comparisons):
        places = rng.sample(range(processes), 2 * DRAWN)
        baseline = draw(pool, places[:DRAWN])
        equal.append(
            judge_regression(baseline, draw(pool, places[DRAWN:]), (None, None), 0.0).judgement
        )
        now = draw(slower, rng.sample(range(processes), DRAWN))
        slowed.append(judge_regression(baseline, now, (None, None), 0.0).judgement)
    alarms = 1 - equal.count("no measurable difference") / comparisons
    found = slowed.count("regression") / comparisons
    spread = statistics.stdev(pool.samples_per_second) / pool.speed
    click.echo(
        "| slow-down of the naps | processes | spread | comparisons | regression | faster | no"
        " difference |"
    )
    click.echo("| --- | --- | --- | --- | --- | --- | --- |")
    for change, judgements in ((0.0, equal), (longer_nap / nap - 1, slowed)):
        names = ("regression", "faster", "no measurable difference")
        shares = " | ".join(f"{judgements.count(one) / comparisons:.1%}" for one in names)
        click.echo(
            f"| {change:.2%} | 2 x {DRAWN} of {processes} | {spread:.2%} | {comparisons} |"
            f" {shares} |"
        )
    sys.exit(not (0.03 <= alarms <= 0.07 and found >= 0.9))


if __name__ == "__main__":
    main()
