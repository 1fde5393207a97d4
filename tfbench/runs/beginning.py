"""What `tfbench run --dry-run` shows: a run up to its first step."""

from typing import TYPE_CHECKING

from tfbench.runs.console import RunConsole
from tfbench.runs.length import guess_seconds
from tfbench.runs.record import RunResult
from tfbench.runs.run_document import run_document
from tfbench.runs.summary import summarize_run
from tfbench.show.document import Document

if TYPE_CHECKING:
    from tfbench.runs.stored_run import Run

_NO_GUESS = (
    "i How long it takes is not guessed: that needs one process on CPUs, and a network whose"
    " operations are known."
)
_END = "Dry run: nothing was trained, and no run is stored."


class BeginningConsole(RunConsole):
    """Shows what a run is, and ends it once it is ready to train."""

    class Reached(Exception):  # noqa: N818 - no error: it ends the run as a stop does
        """The run is ready."""

    result: RunResult | None = None  # once it is ready

    def ready(self, result: RunResult) -> None:
        """Shows the run, and ends it."""
        super().ready(result)
        if guess_seconds(result) is None:
            self._print([_NO_GUESS, ""])
        self._print([_END])
        self.result = result
        raise self.Reached

    def finish(self, run: "Run") -> None:
        """Says why a run ended before it was ready."""
        self.close()
        self._print([f"{run.status}: {run.reason}"], style="bold red")


def beginning_document(result: RunResult) -> Document:
    """Returns the document of a run that is ready, with how long it may take in seconds."""
    document = run_document(result, summarize_run(result), None)
    return document | {"status": "DRY_RUN", "guessed_seconds": guess_seconds(result)}
