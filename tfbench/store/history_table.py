"""The list of what a store holds: an entry for each command that made something, and the table."""

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from tfbench.show.formats import format_speed
from tfbench.show.table import Section, Table, facts, text_column
from tfbench.wording import count, cut

Kind = Literal["run", "profile", "repeats", "trial", "sweep", "scaling"]
_ID_CHARACTERS = 12  # a part of an id is enough for every command


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class HistoryEntry:
    """Something that was made by one command.

    Attributes:
        kind: A crossover is kept as a sweep, a check as repeats; a trial is what `--fast` found its
            settings by.
        id: Of the run, of the sweep, or of the group of runs.
        created: Seconds since 1970, UTC; None: that cannot be read.
        recipe: By its name.
        setups: Strategies and devices, the baseline first.
        changes: What the command line set of the recipe, such as "optimizer.name=sgd"; not of a
            sweep.
        num_runs: That are stored.
        status: That of a run; of several FINISHED where all did, FAILED where one did not,
            INCOMPLETE where some were not made, and RUNNING where one is under way.
        samples_per_second: Of a single run that finished and trained.
        reason: Why it ended otherwise, or cannot be read.
    """

    kind: Kind
    id: str
    created: float | None = None
    recipe: str = ""
    setups: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    num_runs: int = 1
    status: str
    samples_per_second: float | None = None
    reason: str = ""


_COLUMNS = (
    text_column("made", "date"),
    text_column("id", "id"),
    # Recipes of one family differ at their ends.
    text_column(
        "recipe",
        "recipe",
        lambda name: name if len(name) <= 20 else f"{name[:9]}...{name[-8:]}",
    ),
    text_column("result", "result"),
    text_column("setups", "setups", lambda setups: cut(", ".join(setups), 40), rank=3),
    text_column("changes", "changes", lambda changes: cut(", ".join(changes), 40), rank=1),
)


def history_section(entries: Sequence[HistoryEntry]) -> Section:
    """Returns a row for each entry, in their order, and below them why some did not finish."""
    reasons = facts((entry.id[:_ID_CHARACTERS], entry.reason) for entry in entries)
    return Section("", tables=(Table("history", _COLUMNS, list(map(_row, entries))), reasons))


def _row(entry: HistoryEntry) -> dict[str, Any]:
    if entry.samples_per_second is not None:
        result = f"{format_speed(entry.samples_per_second)} samples/s"
    elif entry.status != "FINISHED":
        result = entry.status if entry.kind == "run" else f"{entry.kind}, {entry.status}"
    elif entry.kind == "run":
        result = "no speed"
    elif entry.kind == "profile":
        result = "profile"
    else:
        result = f"{entry.kind}, {count(entry.num_runs, 'run')}"
    made = ""
    if entry.created:
        time = datetime.fromtimestamp(entry.created)
        is_of_this_year = time.year == datetime.now().year
        made = f"{time:%m-%d %H:%M}" if is_of_this_year else f"{time:%Y-%m-%d}"
    return {
        "made": made,
        "id": entry.id[:_ID_CHARACTERS],
        "recipe": entry.recipe,
        "result": result,
        "setups": entry.setups,
        "changes": entry.changes or None,
    }
