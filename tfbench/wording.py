r"""Words of messages, and text as it may be shown.

Titles, names, notes, hardware and errors come from recipes and journals that others may have
written. Passwords are masked in them, and characters that a terminal, a table or a page would obey
are written as they stand in JSON and TOML, "\u001b", so that they are seen and read back.
"""

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

DEFAULT_STORE = "mlruns"
# of a message, in characters; the longest of our own, lists of known keys, are half of that
LONGEST_LINE = 1000
_COMMAND = re.compile(r"(`(?:tfbench|mlflow) [^`\n]*`)")
_UNBOUNDED = 10.0  # a share from which its digits say nothing more

# Control characters but for tab and newline; what turns the direction of text; separators of lines;
# halves of characters, as names that are no UTF-8 have them, and which cannot be printed.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_OBEYED_IN_A_LINE = re.compile(_OBEYED.pattern.replace("\x08\x0b-", ""))
_USER = re.compile(r"""(?<=://)([^\s"<>@/:]*)(:?)([^\s"<>]*)@""")
_QUERY = re.compile(
    r"""([?&;](?:[\w.-]*(?:token|passw(?:or)?d|pwd|secret|odbc_connect)"""
    r"""|(?:[\w.-]*[_.-])?(?:api|access)?(?:key|auth|signature|sig|credentials?))=)[^&\s"<>]+""",
    re.IGNORECASE,
)


def shorten(text: str, limit: int = 80) -> str:
    """Returns what somebody gave as a message repeats it: in one line, cut in its middle."""
    line = " ".join(text.splitlines())
    if len(line) <= limit:
        return line
    tail = limit // 4
    return f"{line[: limit - tail]} ... {line[-tail:]}"


def cut(text: str, limit: int) -> str:
    """Returns a text cut to `limit` characters, with a final "..." if it was cut."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def shorten_lines(message: str, given: Iterable[str] = ()) -> str:
    """Returns a message of some lines, none of them endless, whatever was put into it.

    Args:
        message: Its text.
        given: What somebody typed and the message may repeat, each of which is to take one line.
            Commands that the message advises keep it whole, so that they can be typed.
    """
    for words in given:
        short = shorten(words)
        parts = _COMMAND.split(message)
        parts[::2] = [part.replace(words, short) for part in parts[::2]]
        message = "".join(parts)
    return "\n".join(shorten(line, LONGEST_LINE) for line in message.split("\n"))


def command_line(*words: str, store: Path | str = DEFAULT_STORE) -> str:
    """Returns a tfbench command as a shell takes it.

    It names the store unless that is the default one.
    """
    command = ["tfbench", *words]
    if str(store) != DEFAULT_STORE:
        command += ["--store", str(store)]
    return shlex.join(command)


def allowing_words(allows_code: bool) -> tuple[str, ...]:
    """Returns the option of a command that calls functions of the user's, if it does."""
    return ("--allow-code",) if allows_code else ()


def store_of(journal: Path | str) -> Path | str:
    """Returns the store that holds a run's or a sweep's journal, the default one if none does."""
    folder = Path(journal).parent
    return folder.parent if folder.name in ("journals", "sweeps", "tasks") else DEFAULT_STORE


def count(number: int, noun: str) -> str:
    """Returns "1 step", "2,000 steps"."""
    ending = "" if number == 1 else "s"
    return f"{number:,} {noun}{ending}"


def join_words(words: Sequence[str]) -> str:
    """Returns "a", "a and b", "a, b and c"."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def format_share(share: float) -> str:
    """Returns a share in per cent, with as many digits as it deserves.

    For example "3.1 %", "0.12 %", "25 %", "over 1,000 %".
    """
    if share > _UNBOUNDED:
        return f"over {100 * _UNBOUNDED:,.0f} %"
    percentage = 100 * share
    digits = 2
    if percentage >= 10:
        digits = 0
    elif percentage >= 1:
        digits = 1
    return f"{percentage:.{digits}f} %"


def without_secrets(text: str) -> str:
    """Returns text with "***" for the passwords and tokens that are in its addresses."""
    return _QUERY.sub(r"\1***", _USER.sub(_without_password, text))


def clean(text: str) -> str:
    """Returns text with control characters replaced by their codes.

    A terminal would obey such characters. The text may have several lines.
    """
    return _OBEYED.sub(_code, text)


def one_line(text: str) -> str:
    """Returns text as `clean` does, in one line."""
    return _OBEYED_IN_A_LINE.sub(_code, text)


def markdown_text(text: str) -> str:
    """Returns text as Markdown in one table cell, without links, images or HTML."""
    escaped = re.sub(r"[\\|]|\](?=[(\[:])", r"\\\g<0>", one_line(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;")


def _code(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _without_password(match: re.Match[str]) -> str:
    # A password may hold "/" and "@", as a path may: https://host.org:80/@name
    user, colon, rest = match.groups()
    scheme = match.string[max(0, match.start() - 8) : match.start()].lower()
    is_web = scheme.endswith(("http://", "https://"))
    # A database's driver takes all up to the "@" for the password.
    can_be_host = is_web or not colon
    is_host = not user or (can_be_host and ("." in user or user == "localhost"))
    if is_host and re.match(r"\d{1,5}/" if colon else "/", rest):
        return match[0]
    return f"{user}:***@" if colon else "***@"
