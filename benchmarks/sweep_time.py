"""What a sweep, and a point of one, takes from beginning to end.

One checkout's time over another's, and their speeds.

    git worktree add ../before COMMIT python benchmarks/sweep_time.py --before ../before python
    benchmarks/sweep_time.py --before ../before --tfds ~/tensorflow_datasets --idx DIR --pairs 7

The checkouts take turns, every second pair in the other order, under this Python, each with a store
and a cache of decoded data of its own. A point is a run of half a second on one CPU, tracked in
MLflow, timed from the start of the command to its end. "cold": the cache is emptied before each.
Processor time is that of all processes of the command, which others on the machine disturb less.
That the training itself is neither faster nor slower is in the last column: the ratio of the speeds
that the runs report.
"""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import click
from footer import describe_machine

ROOT = Path(__file__).parents[1]
POINT = ("run", "mnist_hidden100_mlp", "--format", "json", "--set", "measurement.seconds=0.5")
POINT_ON = (*POINT, "--devices", "cpu:0", "--set", "measurement.checks=false", "--backend")
HEAD = (
    "case",
    "pairs",
    "before",
    "after",
    "median ratio",
    "quartiles",
    "range",
    "processor time",
    "speed, ratio",
)


class Case(NamedTuple):
    """Something that is timed."""

    arguments: tuple[str, ...]
    is_cold: bool = False


class Reading(NamedTuple):
    """What came of one command."""

    seconds: float
    processor_seconds: float
    speed: float | None  # of its training, in samples a second, if it is a run


class Checkout(NamedTuple):
    """One of two, with a folder for what it writes."""

    path: Path
    folder: Path

    def run(self, case: Case) -> Reading:
        """Runs a command to its end."""
        cache = self.folder / "cache"
        if case.is_cold:
            shutil.rmtree(cache, ignore_errors=True)
        settings = {"PYTHONPATH": str(self.path), "TFBENCH_CACHE_DIR": str(cache)}
        start = time.perf_counter()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-m", "tfbench", *case.arguments],
            cwd=self.folder,
            env=os.environ | settings,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise click.ClickException(
                f"{self.path}: tfbench {' '.join(case.arguments)}\n{done.stderr}"
            )
        return Reading(
            seconds=seconds,
            processor_seconds=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            speed=(
                json.loads(done.stdout)["summary"]["samples_per_second"]
                if case.arguments[0] == "run"
                else None
            ),
        )


def list_cases(tfds: Path | None, idx: Path | None, backends: tuple[str, ...]) -> dict[str, Case]:
    """Returns what is timed by name: without a folder of real data, synthetic data alone."""
    cases = {"`sweep --quick`": Case(("sweep", "--quick"))}
    for backend in backends:
        cases[f"point, {backend}, synthetic"] = Case((*POINT_ON, backend, "--data", "synthetic"))
        for form, folder in (("tfds", tfds), ("packed IDX", idx)):
            if folder is not None:
                arguments = (
                    *POINT_ON,
                    backend,
                    "--data",
                    "real",
                    "--data-dir",
                    str(folder.absolute()),
                )
                for state in ("cold", "warm"):
                    cases[f"point, {backend}, MNIST, {form}, {state}"] = Case(
                        arguments, state == "cold"
                    )
    return cases


def time_case(case: Case, checkouts: tuple[Checkout, Checkout], num_pairs: int) -> list[str]:
    """Returns the cells of a case's row, but for its name."""
    for (
        checkout
    ) in checkouts:  # what is read for the first time takes longer; and it fills the cache
        checkout.run(case)
    pairs = []
    for number in range(num_pairs):
        order = (0, 1) if number % 2 else (1, 0)
        found = {which: checkouts[which].run(case) for which in order}
        pairs.append((found[0], found[1]))
    ratios = [after.seconds / before.seconds for before, after in pairs]
    low, median, high = statistics.quantiles(ratios, n=4)
    speeds = [after.speed / before.speed for before, after in pairs if before.speed and after.speed]
    processor = [
        statistics.median(pair[which].processor_seconds for pair in pairs) for which in (0, 1)
    ]
    return [
        str(num_pairs),
        *(f"{statistics.median(pair[which].seconds for pair in pairs):.2f} s" for which in (0, 1)),
        f"**{median:.3f}**",
        f"{low:.3f} to {high:.3f}",
        f"{min(ratios):.3f} to {max(ratios):.3f}",
        f"{processor[0]:.2f} s to {processor[1]:.2f} s",
        (
            f"{statistics.median(speeds):.3f} ({min(speeds):.3f} to {max(speeds):.3f})"
            if speeds
            else ""
        ),
    ]


@click.command()
@click.option(
    "--before", required=True, type=click.Path(exists=True, path_type=Path), help="A checkout."
)
@click.option(
    "--after",
    default=ROOT,
    type=click.Path(exists=True, path_type=Path),
    help="Another.  [default: this]",
)
@click.option(
    "--tfds",
    type=click.Path(exists=True, path_type=Path),
    help="Holds mnist/ of tensorflow-datasets.",
)
@click.option(
    "--idx", type=click.Path(exists=True, path_type=Path), help="Holds MNIST's four files, packed."
)
@click.option("--backend", "backends", multiple=True, default=["tensorflow"], show_default=True)
@click.option(
    "--case", "names", multiple=True, metavar="TEXT", help="Only cases with this in their names."
)
@click.option("--pairs", "num_pairs", default=7, show_default=True, type=click.IntRange(2))
def main(
    before: Path,
    after: Path,
    tfds: Path | None,
    idx: Path | None,
    backends: tuple[str, ...],
    names: tuple[str, ...],
    num_pairs: int,
) -> None:
    """Prints a Markdown table."""
    click.echo(f"| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}")
    with tempfile.TemporaryDirectory() as folder:
        checkouts = tuple(
            Checkout(path.absolute(), Path(folder) / name)
            for name, path in (("before", before), ("after", after))
        )
        for checkout in checkouts:
            checkout.folder.mkdir()
        for name, case in list_cases(tfds, idx, backends).items():
            if not names or any(text in name for text in names):
                cells = time_case(case, (checkouts[0], checkouts[1]), num_pairs)
                click.echo(f"| {' | '.join([name, *cells])} |")
    click.echo(f"\n{describe_machine()}")


if __name__ == "__main__":
    main()
