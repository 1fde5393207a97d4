"""What a store holds, as a table for the terminal."""

import datetime
from collections.abc import Sequence

from tfbench.records.history import HistoryEntry
from tfbench.report.formats import format_number, wrap
from tfbench.wording import count, cut

_HEADINGS = ("made", "kind", "id", "recipe", "result", "arms")
_ID_CHARACTERS = 12  # a part of an id is enough for every command
_MIN_LAST = 8  # characters of the last column, which alone is cut


def history_lines(entries: Sequence[HistoryEntry], width: int) -> list[str]:
    """Returns a row for each entry, and of what did not finish the reason below it.

    Args:
        entries: In the order in which they are shown.
        width: Characters of a line, kept where the columns but for the last leave room.
    """
    rows = [_HEADINGS, *map(_row, entries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS) - 1)]
    room = max(width - sum(widths) - 2 * len(widths), _MIN_LAST)
    lines = []
    for row, entry in zip(rows, (None, *entries), strict=True):
        cells = [cell.ljust(size) for cell, size in zip(row, widths, strict=False)]
        lines.append("  ".join([*cells, cut(row[-1], room)]).rstrip())
        if entry and entry.reason:
            lines += wrap(entry.reason, width, first=" " * (widths[0] + 2))
    return lines


def _row(entry: HistoryEntry) -> tuple[str, ...]:
    made = f"{datetime.datetime.fromtimestamp(entry.created):%Y-%m-%d %H:%M}" if entry.created else ""
    result = entry.status if entry.status != "FINISHED" else count(entry.num_runs, "run")
    if entry.samples_per_second is not None:
        result = f"{format_number(entry.samples_per_second)} samples/s"
    return made, entry.kind, entry.id[:_ID_CHARACTERS], entry.recipe, result, ", ".join(entry.arms)
