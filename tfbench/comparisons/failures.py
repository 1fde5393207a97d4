"""Why a configuration has no speed under a setup, and which runs of a sweep are missing."""

from typing import NamedTuple

from tfbench.comparisons.equality import Settings

LOST = "LOST"  # outcome of a run that was started, and of which no journal says what came of it
UNKNOWN = ("MISSING", LOST)  # outcomes that a run which is made tells


class MissingRuns(NamedTuple):
    """How many runs of a sweep are still to be made."""

    command: str  # that makes them
    num_planned: int
    num_missing: int  # not made, or lost
    num_lost: int


class Failure(NamedTuple):
    """A configuration under a setup that has no speed: which ones, how it ended and why."""

    configuration: Settings
    setup: str
    outcome: str
    reason: str
