"""Numbers, times and sizes as text, labelled or wrapped."""

import datetime
import re
import textwrap

_NO_BREAK = "\u00a0"
_UNIT = re.compile(r"(?<=\d) (?=[%A-Za-z])")
_COMMAND = re.compile(r"`[^`\n]+`")
# characters of a line of a text, at most, and of all lines where there is no terminal
TEXT_WIDTH = 120


def format_number(value: float | None) -> str:
    """Returns a number in six significant digits, or "-" for None.

    Counts are whole, and large numbers have no exponent.
    """
    if value is None:
        return "-"
    if abs(value) < 1e15 and float(value).is_integer():
        return f"{value:,.0f}"
    text = f"{value:.6g}"
    if abs(value) >= 1e5 and "e" in text:
        return f"{float(text):,.0f}"
    return text


def format_speed(samples_per_second: float) -> str:
    """Returns a speed in four significant digits or more: "601.4", "1,788", "53,122"."""
    digits = ",.4g" if samples_per_second < 1000 else ",.0f"
    return f"{samples_per_second:{digits}}"


def format_time(seconds: float, digits: int = 4) -> str:
    """Returns a time in so many significant digits: "812 us", "8.1 ms", "12.34 s"."""
    if seconds >= 1:
        unit = "s"
    elif seconds >= 1e-3:
        unit = "ms"
        seconds *= 1e3
    else:
        unit = "us"
        seconds *= 1e6
    rounded = float(f"{seconds:.{digits}g}")
    return f"{format_number(rounded)} {unit}"


def format_percent(share: float) -> str:
    """Returns a share in whole per cent; what rounds to nothing has no sign."""
    return f"{100 * round(share, 2) + 0.0:.0f} %"


def format_si(value: float, unit: str, digits: int = 3) -> str:
    """Returns a figure with the prefix that suits its size: "812 MFLOP/s", "65.5 kJ"."""
    for prefix in ("", "k", "M", "G", "T"):
        if float(f"{value:.{digits}g}") < 1000:
            return f"{value:.{digits}g} {prefix}{unit}"
        value /= 1000
    return f"{value:.{digits}g} P{unit}"


def format_rate(steps_per_second: float) -> str:
    """Returns a speed as "12.3 steps/s", or as "1.5 s a step" of long ones."""
    if steps_per_second < 1:
        return f"{format_time(1 / steps_per_second, 3)} a step"
    return f"{steps_per_second:.1f} steps/s"


_DAY = 24 * 3600.0  # seconds
_DAYS = 2  # from which on hours do not matter


def format_clock(seconds: float | None) -> str:
    """Returns a time left as "0:07", "1:02:03" or "3 days"; "-:--" where it is not known yet."""
    if seconds is None:
        return "-:--"
    if seconds >= _DAYS * _DAY:
        return f"{seconds / _DAY:,.0f} days"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_guess(seconds: float) -> str:
    """Returns a time that nobody knows well: "45 s", "21 min", "2 h 10 min", "3 days"."""
    if seconds >= _DAYS * _DAY:
        return f"{seconds / _DAY:,.0f} days"
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    if not hours:
        return f"{minutes} min"
    if not minutes:
        return f"{hours} h"
    return f"{hours} h {minutes} min"


def format_date(seconds: float) -> str:
    """Returns a time since 1970 to the minute: "2026-03-01 14:05 UTC"."""
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M} UTC"


def format_bytes(num_bytes: float) -> str:
    """Returns a size in MiB, or GiB from one of them on."""
    mebibytes = num_bytes / 2**20
    return f"{mebibytes / 1024:.2f} GiB" if mebibytes >= 1024 else f"{mebibytes:.0f} MiB"


def wrap(text: str, width: int, *, first: str = "") -> list[str]:
    """Wraps at spaces only, never between a number and its unit.

    An address must stay in one piece to be copied.
    """
    lines = textwrap.wrap(
        _UNIT.sub(_NO_BREAK, text),
        width,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_NO_BREAK, " ") for line in lines] or [first.rstrip()]


def wrap_message(message: str, width: int) -> str:
    """Wraps the long lines of a message, but keeps commands in backquotes whole."""
    kept = _COMMAND.sub(lambda command: command[0].replace(" ", _NO_BREAK), message)
    lines = []
    for line in kept.split("\n"):
        if len(line) > width:
            lines += wrap(line, width)
        else:
            lines.append(line.replace(_NO_BREAK, " "))
    return "\n".join(lines)
