"""`tfbench report`: a comparison of runs as one HTML file."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfbench.cli._options import asked_uri_option
from tfbench.cli._output import echo_lines, is_stdout, require_free, waiting, write_to
from tfbench.cli._store import end_with_unreadable, make_tracker
from tfbench.cli._units import FILE
from tfbench.cli.compare import read_comparison, selection_options

if TYPE_CHECKING:
    from tfbench.analysis.comparison.comparison import Comparison
    from tfbench.report.html_report import ReportContents
    from tfbench.store.store import Store
    from tfbench.tracking.tracker import Tracker

DEFAULT_OUTPUT = "tfbench-report.html"
_HEAD_BYTES = 4096  # of a file, within which a report says that it is one


@click.command(short_help="Write a comparison as one HTML file.")
@selection_options
@click.option(
    "-o",
    "--output",
    type=FILE,
    default=Path(DEFAULT_OUTPUT),
    metavar="FILE",
    help="- is stdout. An older report is overwritten, no other file.",
)
@click.option("--force", is_flag=True, help="Overwrite the file, whatever it is.")
@click.option("--plots", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Write PNG files, too.")
@click.option(
    "--mlflow/--no-mlflow", "to_mlflow", default=None, help="Keep the report in MLflow. [default: in the store's own]"
)
@asked_uri_option
def command(
    output: Path,
    force: bool,
    plots: Path | None,
    to_mlflow: bool | None,
    tracking_uri: str | None,
    store: "Store",
    **selection: Any,
) -> None:
    """Write a comparison of runs as one HTML file that needs nothing beside it.

    RUN is an id, its beginning, a run's name, or @last. The report holds the verdict, the table with its intervals,
    plots, published figures, warnings, where the time went, the environment, failures, and how to make the runs again;
    of runs of several machines also what each costs.

    \b
    tfbench report --sweep @last
    tfbench report --sweep @last -o mnist.html --plots plots
    tfbench report --all --recipe mnist_mlp --no-mlflow
    """
    import time

    from tfbench.errors import OutputError
    from tfbench.report.figures import write_plots
    from tfbench.report.html_report import render_report
    from tfbench.sweeps.report_contents import gather_contents
    from tfbench.wording import count

    require_free(output, force=force or _is_report(output))
    compared = read_comparison(store, **selection)
    comparison = compared.comparison
    tracker = _begin_tracking(store, comparison, tracking_uri, to_mlflow=to_mlflow)
    with waiting("drawing the report"):
        contents = gather_contents(store, comparison, compared.plan, created=time.time())
        page = render_report(contents)
    data, quiet = page.encode(), is_stdout(output)
    write_to(output, data)
    echo_lines([f"{output}: report on {count(len(comparison.runs), 'run')}, {len(data) / 1e6:.1f} MB."], err=quiet)
    if plots:
        try:
            written = write_plots(contents.plots, plots)
        except OSError as error:
            raise OutputError(f"{error.filename or plots}: cannot be written: {error.strerror}.") from error
        echo_lines([f"{plots}: {', '.join(path.name for path in written) or 'no plots'}."], err=quiet)
    if tracker:
        echo_lines(_log(store, contents, page, tracker), err=quiet)
    end_with_unreadable(contents.comparison.unreadable)


def _begin_tracking(
    store: "Store", comparison: "Comparison", named: str | None, *, to_mlflow: bool | None
) -> "Tracker | None":
    """Starts MLflow, which takes as long as the drawing, where the newest run is, if the report is to be kept there."""
    from tfbench.errors import TrackingError
    from tfbench.runs.run_maker import choose_place, server_of

    runs = sorted(comparison.runs, key=lambda run: run.created)
    before = store.read_state(runs[-1].run_id) if runs else None
    place = choose_place(store, tracking_uri=None, experiment=None, before=before)
    is_own = server_of(place, store) is None and store.database.is_file()
    if not (is_own if to_mlflow is None else to_mlflow):
        return None
    try:
        tracker = make_tracker(place.tracking_uri, place.experiment, store, named)
    except TrackingError as error:
        _warn(error)
        return None
    tracker.begin("prepare")
    return tracker


def _is_report(path: Path) -> bool:
    from tfbench.report.html_report import GENERATOR

    with contextlib.suppress(OSError):
        if path.is_file():
            with path.open("rb") as file:
                return GENERATOR.encode() in file.read(_HEAD_BYTES)
    return False


def _log(store: "Store", contents: "ReportContents", page: str, tracker: "Tracker") -> Iterator[str]:
    """Keeps the report in MLflow, and says so; what goes wrong there is a warning."""
    from tfbench.errors import TrackingError
    from tfbench.report.figures import png

    name, tags, params = _describe(contents)
    files = {"report.html": page.encode(), **{plot.name: png(plot) for plot in contents.plots}}
    try:
        with waiting("keeping the report in MLflow"):
            tracked = tracker.log_report(name, files, tags, created=contents.created, params=params)
        yield f"MLflow: run {name} ({tracked.run_id}), file report.html."
        if contents.plan:
            yield f"`{store.command('ui', '--sweep', contents.plan.sweep_id)}` shows it among the runs of the sweep."
    except TrackingError as error:
        _warn(error)


def _warn(error: Exception) -> None:
    click.echo(f"Warning: the report is not in MLflow: {error}", err=True)


def _describe(contents: "ReportContents") -> tuple[str, dict[str, str], dict[str, str]]:
    """Returns what the report's run in MLflow is called, the same for the same runs, its tags and its params."""
    import hashlib

    from tfbench.records.sweep import ROUND_TAG, SWEEP_TAG, format_value
    from tfbench.tracking.mlflow_sweep_view import param_of
    from tfbench.tracking.mlflow_view import RESULT_TAG

    tags = {RESULT_TAG: next(iter(contents.verdict), "") or "no verdict", ROUND_TAG: "all"}
    if plan := contents.plan:
        varied = {param_of(one.key): ", ".join(map(format_value, one.values)) for one in plan.variations}
        return f"report-{plan.sweep_id}", {SWEEP_TAG: plan.sweep_id, **tags}, {"setup": "all", **varied}
    ids = sorted(run.run_id for run in contents.comparison.runs)
    return f"report-{hashlib.sha256(' '.join(ids).encode()).hexdigest()[:12]}", tags, {}
