"""`tfbench diff`: what differs between two runs."""

from typing import TYPE_CHECKING

import click

from tfbench.cli._options import format_option, store_option
from tfbench.cli._output import echo_json, echo_sections

if TYPE_CHECKING:
    from tfbench.store.store import Store


@click.command(short_help="Show what differs between two runs, results and causes.")
@click.argument("first", metavar="RUN")
@click.argument("second", metavar="RUN")
@store_option
@format_option
def command(first: str, second: str, store: "Store", output_format: str) -> None:
    """Show what differs between two runs: results, and what may have caused it.

    RUN is the beginning of an id (tfbench's or MLflow's), a run name, or @last. First comes what must be equal for
    devices or strategies to be compared, and is not: XLA, precision, data, batch size, versions, machine.

    \b
    tfbench diff 3f2a 9c1b
    tfbench diff mnist_mlp-1000x1000-b100-default @last
    tfbench diff 3f2a @last --format json
    """
    from tfbench.analysis.comparison.difference import compare_runs
    from tfbench.report.comparison.difference import difference_sections
    from tfbench.runs.run import read_stored

    a, b = (read_stored(store, store.find_training(run)) for run in (first, second))
    if a.run_id == b.run_id:
        raise click.UsageError(f"{first} and {second} are the same run, {a.run_id}. Name two.")
    difference = compare_runs(a.result, a.summary, b.result, b.summary)
    if output_format == "json":
        echo_json(difference)
    else:
        echo_sections(difference_sections(difference))
