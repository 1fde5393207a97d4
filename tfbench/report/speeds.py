"""Speeds and speed-ups in words and figures, the same wherever they are shown."""

from tfbench.measure.comparison import Entry

MARKS = {"faster": "+", "slower": "-", "no measurable difference": "=", "not judged": "?"}
LEGEND = (
    "+ faster, - slower than the baseline; = no measurable difference: the interval holds 1, or the difference is "
    "below the noise floor; ? one run each, not judged. Speeds are geometric means over processes, and speed-ups "
    "ratios of these; intervals are 95 %."
)
_USELESS = 1.0  # half of an interval's width over its center, beyond which it bounds a speed by nothing
_OUTCOMES = {"MISSING": "not measured", "REFUSED": "refused", "SKIPPED": "failed"}


def outcome_word(entry: Entry) -> str:
    """Returns in a word or two why an entry has no speed: "out of memory", "not measured"."""
    short = entry.reason.partition(":")[0]
    known = ("timed out", "out of memory")
    return short if short in known else _OUTCOMES.get(entry.outcome, entry.outcome.lower())


def speed_text(entry: Entry) -> str:
    """Returns "12,345 +-2.1%", or why there is no speed; "(not bounded)" where chance could double it."""
    if entry.speed is None:
        return outcome_word(entry)
    text = f"{entry.speed:,.4g}" if entry.speed < 1000 else f"{entry.speed:,.0f}"
    if entry.interval:
        half_width = entry.interval.relative_half_width
        text += f" +-{100 * half_width:.1f}%" if half_width <= _USELESS else " (not bounded)"
    return text


def speedup_text(entry: Entry) -> str:
    """Returns "1.62 [1.58, 1.66] +"; "" for the baseline."""
    speedup = entry.speedup
    if speedup is None:
        return "unequal" if entry.unequal else ""
    interval = (
        f" [{speedup.low:.2f}, {speedup.high:.2f}]" if speedup.low is not None and speedup.high is not None else ""
    )
    return f"{speedup.ratio:.2f}{interval} {MARKS[speedup.judgement]}"


def milliseconds_text(seconds: float | None) -> str:
    """Returns three significant digits, whole numbers from 1,000 on; "-" for what is not known."""
    if seconds is None:
        return "-"
    milliseconds = 1e3 * seconds
    return f"{milliseconds:,.0f}" if milliseconds >= 1000 else f"{milliseconds:.3g}"
