"""`tfbench compare`: runs side by side."""

from pathlib import Path
from typing import Any

import click

from tfbench.cli._comparison import Selection, read_comparison, selection_options
from tfbench.cli._output import echo_json, echo_lines, terminal_width
from tfbench.cli._store import end_with_unreadable, open_store


@click.command()
@selection_options
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "markdown", "csv", "json"]),
    default="text",
    show_default=True,
    help="Text for people, a table to paste, one line an arm and setting, or one JSON document.",
)
def command(store_root: Path, output_format: str, **selection: Any) -> None:
    """Set runs side by side: a row a network size and batch size, a column an arm, with the verdict.

    RUN is an id, its beginning, a run's name, or @last. Speeds are geometric means over processes with 95 % intervals;
    a speed-up is compared round by round where the runs took turns, as those of a sweep do. Arms that differ in what
    must be equal (XLA, precision, threads, versions, machine, ...) get no speed-up, unless it is allowed.

    \b
    tfbench compare --sweep @last
    tfbench compare --sweep @last --baseline "mirrored cpu:0,cpu:1" --format markdown
    tfbench compare 3f2a 91bc 07de
    tfbench compare --all --recipe mnist_mlp --format csv > runs.csv
    """
    from tfbench.report.comparison.comparison import comparison_csv, comparison_json, comparison_markdown
    from tfbench.report.sweep.sweep import result_lines
    from tfbench.wording import markdown_text

    store = open_store(store_root)
    compared = read_comparison(store, Selection(**selection))
    comparison = compared.comparison
    if output_format == "json":
        echo_json(comparison_json(comparison, compared.verdict), "The runs are still in the store")
    elif output_format == "csv":
        click.echo(comparison_csv(comparison), nl=False)
    elif output_format == "markdown":
        click.echo(comparison_markdown(comparison))
        for sentence in compared.verdict:
            click.echo(f"\n{markdown_text(sentence)}")
    else:
        echo_lines(result_lines(comparison, terminal_width())[1:])
    end_with_unreadable(comparison.unreadable)
