"""Numbers in words: a count with its noun, a share in per cent."""

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
