"""What can go wrong, and the exit code that goes with it."""

import difflib
import enum
from collections.abc import Iterable, Mapping
from typing import Any

# the type of every backend's error about memory that could not be had
OUT_OF_MEMORY = "out of memory"


class ExitCode(enum.IntEnum):
    """Exit codes of every `tfbench` command."""

    DONE = 0
    """Done."""
    RUN_FAILED = 1
    """A run failed or was killed; what it measured is kept."""
    USAGE = 2
    """Wrong usage, recipe, device or data: nothing was run, nothing was stored.

    Or things that cannot be compared, an output that cannot be written, or runs of a store that
    cannot be read (all others are done).
    """
    REGRESSION = 3
    """`tfbench check` found a regression."""
    INTERRUPTED = 130
    """Interrupted, by Ctrl-C, SIGTERM or SIGHUP."""
    PIPE_CLOSED = 141
    """The reader of the output has gone, as `head` does."""


class TfbenchError(Exception):
    """Something that the user can mend.

    Its text says where, what was expected, what was received.
    """

    exit_code = ExitCode.USAGE


class RecipeError(TfbenchError):
    """A recipe, or a value that overrides one, is not valid."""


class UnknownNameError(TfbenchError):
    """A recipe, model, data set, run or command of this name does not exist."""


class DeviceError(TfbenchError):
    """The devices that were asked for are not there, or cannot be used together."""


class WorkersError(TfbenchError):
    """Workers that are to train together did not meet, or do not fit together."""


class DatasetError(TfbenchError):
    """Data is missing, unreachable or damaged."""


class TrackingError(TfbenchError):
    """The store, or the tracking server, cannot be used."""


class SilentServerError(TrackingError):
    """A tracking server did not answer in time, or its answer had no end.

    To ask it again at once would take as much again.
    """


class MeasurementError(TfbenchError):
    """A run started, but what it measured cannot be used."""

    exit_code = ExitCode.RUN_FAILED


class ComparisonError(TfbenchError):
    """Two things were to be compared that cannot be."""


class OutputError(TfbenchError):
    """A file cannot be written, or another one is in its way; what was measured is stored."""


class Notice(UserWarning):
    """A warning that belongs in a run's record.

    It is given while the run's data or model are made.
    """


class InterruptedRunError(TfbenchError):
    """The user, or the system, asked a command to stop."""

    exit_code = ExitCode.INTERRUPTED


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns " Did you mean 'x'?" for the known name nearest to `name`, else ""."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean '{close[0]}'?" if close else ""


def describe_recorded(error: Mapping[str, Any]) -> str:
    """Returns a measuring process's error in words: its kind, and what it said.

    Args:
        error: As the journal has it: type, message.
    """
    kind = OUT_OF_MEMORY if error["type"] == "ResourceExhaustedError" else error["type"]
    return f"{kind}: {error['message']}"
