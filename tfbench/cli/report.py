"""`tfbench report`: a comparison of runs as one HTML file."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfbench.cli._options import FILE
from tfbench.cli._output import echo_lines, is_stdout, log_waiting, require_free, write_to
from tfbench.cli._store import end_with_unreadable
from tfbench.cli.compare import read_comparison, selection_options

if TYPE_CHECKING:
    from tfbench.store.store import Store


@click.command("report", short_help="Write a comparison as one HTML file.")
@selection_options
@click.option(
    "-o",
    "--output",
    type=FILE,
    default=Path("tfbench-report.html"),
    metavar="FILE",
    help="- is stdout.",
)
@click.option(
    "--plots",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write PNG files, too.",
)
def report_command(
    output: Path,
    plots: Path | None,
    store: "Store",
    **selection: Any,
) -> None:
    """Write a comparison of runs as one self-contained HTML file.

    It overwrites an older report, but no other file. RUN is an id, its beginning, a run's name, or
    @last. The report holds the verdict, the table, plots, published figures, warnings, the
    environment, and the commands to repeat it. For several machines, it also shows their costs.

    \b
    tfbench report --sweep @last
    tfbench report --sweep @last -o mnist.html --plots plots
    tfbench report --all --recipe mnist_mlp
    """
    import time

    from tfbench.comparisons.html_report import render_report
    from tfbench.comparisons.report_contents import gather_contents
    from tfbench.show.figures import write_plots
    from tfbench.wording import count

    if not _is_report(output):
        require_free(output)
    compared = read_comparison(store, **selection)
    comparison = compared.comparison
    log_waiting("drawing the report")
    contents = gather_contents(store, comparison, compared.plan, created=time.time())
    data = render_report(contents).encode()
    quiet = is_stdout(output)
    write_to(output, data)
    echo_lines(
        [f"{output}: report on {count(len(comparison.runs), 'run')}, {len(data) / 1e6:.2f} MB."],
        err=quiet,
    )
    if plots:
        names = ", ".join(path.name for path in write_plots(contents.plots, plots))
        echo_lines([f"{plots}: {names or 'no plots'}."], err=quiet)
    end_with_unreadable(contents.comparison.unreadable)


def _is_report(path: Path) -> bool:
    from tfbench.comparisons.html_report import GENERATOR

    with contextlib.suppress(OSError):
        if path.is_file():
            with path.open("rb") as file:
                return GENERATOR.encode() in file.read(4096)  # it stands in a report's head
    return False
