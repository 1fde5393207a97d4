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
        if isinstance(content, Mapping):
            blocks += _blocks(_key(name), f"[{_key(name)}]", content)
        else:
            for element in content:
                blocks += _blocks(_key(name), f"[[{_key(name)}]]", element)
    return "\n\n".join(blocks) + "\n"


def _blocks(path: str, heading: str, table: Mapping[str, Any]) -> Iterator[str]:
    """Yields a table, then the tables in it; TOML wants a table's own values first."""
    lines = [heading]
    for key, value in table.items():
        if value is None:
            lines.append(f"# {_key(key)}: not set")
        elif not isinstance(value, Mapping):
            lines.append(f"{_key(key)} = {_value(value)}")
    yield "\n".join(lines)
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _blocks(f"{path}.{_key(key)}", f"[{path}.{_key(key)}]", value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: Any) -> str:
    # Strings, numbers, booleans and arrays are written alike in JSON and TOML, but for the one control character that
    # JSON leaves as it is.
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("\x7f", "\\u007f")
