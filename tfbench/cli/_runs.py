"""Making the runs that a command asks for, and showing them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfbench.cli._measuring import Measuring
    from tfbench.records.observer import Observer
    from tfbench.records.run import RunRequest
    from tfbench.report.run.console import Detail, RunConsole
    from tfbench.runs.limits import RunOutcome
    from tfbench.runs.maker import RunMaker
    from tfbench.runs.stored import Run
    from tfbench.store.tracking_state import TrackingState


def open_maker(measuring: "Measuring", before: "TrackingState | None" = None) -> "RunMaker":
    """Returns what makes the runs of a command, kept and tracked where it was told.

    Args:
        measuring: What the command was given.
        before: Where what is to go on, a run or a sweep, was tracked; it holds unless the command says otherwise.
    """
    from tfbench.cli._store import make_tracker
    from tfbench.runs.maker import RunMaker, choose_place

    store = measuring.store
    state = choose_place(store, tracking_uri=measuring.tracking_uri, experiment=measuring.experiment, before=before)
    if measuring.no_mlflow:
        return RunMaker(store, state, None)
    tracker = make_tracker(state.tracking_uri, state.experiment, store, measuring.tracking_uri)
    return RunMaker(store, state, tracker)


class ShownRuns:
    """Makes the runs of a command, and shows them on consoles.

    Args:
        measuring: What the command was given.
        before: As of `open_maker`.
        detail: Of a run that is shown alone.
    """

    def __init__(
        self,
        measuring: "Measuring",
        before: "TrackingState | None" = None,
        *,
        detail: "Detail" = "short",
    ) -> None:
        self.as_json = measuring.as_json
        self.detail = detail
        self.maker = open_maker(measuring, before)
        self._limits = measuring.limits
        self._warned: set[str] = set()

    def make(self, request: "RunRequest", observer: "Observer | None" = None) -> "RunOutcome":
        """Makes a run, shown as a table of epochs and a summary unless another observer is given."""
        return self.maker.make(request, observer or self.open_console(), self._limits)

    def make_brief(self, request: "RunRequest", label: str, *, is_aside: bool = False) -> "RunOutcome":
        """Makes a run of a series, shown in a line that begins with a label; on stderr, if it is none of the result."""
        from tfbench.report.run.brief_console import BriefConsole

        if self.as_json and self.detail == "quiet":
            return self.make(request)
        console = BriefConsole(
            label,
            self._warned,
            quiet_stdout=self.as_json or is_aside,
            server=self.maker.server,
            is_tracked=self.maker.tracker is not None,
        )
        return self.make(request, console)

    def show(self, outcome: "RunOutcome") -> None:
        """Shows a run that is over as one that is made alone is shown."""
        from tfbench.runs.stored import run_of

        show_run(run_of(outcome, self.maker.store), self.open_console())

    def open_console(self) -> "RunConsole":
        """Returns what shows a run alone."""
        from tfbench.report.run.console import RunConsole

        return RunConsole(quiet_stdout=self.as_json, detail=self.detail, server=self.maker.server)


def show_run(run: "Run", console: "RunConsole") -> None:
    """Shows a run that is over as one that is made is shown."""
    from tfbench.tracking.run_files import list_files

    console.ready(run.result)
    for epoch in run.result.epochs:
        console.epoch(epoch)
    files = [str(path) for path in list_files(run.journal)]
    console.finish(run.result, run.summary, run.tracked, str(run.journal), files)
