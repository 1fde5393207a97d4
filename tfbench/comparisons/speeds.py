"""Speeds and speed-ups in words and figures, the same wherever they are shown."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tfbench.comparisons.comparison import Comparison
from tfbench.comparisons.entries import Entry
from tfbench.comparisons.intervals import Interval
from tfbench.comparisons.judging import Speedup, describe_ratio
from tfbench.comparisons.questions import MARGIN
from tfbench.show.formats import format_speed
from tfbench.show.table import Column
from tfbench.store.brief import NETWORK_KEY
from tfbench.sweeps.plan import BATCH_KEY
from tfbench.wording import format_share

if TYPE_CHECKING:
    from rich.text import Text

MARKS = {
    "faster": "+",
    "slower": "-",
    "equal": "=",
    "too noisy to tell": "!",
    "suggested": "~",
    "not judged": "?",
    "between sessions": "s",
}
_COLORS = {"faster": "green", "slower": "red"}
_BETWEEN_SESSIONS = MARKS["between sessions"]
_WORDS = {
    "equal": f"equal within {MARGIN}",
    "too noisy to tell": "inconclusive",
    "suggested": "hint",
    "not judged": "not judged (too few runs)",
}
# half of an interval's width over its center, beyond which it bounds a speed by nothing
_USELESS = 1.0
_OUTCOMES = {"MISSING": "not measured", "REJECTED": "rejected", "SKIPPED": "failed"}


def legend(comparison: Comparison, *, is_full: bool) -> list[str]:
    """Returns the meaning of the signs and figures in a comparison's table, in one line.

    None where there are no speed-ups. Without `is_full`, it points to `tfbench help results`.
    """
    names = set()
    for speedup in comparison.all_speedups():
        names.add(_name_of(speedup))
        if speedup.is_between_sessions:
            names.add("between sessions")
    if not names:
        return []
    meanings = ["Ratios [95 % CI]"]
    if is_full:
        meanings = ["Geometric means of runs", "ratios [95 % CI]"]
    for name, sign in MARKS.items():
        if name in names:
            meanings.append(f"{sign} {_WORDS.get(name, name)}")
    if any(entry.session_speeds for entry in comparison.all_entries()):
        meanings.append("to: slowest and fastest session")
    end = "" if is_full else " More: tfbench help results"
    return [f"{', '.join(meanings)}.{end}"]


def outcome_word(entry: Entry) -> str:
    """Returns in a word or two why an entry has no speed: "out of memory", "not measured"."""
    reason = entry.reason.partition(":")[0]
    if reason in ("timed out", "out of memory"):
        return reason
    return _OUTCOMES.get(entry.outcome, entry.outcome.lower())


def speed_text(entry: Entry) -> str:
    """Returns "12,345", "9,876 to 12,345" where sessions differ, or why there is no speed."""
    if entry.speed is None:
        return outcome_word(entry)
    speeds = entry.session_speeds or (entry.speed,)
    return _format_range([format_speed(speed) for speed in speeds])


def _format_range(sorted_texts: Sequence[str]) -> str:
    """Returns "1", "1 to 3", "" of none."""
    return " to ".join([*sorted_texts[:1], *sorted_texts[1:][-1:]])


def with_interval(text: str, interval: Interval | None) -> str:
    """Returns a figure with half of its interval: "12,345 ± 2.1 %".

    "(noisy)" where chance could double it.
    """
    if interval is None:
        return text
    if interval.relative_half_width > _USELESS:
        return f"{text} (noisy)"
    return f"{text} ± {format_share(interval.relative_half_width)}"


def speedup_text(entry: Entry) -> str:
    """Returns "1.62x [1.58, 1.66] +", "s" after the sign between sessions; "" for the baseline."""
    speedup = entry.speedup
    if speedup is None:
        return "unequal" if entry.unequal else ""
    sessions = _BETWEEN_SESSIONS if speedup.is_between_sessions else ""
    return f"{describe_ratio(speedup)} {mark(speedup)}{sessions}"


def mark(speedup: Speedup) -> str:
    """Returns the sign that stands for what may be said of a speed-up."""
    return MARKS[_name_of(speedup)]


def _name_of(speedup: Speedup) -> str:
    return "suggested" if speedup.is_suggested else speedup.finding


def color_speedups(line: "Text") -> "Text":
    """Colours speed-ups of a line, as `speedup_text` writes them, that are faster or slower."""
    for finding, color in _COLORS.items():
        sign = re.escape(MARKS[finding])
        line.highlight_regex(rf"[\d.,]+x(?: \[[^\]]*\])? {sign}(?=\s|$)", color)
    return line


def round_columns(comparison: Comparison, *, is_live: bool) -> list[Column]:
    """Returns the columns of rounds, and of what they decide while a sweep goes on.

    Comparisons of other runs have none.
    """
    adds_rounds = bool(comparison.looks.rounds)
    columns = []
    if adds_rounds or is_live:
        columns.append(Column("rounds", "rounds", rank=0 if is_live else 3))
    if adds_rounds and is_live:
        columns.append(Column("decided", "decided"))
    return columns


def round_cells(entries: Iterable[Entry], speedups: Collection[Speedup]) -> dict[str, Any]:
    """Returns the texts of those columns, and as "is_open" whether anything is undecided.

    Args:
        entries: Of the table's row.
        speedups: Of all pairs of setups that the row tells of.
    """
    numbers = sorted({len(entry.runs) for entry in entries} - {0})
    num_decided = sum(speedup.is_decided for speedup in speedups)
    is_open = num_decided < len(speedups)
    if not speedups:
        decided = ""
    elif not is_open:
        decided = "yes"
    elif num_decided:
        decided = f"{num_decided} of {len(speedups)}"
    elif any(speedup.next_look for speedup in speedups):
        decided = "not yet"
    else:
        decided = "no"  # no more rounds are made
    return {
        "rounds": _format_range(list(map(str, numbers))),
        "decided": decided,
        "is_open": is_open,
    }


def short_key(key: str) -> str:
    """Returns a dotted key as the title of a column."""
    titles = {BATCH_KEY: "batch", NETWORK_KEY: "network"}
    return titles.get(key) or key.rpartition(".")[2]
