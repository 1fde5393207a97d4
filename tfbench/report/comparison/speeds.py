"""Speeds and speed-ups in words and figures, the same wherever they are shown."""

from collections.abc import Iterable
from typing import Any

from tfbench.analysis.comparison.comparison import Comparison, Entry
from tfbench.analysis.comparison.intervals import Interval
from tfbench.analysis.comparison.speedup import Speedup
from tfbench.records.sweep import BATCH_KEY
from tfbench.report.formats import format_speed
from tfbench.wording import format_share

MARKS = {"faster": "+", "slower": "-", "no measurable difference": "=", "too noisy to tell": "!", "not judged": "?"}
SUGGESTED = "~"
_MEANINGS = {
    MARKS["faster"]: "faster",
    MARKS["slower"]: "slower",
    MARKS["no measurable difference"]: "no measurable difference",
    MARKS["too noisy to tell"]: "inconclusive",
    SUGGESTED: "hint",
    MARKS["not judged"]: "not judged (one run)",
}
_MANY = 2.0  # times the speed, from which on nobody thinks in per cent
_USELESS = 1.0  # half of an interval's width over its center, beyond which it bounds a speed by nothing
_OUTCOMES = {"MISSING": "not measured", "REFUSED": "refused", "SKIPPED": "failed"}


def legend(comparisons: Iterable[Comparison]) -> str:
    """Returns what the signs mean that occur in the tables of comparisons, and what their figures are."""
    entries = [entry for one in comparisons for row in one.rows for entry in row.entries.values()]
    marks = {mark(entry.speedup) for entry in entries if entry.speedup}
    told = ", ".join(f"{sign} {meaning}" for sign, meaning in _MEANINGS.items() if sign in marks)
    return f"{told}{'. ' if told else ''}Geometric mean of runs ± 95 % interval."


def outcome_word(entry: Entry) -> str:
    """Returns in a word or two why an entry has no speed: "out of memory", "not measured"."""
    short = entry.reason.partition(":")[0]
    known = ("timed out", "out of memory")
    return short if short in known else _OUTCOMES.get(entry.outcome, entry.outcome.lower())


def speed_text(entry: Entry) -> str:
    """Returns "12,345 ± 2.1 %", or why there is no speed; "(± > 100 %)" where chance could double it."""
    if entry.speed is None:
        return outcome_word(entry)
    return with_interval(format_speed(entry.speed), entry.interval)


def with_interval(text: str, interval: Interval | None) -> str:
    """Returns a figure with half of its interval: "12,345 ± 2.1 %"; "(± > 100 %)" where chance could double it."""
    if interval is None:
        return text
    half_width = interval.relative_half_width
    return f"{text} ± {format_share(half_width)}" if half_width <= _USELESS else f"{text} (± > 100 %)"


def speedup_text(entry: Entry) -> str:
    """Returns "1.62 [1.58, 1.66] +"; "" for the baseline."""
    speedup = entry.speedup
    if speedup is None:
        return "unequal" if entry.unequal else ""
    interval = (
        f" [{speedup.low:.2f}, {speedup.high:.2f}]" if speedup.low is not None and speedup.high is not None else ""
    )
    return f"{speedup.ratio:.2f}{interval} {mark(speedup)}"


def mark(speedup: Speedup) -> str:
    """Returns the sign that stands for what may be said of a speed-up."""
    return SUGGESTED if speedup.is_suggested else MARKS[speedup.finding]


def change_text(ratio: float, other: str) -> str:
    """Returns "5.3 % slower than A" or "2.0 % faster than A"; from twice the speed on "3.07 times as fast as A"."""
    return f"{_times(ratio)} times as fast as {other}" if ratio >= _MANY else f"{_share_text(ratio)} than {other}"


def _times(ratio: float) -> str:
    return f"{ratio:.3g}" if ratio < 1000 else f"{ratio:,.0f}"


def _share_text(ratio: float) -> str:
    return f"{format_share(1 - ratio)} slower" if ratio < 1 else f"{format_share(ratio - 1)} faster"


def interval_text(speedup: Speedup) -> str:
    """Returns " (95 %: 3.9 to 6.7 %)" where both ends are slower, or both faster; otherwise says which is which.

    What is told as a multiple has an interval of multiples: " (95 %: 2.9 to 3.2 times)".
    """
    low, high = speedup.low, speedup.high
    if low is None or high is None:
        return ""
    if speedup.ratio >= _MANY:
        between = f"{_times(low)} to {_times(high)} times"
    elif low > 1:
        between = f"{format_share(low - 1).removesuffix(' %')} to {format_share(high - 1)}"
    elif high < 1:
        between = f"{format_share(1 - high).removesuffix(' %')} to {format_share(1 - low)}"
    else:
        between = f"{_share_text(low)} to {_share_text(high)}"
    return f" ({100 * speedup.confidence:g} %: {between})"


def speedup_json(speedup: Speedup) -> dict[str, Any]:
    """Returns a speed-up as plain values; `noise_limit` is the relative difference that its runs would not show."""
    return {
        "ratio": speedup.ratio,
        "low": speedup.low,
        "high": speedup.high,
        "confidence": speedup.confidence,
        "method": speedup.method,
        "num": speedup.num,
        "paired": speedup.is_paired,
        "uses_other_settings": speedup.uses_other_settings,
        "noise_limit": speedup.noise_limit,
        "p_value": speedup.p_value,
        "family_p_value": speedup.family_p_value,
        "num_family": speedup.num_family,
        "judgement": speedup.judgement,
        "too_noisy": speedup.is_too_noisy,
        "suggested": speedup.is_suggested,
    }


def short_key(key: str) -> str:
    """Returns a dotted key as the title of a column."""
    return "batch" if key == BATCH_KEY else key.rpartition(".")[2]
