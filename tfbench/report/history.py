"""What a store holds, as a table for the terminal."""

import datetime
from collections.abc import Sequence

from tfbench.records.history import HistoryEntry
from tfbench.report.formats import format_speed, wrap
from tfbench.wording import count, cut

_HEADINGS = ("made", "kind", "id", "recipe", "result", "arms")
_ID_CHARACTERS = 12  # a part of an id is enough for every command
_DATE_CHARACTERS = 10  # of a moment, without its time of day
_RECIPE = 3  # the place of its column
_MIN_RECIPE = 12  # characters
_MIN_ARMS = 12  # characters, below which arms say nothing


def history_lines(entries: Sequence[HistoryEntry], width: int) -> list[str]:
    """Returns a row for each entry, and of what did not finish the reason below it.

    Args:
        entries: In the order in which they are shown.
        width: Characters of a line. Where it does not suffice, arms are cut, then left out, then recipes are cut; then
            the time of day is left out.
    """
    rows = [_HEADINGS, *map(_row, entries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    room = width - sum(widths[:-1]) - 2 * len(widths[:-1])
    widths[-1] = min(widths[-1], room) if room >= _MIN_ARMS else 0
    missing = -2 - room
    if missing > 0:
        widths[_RECIPE] = max(_MIN_RECIPE, widths[_RECIPE] - missing)
    if sum(widths) + 2 * (len(widths) - 2) > width:
        widths[0] = _DATE_CHARACTERS
    lines = []
    for row, entry in zip(rows, (None, *entries), strict=True):
        row = (*row[:_RECIPE], cut(row[_RECIPE], widths[_RECIPE]), *row[_RECIPE + 1 :])
        cells = [cell[:size].ljust(size) for cell, size in zip(row[:-1], widths[:-1], strict=True)]
        lines.append("  ".join([*cells, *([cut(row[-1], room)] if widths[-1] else [])]).rstrip())
        if entry and entry.reason:
            lines += wrap(entry.reason, width, first=" " * (widths[0] + 2))
    return lines


def _row(entry: HistoryEntry) -> tuple[str, ...]:
    made = f"{datetime.datetime.fromtimestamp(entry.created):%Y-%m-%d %H:%M}" if entry.created else ""
    result = entry.status
    if result == "FINISHED":
        result = "no speed" if entry.kind == "run" else count(entry.num_runs, "run")
    if entry.samples_per_second is not None:
        result = f"{format_speed(entry.samples_per_second)} samples/s"
    return made, entry.kind, entry.id[:_ID_CHARACTERS], entry.recipe, result, ", ".join(entry.arms)
