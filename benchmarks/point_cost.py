"""What a point of a sweep costs beside training.

Planning, starting the process, storing, and what is between two runs.

    tfbench sweep mnist_mlp --data synthetic --setup "default cpu:0" --setup "mirrored cpu:0,cpu:1"
    python benchmarks/point_cost.py @last --store mlruns

Reads the time breakdowns of the runs of a sweep, which account for the measuring process, and what
the sweep's record says each run took.
"""

import datetime
import platform
import statistics
from pathlib import Path

import click

from tfbench.metrics import BREAKDOWN_ENTRIES
from tfbench.store.index import read_briefs
from tfbench.store.store import Store
from tfbench.store.sweep_log import find_sweep, read_sweep
from tfbench.sweeps.results import find_runs

LIMIT = 1.5  # seconds that planning, interleaving and the process may take, for a point, on average
TRAINING = ("first_step", "warmup", "steady", "validation", "callbacks")
WORKLOAD = ("data", "model", "evaluation", "checks")  # as long as the recipe makes them
PARENT = "parent"
BETWEEN = "between"
MEANINGS = BREAKDOWN_ENTRIES | {
    "unaccounted": "of the measuring process, in no entry",
    PARENT: (
        "of tfbench before the measuring process begins and after its end: request, journal,"
        " MLflow; in the first run of a round, importing the framework for all of its runs"
    ),
    BETWEEN: "from the end of a run to the beginning of the next: planning, the sweep's record",
}


def read_points(store: Store, sweep_id: str) -> list[dict[str, float]]:
    """Returns the seconds of each entry, for each run of a sweep that finished.

    A sweep that was stopped and resumed counts the pause as time between two runs.
    """
    results = find_runs(store, read_sweep(store, sweep_id)).results
    finished = {r.run_id: r for r in results.values() if r.outcome == "FINISHED" and r.run_id}
    points = list[dict[str, float]]()
    ended = None
    for brief in sorted(read_briefs(store, finished).found, key=lambda brief: brief.created):
        between = {} if ended is None else {BETWEEN: brief.created - ended}
        ended = brief.created + finished[brief.run_id].seconds
        wall = brief.metrics.get("breakdown/wall_seconds")
        if wall is None:
            continue
        names = (*BREAKDOWN_ENTRIES, "unaccounted")
        entries = {name: brief.metrics.get(f"breakdown/{name}_seconds") or 0.0 for name in names}
        entries[PARENT] = finished[brief.run_id].seconds - wall
        points.append(entries | between)
    return points


def add_up(points: list[dict[str, float]], *left_out: str) -> list[float]:
    """Returns the seconds of each point, without those of some entries."""
    return [
        sum(seconds for name, seconds in point.items() if name not in left_out) for point in points
    ]


def _describe(seconds: list[float]) -> str:
    """Returns the median, the mean and the longest of some times, as cells."""
    return " | ".join(
        f"{one:.2f} s"
        for one in (statistics.median(seconds), statistics.mean(seconds), max(seconds))
    )


@click.command()
@click.argument("sweep", default="@last")
@click.option(
    "--store", "root", type=click.Path(path_type=Path), default=Path("mlruns"), show_default=True
)
def main(sweep: str, root: Path) -> None:
    """Prints what the points of SWEEP cost, as Markdown."""
    store = Store(root)
    points = read_points(store, find_sweep(store, sweep))
    if not points:
        raise click.ClickException("no run of this sweep finished")
    click.echo("| where | median | mean | longest | what |\n| --- | --- | --- | --- | --- |")
    for name, meaning in MEANINGS.items():
        seconds = [point[name] for point in points if name in point]
        if seconds and name not in TRAINING:
            click.echo(f"| {name} | {_describe(seconds)} | {meaning} |")
    for title, sums, meaning in (
        (
            "**planning, process**",
            add_up(points, *TRAINING, *WORKLOAD),
            f"all but {', '.join(WORKLOAD)}; limit {LIMIT:g} s",
        ),
        ("beside training", add_up(points, *TRAINING), "these included"),
        ("whole point", add_up(points), f"{', '.join(TRAINING)} included"),
    ):
        click.echo(f"| {title} | {_describe(sums)} | {meaning} |")
    today = datetime.datetime.now(datetime.UTC)
    click.echo(f"\n{len(points)} runs. {today:%Y-%m-%d}, Python {platform.python_version()}.")


if __name__ == "__main__":
    main()
