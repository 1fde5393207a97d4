"""Writes docs/reference/ and recipes/recipe.schema.json from the classes and from Click: `python docs/reference.py`.

A test fails where the files are not what this writes.
"""

import ast
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tfbench import metrics
from tfbench.cli import cli
from tfbench.errors import ExitCode
from tfbench.recipe.json_schema import recipe_schema
from tfbench.recipe.toml_text import format_inline
from tfbench.recipe.value_types import VARIABLE_SECTIONS

ROOT = Path(__file__).parents[1]
_NOTICE = "<!-- Written by docs/reference.py: edit what it reads, and run it again. -->"
_KEY_HEADS = ("key", "takes", "default", "meaning")
_SECTIONS = (
    "recipe",
    "model",
    "dataset",
    "training",
    "distribution",
    "measurement",
    "output",
    "expect",
    "sweep",
    "reference",
    "cost",
)


def write_pages() -> dict[str, str]:
    """Returns every file, by its path from the folder of the project."""
    schema = recipe_schema()
    pages = {
        "commands": _commands(),
        "recipe": _recipe(schema),
        "models": _named("Models", "model", schema),
        "datasets": _named("Data sets", "dataset", schema),
        "metrics": _metrics(),
        "exit-codes": _exit_codes(),
    }
    files = {f"docs/reference/{name}.md": _page(*lines) for name, lines in pages.items()}
    return files | {"recipes/recipe.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n"}


def _page(title: str, *lines: str) -> str:
    return "\n".join([title, "", _NOTICE, *lines]) + "\n"


def _commands() -> Iterator[str]:
    yield "# Commands"
    yield ""
    yield "`tfbench COMMAND --help` has the same."
    root = click.Context(cli, info_name="tfbench", **cli.context_settings)
    for name in cli.list_commands(root):
        command = cli.get_command(root, name)
        if command is None:
            raise LookupError(name)
        context = click.Context(command, info_name=name, parent=root)
        yield from ("", f"## tfbench {name}", "")
        yield from ("```text", *command.get_usage(context).removeprefix("Usage: ").splitlines(), "```", "")
        yield from _help_text(command.help or "")
        options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
        records = [record for option in options if (record := option.get_help_record(context))]
        if records:
            rows = [(f"`{names}`", re.sub(r"\s+", " ", text)) for names, text in records]
            yield from _table(("option", "meaning"), rows)


def _help_text(text: str) -> Iterator[str]:
    """Yields a command's help; what Click prints as it stands, its examples, is a block."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in paragraph.strip().splitlines()]
        if lines[0] == "\b":
            yield from ("```text", *lines[1:], "```", "")
        else:
            yield from (*lines, "")


def _recipe(schema: Mapping[str, Any]) -> Iterator[str]:
    definitions = schema["definitions"]
    yield "# Recipe"
    yield ""
    yield (
        "Every key of a recipe file. Unknown keys are errors. `tfbench show RECIPE --toml` prints a recipe with every "
        "default, and `tfbench schema` this page for editors."
    )
    for section in _SECTIONS:
        table = _resolve(schema["properties"][section], definitions)
        if section in ("model", "dataset"):
            page, kind = ("models", "model") if section == "model" else ("datasets", "data set")
            yield from ("", f"## `[{section}]`", "", table["description"], "")
            rows = [_row("name", {"type": "string", "description": f"Which {kind}."}, is_required=True)]
            if section == "dataset":
                rows.append(_row("data", table["oneOf"][0]["properties"]["data"], is_required=False))
            yield from _table(_KEY_HEADS, rows)
            yield from ("", f"The other keys are those of the {kind}: [{page}]({page}.md).")
        elif section == "sweep":
            yield from ("", "## `[sweep]`", "", table["description"], "")
            meanings = {
                f"{name}.KEY": f'Any key of [{name}], in quotes: `"{name}.KEY" = [32, 512]`.'
                for name in VARIABLE_SECTIONS
            }
            rows = [
                _row(key, {"type": "array", "description": meaning}, is_required=False)
                for key, meaning in meanings.items()
            ]
            yield from _table(_KEY_HEADS, rows)
        else:
            yield from _keys(section, table, definitions, depth=2)


def _named(title: str, section: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {title}"
    yield ""
    yield f"What `[{section}]` takes besides its `name`."
    for choice in schema["properties"][section]["oneOf"]:
        if choice["additionalProperties"]:
            continue  # your own function, which takes what it takes
        properties = {key: value for key, value in choice["properties"].items() if key not in ("name", "data")}
        yield from ("", f"## {choice['title']}", "", choice["properties"]["name"]["description"], "")
        yield from (choice["description"], "")
        if properties:
            table = choice | {"properties": properties}
            yield from _rows_and_inner(section, table, schema["definitions"], depth=2)


def _keys(path: str, table: Mapping[str, Any], definitions: Mapping[str, Any], *, depth: int) -> Iterator[str]:
    """Yields the heading of a table of a recipe, its keys, and the tables in it."""
    is_array = table.get("type") == "array"
    table = _resolve(table["items"] if is_array else table, definitions)
    tags = [(key, _tag(value)) for key, value in table["properties"].items() if _tag(value)]
    tag = f", `{tags[0][0]} = {tags[0][1]}`" if tags else ""
    yield from ("", f"{'#' * depth} `{f'[[{path}]]' if is_array else f'[{path}]'}`{tag}", "", table["description"], "")
    yield from _rows_and_inner(path, table, definitions, depth=depth)


def _rows_and_inner(
    path: str, table: Mapping[str, Any], definitions: Mapping[str, Any], *, depth: int
) -> Iterator[str]:
    required = table.get("required", ())
    yield from _table(
        _KEY_HEADS, [_row(key, value, is_required=key in required) for key, value in table["properties"].items()]
    )
    for key, value in table["properties"].items():
        is_array = value.get("type") == "array" and isinstance(value["items"], dict)
        inner = value["items"] if is_array else value
        for choice in inner.get("oneOf", [inner]):
            if "$ref" in choice:
                found = {"type": "array", "items": choice} if is_array else _resolve(choice, definitions)
                yield from _keys(f"{path}.{key}", found, definitions, depth=depth + 1)


def _resolve(value: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns what a schema stands for that names a definition."""
    inner: Mapping[str, Any] = definitions[value["$ref"].rpartition("/")[2]] if "$ref" in value else value
    return inner


