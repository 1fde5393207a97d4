"""What was made by one command, as a list of what a store holds shows it."""

import dataclasses
from typing import Literal

Kind = Literal["run", "profile", "repeats", "trial", "sweep", "scaling"]
STATUSES = ("FINISHED", "FAILED", "KILLED", "RUNNING", "INCOMPLETE", "UNREADABLE")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class HistoryEntry:
    """Something that was made by one command.

    Attributes:
        kind: A crossover is kept as a sweep, a check as repeats; a trial is what `--fast` found its settings by.
        id: Of the run, of the sweep, or of the group of runs.
        created: Seconds since 1970, UTC; None: that cannot be read.
        recipe: By its name.
        setups: Strategies and devices, the baseline first.
        num_runs: That are stored.
        status: That of a run; of several FINISHED where all did, FAILED where one did not, INCOMPLETE where some were
            not made, and RUNNING where one is under way.
        samples_per_second: Of a single run that finished and trained.
        reason: Why it ended otherwise, or cannot be read.
    """

    kind: Kind
    id: str
    created: float | None = None
    recipe: str = ""
    setups: tuple[str, ...] = ()
    num_runs: int = 1
    status: str
    samples_per_second: float | None = None
    reason: str = ""
