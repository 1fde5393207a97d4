"""Numbers in words: a count with its noun, a share in per cent, from where to where."""

import math
from collections.abc import Sequence

_UNBOUNDED = 10.0  # a share from which its digits say nothing more


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
