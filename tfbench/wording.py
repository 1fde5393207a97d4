"""Words of messages: a count with its noun, a share in per cent, from where to where, what somebody gave."""

import math
from collections.abc import Sequence

LONGEST_LINE = 1000  # of a message, in characters; the longest of our own, lists of known keys, are half of that
_UNBOUNDED = 10.0  # a share from which its digits say nothing more


def shorten(text: str, limit: int = 80) -> str:
    """Returns what somebody gave as a message repeats it: in one line, of a long one the beginning and the end."""
    line = " ".join(text.splitlines())
    return line if len(line) <= limit else f"{line[: limit - limit // 4]} ... {line[-(limit // 4) :]}"


def shorten_lines(message: str) -> str:
    """Returns a message of some lines, none of them endless, whatever was put into it."""
    return "\n".join(shorten(line, LONGEST_LINE) for line in message.split("\n"))


def count(number: int, noun: str) -> str:
    """Returns "1 step", "2,000 steps"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_share(share: float) -> str:
    """Returns a share in per cent, with as many digits as it deserves: "3.1 %", "0.12 %", "25 %", "over 1,000 %"."""
    if share > _UNBOUNDED:
        return f"over {100 * _UNBOUNDED:,.0f} %"
    percentage = 100 * share
    digits = 0 if percentage >= 10 else 1 if percentage >= 1 else 2
    return f"{percentage:.{digits}f} %"


def describe_span(values: Sequence[float], unit: str) -> str:
    """Returns "1.2 to 3.4 ms", or "1.2 ms" where the ends are the same."""
    low, high = (_figure(end(values, default=math.nan)) for end in (min, max))
    return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
