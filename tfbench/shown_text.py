r"""Text as it may be shown: without passwords, and without characters that a terminal, a table or a page would obey.

Titles, names, notes, hardware and errors come from recipes and journals that others may have written. What would be
obeyed is written as it stands in JSON and TOML, "\u001b", so that it is seen and read back.
"""

import contextlib
import re

# Control characters but for tab and newline; what turns the direction of text; separators of lines; halves of
# characters, as names that are no UTF-8 have them, and which cannot be printed.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_OBEYED_IN_A_LINE = re.compile(_OBEYED.pattern.replace("\x08\x0b-", ""))

_USER = re.compile(r"""(?<=://)([^\s"<>@/:]*)(:?)([^\s"<>]*)@""")
_QUERY = re.compile(
    r"""([?&;](?:[\w.-]*(?:token|passw(?:or)?d|pwd|secret|odbc_connect)"""
    r"""|(?:[\w.-]*[_.-])?(?:api|access)?(?:key|auth|signature|sig|credentials?))=)[^&\s"<>]+""",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """Returns text with "***" for the passwords and tokens that are in its addresses."""
    return _QUERY.sub(r"\1***", _USER.sub(_without_password, text))


def clean(text: str) -> str:
    """Returns text of one line or several, with the codes of the characters that a terminal would obey."""
    return _OBEYED.sub(_code, text)


def one_line(text: str) -> str:
    """Returns text as `clean` does, in one line."""
    return _OBEYED_IN_A_LINE.sub(_code, text)


def csv_cell(value: object) -> object:
    """Returns what a cell of a CSV file may hold: no text that a spreadsheet would take for a formula."""
    if not isinstance(value, str):
        return value
    with contextlib.suppress(ValueError):
        float(value)
        return value
    return one_line(f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) and value != "-" else value)


def markdown_text(text: str) -> str:
    """Returns text as Markdown that keeps to its cell and line, and has no link, picture or HTML in it."""
    escaped = re.sub(r"[\\|]|\](?=[(\[:])", r"\\\g<0>", one_line(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;")


def _code(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _without_password(match: re.Match[str]) -> str:
    user, colon, rest = match.groups()  # a password may hold "/" and "@", as a path may: https://host.org:80/@name
    is_host = not user or "." in user or user == "localhost"
    if is_host and re.match(r"\d{1,5}/" if colon else "/", rest):
        return match[0]
    return f"{user}:***@" if colon else "***@"
