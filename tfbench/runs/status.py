"""How a run ends: requests to stop, and what is known of its end.

Its process wrote it down, or how the process ended shows it, or its silence does.
"""

import signal
import threading
import time
from types import FrameType
from typing import Any

from tfbench.errors import ExitCode, describe_recorded
from tfbench.runs.record import RunExit, RunResult
from tfbench.sweeps.plan import Outcome

INTERRUPTED = "interrupted by"
_SILENT = "the process that tracked it and the worker ended without a word"


# Of runs of a sweep that were never measured, whose journal has two lines.
_UNTRIED: dict[str, Outcome] = {"rejected: ": "REJECTED", "skipped: ": "SKIPPED"}


def describe_untried(outcome: Outcome, reason: str) -> RunExit:
    """Returns the end of a run of a sweep that was rejected or skipped."""
    (prefix,) = [prefix for prefix, other in _UNTRIED.items() if other == outcome]
    return RunExit(status="FAILED", reason=f"{prefix}{reason}")


def read_outcome(status: str, reason: str) -> tuple[str, str]:
    """Returns what came of a run, and why: its status, or that it was rejected or skipped."""
    for prefix, outcome in _UNTRIED.items():
        if reason.startswith(prefix):
            return outcome, reason.removeprefix(prefix)
    return status, reason


def was_untried(status: str, reason: str) -> bool:
    """Says whether a run was rejected or skipped, so that MLflow is not to have it."""
    return read_outcome(status, reason) != (status, reason)


def was_cut_short(status: str, reason: str) -> bool:
    """Says whether a run was cut short by the end of what made it.

    One that a limit or a fault of its own ended was not.
    """
    was_interrupted = status == "KILLED" and reason.startswith(INTERRUPTED)
    return was_interrupted or ended_silently(status, reason)


def ended_silently(status: str, reason: str) -> bool:
    """Says whether nobody wrote how a run ended."""
    return status == "KILLED" and reason.startswith(_SILENT)


def describe_exit(
    result: RunResult, returncode: int, *, stopped_by: str, stderr_tail: str
) -> RunExit:
    """Says how a run ended that was followed to the end of its process.

    Args:
        result: What the journal holds.
        returncode: Of the measuring process; negative: the signal that ended it.
        stopped_by: Why the parent stopped it; "" if it did not.
        stderr_tail: Shown where the process left no other reason.
    """
    written_end = _read_end(result)
    if written_end and (written_end.status == "FINISHED" or not stopped_by):
        return written_end
    if stopped_by:
        return RunExit(status="KILLED", reason=stopped_by)
    return describe_return(returncode, stderr_tail, "the measuring process")


def describe_return(returncode: int, stderr_tail: str, who: str) -> RunExit:
    """Says how a process ended that wrote nothing about it into its journal.

    `who` is what it is called.
    """
    if returncode == ExitCode.INTERRUPTED:
        return RunExit(status="KILLED", reason=f"{who} was asked to stop, by another process")
    how = f"ended with exit code {returncode}"
    if returncode < 0:
        name = signal.Signals(-returncode).name
        if name in ("SIGKILL", "SIGTERM"):
            cause = "; the system does this when memory runs out" if name == "SIGKILL" else ""
            return RunExit(status="KILLED", reason=f"{who} was killed by {name}{cause}")
        how = f"crashed with {name}"
    return RunExit(status="FAILED", reason=f"{who} {how}. {stderr_tail}".strip())


def deduce_exit(result: RunResult) -> RunExit:
    """Says how a run ended of which only the journal is left.

    Args:
        result: What the journal holds, in which there is no end.
    """
    return _read_end(result) or RunExit(
        status="KILLED", reason=f"{_SILENT}: killed, or the machine stopped"
    )


def _read_end(result: RunResult) -> RunExit | None:
    """Returns the end that the measuring process wrote down itself; None if it wrote none."""
    if result.stage == "finished":
        return RunExit(status="FINISHED", reason=result.stop_reason or "")
    if result.error is not None:
        return RunExit(status="FAILED", reason=describe_recorded(result.error))
    return None


class StopSignals:
    """Notes the first request to stop instead of dying of it.

    A second Ctrl-C ends the program where it is.

    Python tells its main thread alone of signals: elsewhere, nothing is noted, and they end the
    program as they would.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.received_at = 0.0  # on the monotonic clock
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is not threading.main_thread():
            return self
        # What the caller had ignored stays so: nohup ignores SIGHUP, a shell SIGINT for what runs
        # in the background.
        for number in self._SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        if self.received is None:
            self.received = signal.Signals(number)
            self.received_at = time.monotonic()
