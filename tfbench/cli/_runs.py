"""Making the runs that a command asks for, and showing them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tfbench.cli._measuring import Measuring
    from tfbench.records.run import RunRequest
    from tfbench.records.sweep import CellResult, SweepPlan
    from tfbench.report.run.console import RunConsole
    from tfbench.runs.limits import RunLimits, RunOutcome
    from tfbench.store.tracking_state import TrackingState


class RunMaker:
    """Makes the runs of a command, all kept in one store and tracked in one place.

    Args:
        measuring: What the command was given.
        before: Where what is to go on, a run or a sweep, was tracked; it holds unless the command says otherwise.
    """

    def __init__(self, measuring: "Measuring", before: "TrackingState | None" = None) -> None:
        from tfbench.cli._store import make_tracker
        from tfbench.store.store import DEFAULT_EXPERIMENT
        from tfbench.store.tracking_state import TrackingState

        self.as_json = measuring.as_json
        self._store = measuring.store
        self._state = TrackingState(
            tracking_uri=measuring.tracking_uri or (before.tracking_uri if before else self._store.tracking_uri),
            experiment=measuring.experiment or (before.experiment if before else DEFAULT_EXPERIMENT),
        )
        self._tracker = make_tracker(
            self._state.tracking_uri, self._state.experiment, self._store, measuring.tracking_uri
        )
        self._warned: set[str] = set()

    def make(
        self, request: "RunRequest", console: "RunConsole | None" = None, limits: "RunLimits | None" = None
    ) -> "RunOutcome":
        """Makes a run, shown as a table of epochs and a summary unless another console is given."""
        from tfbench.report.run.console import RunConsole
        from tfbench.runs.limits import NO_LIMITS
        from tfbench.runs.session import execute_run

        console = console or RunConsole(quiet_stdout=self.as_json)
        try:
            return execute_run(request, self._state, self._store, self._tracker, console, limits or NO_LIMITS)
        finally:
            console.close()

    def make_brief(self, request: "RunRequest", label: str, limits: "RunLimits | None" = None) -> "RunOutcome":
        """Makes a run of a series, shown in a line that begins with a label."""
        from tfbench.report.run.brief_console import BriefConsole

        return self.make(request, BriefConsole(label, self._warned, quiet_stdout=self.as_json), limits)

    def show(self, outcome: "RunOutcome") -> None:
        """Shows a run that is over as one that is made alone is shown."""
        from tfbench.report.run.console import RunConsole
        from tfbench.runs.run_files import list_files

        console, result = RunConsole(quiet_stdout=self.as_json), outcome.result
        journal_path = self._store.journal_path(result.request.run_id)
        files = [str(path) for path in list_files(journal_path)]
        console.ready(result)
        for epoch in result.epochs:
            console.epoch(epoch)
        console.finish(result, outcome.summary, outcome.tracked, str(journal_path), files)

    def read_speeds(self, run_ids: "Iterable[str]") -> dict[str, float | None]:
        """Returns the speeds of runs that were made before, in samples per second."""
        from tfbench.store.briefs import read_briefs

        return {brief.run_id: brief.speed for brief in read_briefs(self._store, run_ids).found}

    def show_sweep(self, plan: "SweepPlan", results: "dict[int, CellResult]") -> None:
        """Writes the view of a sweep that is over into MLflow, for `tfbench ui --sweep`; failing is a warning."""
        import click

        from tfbench.errors import TrackingError
        from tfbench.sweeps.view import show_sweep

        try:
            show_sweep(self._store, plan, results, self._tracker)
        except TrackingError as error:
            click.echo(f"Warning: the sweep has no view of its own in MLflow: {error}", err=True)