def _tag(value: Mapping[str, Any]) -> str:
    """Returns what tells this table from others in its place: "adam"; else nothing."""
    is_tag = "const" in value or str(value.get("description")).startswith("Chooses ")
    return " or ".join(map(format_inline, value.get("enum", [value.get("const")]))) if is_tag else ""


def _row(key: str, value: Mapping[str, Any], *, is_required: bool) -> tuple[str, ...]:
    default = "required" if is_required else f"`{format_inline(value['default'])}`" if "default" in value else "not set"
    return f"`{key}`", _takes(value), default, value["description"]


def _takes(value: Mapping[str, Any]) -> str:
    """Says what a key takes."""
    if "const" in value or "enum" in value:
        return ", ".join(f"`{format_inline(choice)}`" for choice in value.get("enum", [value.get("const")]))
    match value.get("type"):
        case "integer" | "number" as kind:
            return f"{kind}{_range(value)}"
        case "boolean":
            return "`true` or `false`"
        case "string":
            return "text"
        case "array" if isinstance(value.get("items"), list):
            return f"list of {len(value['items'])}: {_takes(value['items'][0])}"
        case "array":
            inner = _takes(value["items"]) if "items" in value else "values"
            return f"list of {'tables' if inner == 'table' else f'any of {inner}' if '`, `' in inner else inner}"
        case "object":
            inner = [*value.get("patternProperties", {}).values(), value.get("additionalProperties")]
            return "table" if inner[0] is True else f"table of {_takes(inner[0])}"
        case _:
            return "table"


def _range(value: Mapping[str, Any]) -> str:
    limits = {
        "from": value.get("minimum"),
        "above": value.get("exclusiveMinimum"),
        "to": None if "exclusiveMaximum" in value else value.get("maximum"),  # the one below is less
        "below": value.get("exclusiveMaximum"),
    }
    words = [f"{word} {limit:,.10g}" for word, limit in limits.items() if limit is not None]
    return "".join(f", {word}" for word in words)


def _metrics() -> Iterator[str]:
    yield "# Metrics"
    yield ""
    yield "Names are the same in JSON, in MLflow and in tables. JSON documents and journals have all of them."
    yield ""
    yield f"MLflow has what runs are compared by: {_names(metrics.TRACKED_METRICS)}, costs, and the parts of a profile;"
    yield f"after each epoch {_names(metrics.LEARNING_METRICS)}, and under `by_epoch/` {_names(metrics.EPOCH_SERIES)}."
    for title, found in (
        ("Of runs", metrics.METRICS),
        ("Of profiles", metrics.PROFILE_METRICS),
        ("Of a setup of a sweep, in MLflow: `by_batch_size/...` with a step for each size", metrics.CURVE_METRICS),
    ):
        yield from ("", f"## {title}", "")
        rows = [(f"`{name}`", one.unit, one.better.value, one.meaning) for name, one in found.items()]
        yield from _table(("metric", "unit", "better", "meaning"), rows)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _exit_codes() -> Iterator[str]:
    yield "# Exit codes"
    yield ""
    yield from _table(("code", "meaning"), [(str(code.value), meaning) for code, meaning in _read_exit_codes()])
    yield ""
    yield "With `--format json`, a command that ends with an error before it prints its document prints"
    yield '`{"error": {"type": ..., "message": ...}}` on stdout; stderr has the same text as without.'


def _read_exit_codes() -> Iterator[tuple[ExitCode, str]]:
    """Yields each exit code with the text below it."""
    (cls,) = ast.parse(inspect.getsource(ExitCode)).body
    _, *lines = cls.body if isinstance(cls, ast.ClassDef) else []
    texts = [ast.literal_eval(line.value) for line in lines if isinstance(line, ast.Expr)]
    yield from zip(ExitCode, (" ".join(text.split()) for text in texts), strict=True)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in [heads, ["---"] * len(heads), *rows]:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


if __name__ == "__main__":
    for path, text in write_pages().items():
        (ROOT / path).write_text(text, encoding="utf-8")
