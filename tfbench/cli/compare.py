"""`tfbench compare`: runs side by side."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfbench.cli._output import echo_json
from tfbench.cli._store import complete_run, open_store, store_option

if TYPE_CHECKING:
    from tfbench.measure.comparison import Comparison
    from tfbench.tracking.store import Store


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=complete_run)
@click.option("--sweep", metavar="ID", help="Compare the runs of a sweep; @last is the newest one.")
@click.option("--all", "takes_all", is_flag=True, help="Compare all runs of the store.")
@click.option("--recipe", metavar="NAME", help="With --all: only runs of this recipe.")
@click.option("--baseline", metavar="ARM", help='The arm to hold others against, such as "default cpu:0".')
@click.option("--allow-unequal", is_flag=True, help="Compare arms although they differ in what must be equal.")
@store_option
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "markdown", "csv", "json"]),
    default="text",
    show_default=True,
    help="Text for people, a table to paste, one line an arm and setting, or one JSON document.",
)
def command(
    runs: tuple[str, ...],
    sweep: str | None,
    takes_all: bool,
    recipe: str | None,
    baseline: str | None,
    allow_unequal: bool,
    store_root: Path,
    output_format: str,
) -> None:
    """Set runs side by side: a row a network size and batch size, a column an arm, with the verdict.

    RUN is an id, its beginning, a run's name, or @last. Speeds are medians over processes with 95 % intervals; a
    speed-up is compared round by round where the runs took turns, as those of a sweep do. Arms that differ in what must
    be equal (XLA, precision, threads, versions, machine, ...) get no speed-up, unless it is allowed.

    \b
    tfbench compare --sweep @last
    tfbench compare --sweep @last --baseline "mirrored cpu:0,cpu:1" --format markdown
    tfbench compare 3f2a 91bc 07de
    tfbench compare --all --recipe mnist_mlp --format csv > runs.csv
    """
    import shutil

    from tfbench.measure.verdict import find_verdict
    from tfbench.report.comparison import comparison_csv, comparison_json, comparison_markdown
    from tfbench.report.sweep import result_lines

    store = open_store(store_root)
    comparison = _compare(store, runs, sweep, recipe, baseline, takes_all=takes_all, allows_unequal=allow_unequal)
    if output_format == "json":
        echo_json(comparison_json(comparison, find_verdict(comparison)), "The runs are still in the store")
    elif output_format == "csv":
        click.echo(comparison_csv(comparison), nl=False)
    elif output_format == "markdown":
        click.echo(comparison_markdown(comparison))
        for sentence in find_verdict(comparison):
            click.echo(f"\n{sentence}")
    else:
        for line in result_lines(comparison, min(shutil.get_terminal_size().columns, 120))[1:]:
            click.echo(line)


def _compare(
    store: "Store",
    runs: tuple[str, ...],
    sweep: str | None,
    recipe: str | None,
    baseline: str | None,
    *,
    takes_all: bool,
    allows_unequal: bool,
) -> "Comparison":
    from tfbench.errors import UnknownNameError, did_you_mean
    from tfbench.sweep_log import find_sweep, read_sweep
    from tfbench.sweep_result import compare_stored, compare_sweep

    if sum(map(bool, (runs, sweep, takes_all))) != 1:
        raise click.UsageError("name the runs, or a sweep (--sweep @last), or take all of them (--all).")
    if recipe and not takes_all:
        raise click.UsageError("--recipe chooses among --all.")
    if sweep:
        plan, results = read_sweep(store, find_sweep(store, sweep))
        comparison = compare_sweep(store, plan, results, baseline=baseline)
    else:
        run_ids = store.run_ids() if takes_all else [store.find(token) for token in runs]
        comparison = compare_stored(store, run_ids, recipe=recipe, baseline=baseline, allows_unequal=allows_unequal)
    if not comparison.rows:
        raise UnknownNameError(f"store {store.root}: no runs to compare. `tfbench sweep RECIPE` makes some.")
    if baseline and baseline not in comparison.arms:
        near = did_you_mean(baseline, comparison.arms)
        raise UnknownNameError(f"--baseline '{baseline}': no such arm.{near} There are: {', '.join(comparison.arms)}.")
    return comparison
