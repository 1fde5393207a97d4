"""Writes a recipe's tables as TOML, which the standard library only reads."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any


def format_toml(tables: Mapping[str, Any]) -> str:
    """Returns TOML that reads back as `tables`.

    TOML knows no null: a key without a value is written as a comment, so that a reader still learns of it.

    Args:
        tables: Tables, and arrays of tables, of plain values.
    """
    blocks: list[str] = []
    for name, content in tables.items():
        blocks += _tables(_key(name), content)
    return "\n\n".join(blocks) + "\n"


def _tables(path: str, content: Any) -> Iterator[str]:
    """Yields a table, or each of an array of tables."""
    if isinstance(content, Mapping):
        yield from _blocks(path, f"[{path}]", content)
    else:
        for element in content:
            yield from _blocks(path, f"[[{path}]]", element)


def _blocks(path: str, heading: str, table: Mapping[str, Any]) -> Iterator[str]:
    """Yields a table, then the tables in it; TOML wants a table's own values first."""
    lines = [heading]
    for key, value in table.items():
        if value is None:
            lines.append(f"# {_key(key)}: not set")
        elif not isinstance(value, Mapping) and not _is_array_of_tables(value):
            lines.append(f"{_key(key)} = {format_inline(value)}")
    yield "\n".join(lines)
    for key, value in table.items():
        if value and (isinstance(value, Mapping) or _is_array_of_tables(value)):
            yield from _tables(f"{path}.{_key(key)}", value)


def _is_array_of_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(element, Mapping) for element in value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else format_inline(key)


def format_inline(value: Any) -> str:
    """Returns one value as TOML writes it behind an equals sign: a list in brackets, a table in braces."""
    if isinstance(value, Mapping):  # in an array of arrays
        known = {key: element for key, element in value.items() if element is not None}
        return "{" + ", ".join(f"{_key(key)} = {format_inline(element)}" for key, element in known.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(format_inline, value)) + "]"
    # Strings, numbers and booleans are written alike in JSON and TOML, but for the one control character that
    # JSON leaves as it is.
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("\x7f", "\\u007f")
