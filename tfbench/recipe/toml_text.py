"""Recipes as TOML, read as far as a recipe can hold it, and written."""

import json
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tfbench.errors import RecipeError
from tfbench.wording import shorten

Table = dict[str, Any]
_WIDTH = 100  # of a comment
_MOST_LEVELS = 32  # of a key; the time that Python takes for one grows with their square
# Texts and comments, in which dots say nothing of a key.
_OPAQUE = re.compile(
    r'''"""(?:[^\\]|\\.)*?"""|\'{3}.*?\'{3}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*''', re.DOTALL
)
_WORD = r"[\w-]+"
_DEEP_KEY = re.compile(rf"(?<![\w-]){_WORD}(?:[ \t]*\.[ \t]*{_WORD}){{{_MOST_LEVELS}}}")


def parse_toml(text: str) -> Table:
    """Returns the tables that a text holds.

    Raises:
        RecipeError: It is no TOML. The message begins with what is wrong; the caller puts the place
            in front.
    """
    if _DEEP_KEY.search(_OPAQUE.sub("text", text)):
        raise RecipeError(f"holds a key of more than {_MOST_LEVELS} levels")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"is not valid TOML: {shorten(str(error))}") from error
    except RecursionError as error:
        raise RecipeError("holds arrays or tables of too many levels") from error
    except ValueError as error:  # Python converts no more digits than some thousand
        raise RecipeError("holds an integer of more than 64 bits") from error


def read_toml(path: Path) -> Table:
    """Returns the tables that a file holds; raises as `parse_toml` does."""
    try:
        return parse_toml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecipeError(f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecipeError("is not UTF-8 text") from error


def parse_value(text: str) -> Any:
    """Returns the value that a text is behind an equals sign; raises as `parse_toml` does."""
    tables = parse_toml(f"value = {text}")
    if len(tables) > 1:
        raise RecipeError("is not valid TOML: there is more than one value")
    return tables["value"]


def format_toml(tables: Mapping[str, Any], meanings: Mapping[str, str] | None = None) -> str:
    """Returns TOML that reads back as `tables`.

    TOML knows no null: a key without a value is written as a comment, so that a reader still learns
    of it.

    Args:
        tables: Tables, and arrays of tables, of plain values.
        meanings: By dotted key, what is written above it as a comment.
    """
    return "\n\n".join(_blocks(tables, "", meanings or {})) + "\n"


def _blocks(
    table: Mapping[str, Any], path: str, meanings: Mapping[str, str], heading: str = ""
) -> Iterator[str]:
    """Yields a table, then the tables in it; TOML wants a table's own values first."""
    lines = [heading] if heading else []
    inner: list[str] = []
    for key, value in table.items():
        name = f"{path}.{_key(key)}" if path else _key(key)
        comment = textwrap.wrap(
            meanings.get(name, ""), _WIDTH, initial_indent="# ", subsequent_indent="# "
        )
        if isinstance(value, Mapping):
            inner += _blocks(value, name, meanings, "\n".join([*comment, f"[{name}]"]))
        elif _is_array_of_tables(value):
            for element in value:
                inner += _blocks(element, name, meanings, f"[[{name}]]")
        elif value is None:
            lines += [*comment, f"# {_key(key)}: not set"]
        else:
            lines += [*comment, f"{_key(key)} = {format_inline(value)}"]
    if lines:
        yield "\n".join(lines)
    yield from inner


def _is_array_of_tables(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(element, Mapping) for element in value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else format_inline(key)


def format_inline(value: Any) -> str:
    """Returns a value as TOML has it behind "=": a list in brackets, a table in braces."""
    if isinstance(value, Mapping):  # in an array of arrays
        pairs = [
            f"{_key(key)} = {format_inline(element)}"
            for key, element in value.items()
            if element is not None
        ]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(format_inline, value)) + "]"
    # Strings, numbers and booleans are written alike in JSON and TOML, but for the one control
    # character that JSON leaves as it is.
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("\x7f", "\\u007f")
