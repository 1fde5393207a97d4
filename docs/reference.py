"""Writes docs/reference/ from the classes of a recipe and from Click: `python docs/reference.py`.

A test fails where the files are not what this writes.
"""

import ast
import collections
import dataclasses
import html
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pydantic
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from tfbench import metrics
from tfbench.cli import cli
from tfbench.errors import ExitCode
from tfbench.recipe import registry
from tfbench.recipe.sections import RecipeFile
from tfbench.recipe.toml_text import format_inline
from tfbench.recipe.value_types import VARIABLE_SECTIONS
from tfbench.schema import meanings_of, to_plain

ROOT = Path(__file__).parents[1]
_NOTICE = "<!-- Written by docs/reference.py: edit what it reads, and run it again. -->"
_MANY = 3  # commands that have an option, for it to stand in the table of shared ones
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
    pages = {
        "commands": _commands(),
        "recipe": _recipe(),
        "models": _named("Models", "models"),
        "datasets": _named("Data sets", "datasets"),
        "metrics": _metrics(),
        "exit-codes": _exit_codes(),
    }
    return {f"docs/reference/{name}.md": _page(*lines) for name, lines in pages.items()}


def _page(title: str, *lines: str) -> str:
    return "\n".join([title, "", _NOTICE, *lines]) + "\n"


def _commands() -> Iterator[str]:
    yield "# Commands"
    yield ""
    yield "`tfbench COMMAND --help` has the same."
    root = click.Context(cli, info_name="tfbench", **cli.context_settings)
    commands = {
        name: command
        for name in cli.list_commands(root)
        if (command := cli.get_command(root, name))
    }
    contexts = {
        name: click.Context(command, info_name=name, parent=root)
        for name, command in commands.items()
    }
    options = {name: list(_options(command, contexts[name])) for name, command in commands.items()}
    numbers = collections.Counter(row for rows in options.values() for row in rows)
    shared = {row: None for row, number in numbers.items() if number >= _MANY}
    yield from ("", "## Shared options", "")
    yield from _table(("option", "meaning"), list(shared))
    for name, command in commands.items():
        yield from ("", f"## tfbench {name}", "")
        yield from (
            "```text",
            *command.get_usage(contexts[name]).removeprefix("Usage: ").splitlines(),
            "```",
            "",
        )
        yield from _help_text(command.help or "")
        if own := [row for row in options[name] if row not in shared]:
            yield from _table(("option", "meaning"), own)
        if others := [
            f"`{row[0].strip('`').split()[0].rstrip(',')}`"
            for row in options[name]
            if row in shared
        ]:
            yield from (
                *([""] if own else []),
                f"[Shared options](#shared-options): {', '.join(others)}.",
            )


def _options(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """Yields names and meaning of each option of a command."""
    for option in command.params:
        is_shown = isinstance(option, click.Option) and not option.hidden
        if is_shown and (record := option.get_help_record(context)):
            yield f"`{record[0]}`", re.sub(r"\s+", " ", record[1])


def _help_text(text: str) -> Iterator[str]:
    """Yields a command's help; what Click prints as it stands, its examples, is a block."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in paragraph.strip().splitlines()]
        if lines[0] == "\b":
            yield from ("```text", *lines[1:], "```", "")
        else:
            yield from (*lines, "")


def _recipe() -> Iterator[str]:
    sections = _describe(RecipeFile)["properties"]
    yield "# Recipe"
    yield ""
    yield (
        "Every key of a recipe file. Unknown keys are errors. `tfbench show RECIPE --toml` prints"
        " them all."
    )
    for section in _SECTIONS:
        table = sections[section]
        if section in ("model", "dataset"):
            page, kind = ("models", "model") if section == "model" else ("datasets", "data set")
            yield from ("", f"## `[{section}]`", "", table["description"], "")
            rows = [
                _row("name", {"type": "string", "description": f"Which {kind}."}, is_required=True)
            ]
            if section == "dataset":
                rows.append(_row("data", table["properties"]["data"], is_required=False))
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
            yield from _keys(section, table, depth=2)


def _named(title: str, kind: registry.Kind) -> Iterator[str]:
    section = kind.removesuffix("s")
    yield f"# {title}"
    yield ""
    yield f"What `[{section}]` takes besides its `name`."
    names = registry.list_names(kind)
    if kind == "datasets":
        names["tfds:fashion_mnist"] = "Or any other data set of tensorflow-datasets."
    for name, summary in names.items():
        table = _describe(registry.find_config(kind, name))
        yield from ("", f"## {name}", "", summary, "", table["description"], "")
        if table["properties"]:
            yield from _rows_and_inner(section, table, depth=2)


class _Generator(GenerateJsonSchema):
    """Writes down what a class of a recipe takes, with what its keys mean."""

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        written = super().dataclass_schema(schema)
        for key, meaning in meanings_of(schema["cls"]).items():
            written["properties"][key]["description"] = meaning
        for field in dataclasses.fields(schema["cls"]):
            if field.default_factory is not dataclasses.MISSING:
                written["properties"][field.name]["default"] = to_plain(field.default_factory())
        for key, value in written["properties"].items():
            if "const" in value and value.pop(
                "default", None
            ):  # it tells choices apart, so that it must be there
                written["required"] = [key, *written.get("required", [])]
        return written


def _describe(cls: type[Any] | None) -> dict[str, Any]:
    """Returns the schema of a class, with those of the classes within it in their places."""
    adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(cls)
    written = adapter.json_schema(schema_generator=_Generator)
    return dict(_simplify(written, written.get("$defs", {})))


def _simplify(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Returns a schema without references, and without what TOML has no word for: null."""
    if isinstance(schema, list):
        return [_simplify(element, definitions) for element in schema]
    if not isinstance(schema, Mapping):
        return schema
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]] | schema
    simple = {
        key: _simplify(value, definitions)
        for key, value in schema.items()
        if key not in ("$ref", "$defs")
    }
    if simple.get("default", 0) is None:
        del simple["default"]
    choices = [choice for choice in simple.get("anyOf", []) if choice != {"type": "null"}]
    return choices[0] | simple if len(choices) == 1 else simple


def _keys(path: str, table: Mapping[str, Any], *, depth: int) -> Iterator[str]:
    """Yields the heading of a table of a recipe, its keys, and the tables in it."""
    is_array = table["type"] == "array"
    table = table["items"] if is_array else table
    tags = [(key, _tag(value)) for key, value in table["properties"].items() if _tag(value)]
    tag = f", `{tags[0][0]} = {tags[0][1]}`" if tags else ""
    yield from (
        "",
        f"{'#' * depth} `{f'[[{path}]]' if is_array else f'[{path}]'}`{tag}",
        "",
        table["description"],
        "",
    )
    yield from _rows_and_inner(path, table, depth=depth)


def _rows_and_inner(path: str, table: Mapping[str, Any], *, depth: int) -> Iterator[str]:
    required = table.get("required", ())
    yield from _table(
        _KEY_HEADS,
        [
            _row(key, value, is_required=key in required)
            for key, value in table["properties"].items()
        ],
    )
    for key, value in table["properties"].items():
        is_array = value.get("type") == "array" and "items" in value
        inner = value["items"] if is_array else value
        for choice in inner.get("oneOf", [inner]):
            if "properties" in choice:
                found = {"type": "array", "items": choice} if is_array else choice
                yield from _keys(f"{path}.{key}", found, depth=depth + 1)


def _tag(value: Mapping[str, Any]) -> str:
    """Returns what tells this table from others in its place: "adam"; else nothing."""
    is_tag = "const" in value or str(value.get("description")).startswith("Chooses ")
    return (
        " or ".join(map(format_inline, value.get("enum", [value.get("const")]))) if is_tag else ""
    )


def _row(key: str, value: Mapping[str, Any], *, is_required: bool) -> tuple[str, ...]:
    default = (
        "required"
        if is_required
        else f"`{format_inline(value['default'])}`"
        if "default" in value
        else "not set"
    )
    return f"`{key}`", _takes(value), default, value["description"]


def _takes(value: Mapping[str, Any]) -> str:
    """Says what a key takes."""
    if "const" in value or "enum" in value:
        return ", ".join(
            f"`{format_inline(choice)}`" for choice in value.get("enum", [value.get("const")])
        )
    match value.get("type"):
        case "integer" | "number" as kind:
            return f"{kind}{_range(value)}"
        case "boolean":
            return "`true` or `false`"
        case "string":
            return "text"
        case "array" if "prefixItems" in value:
            return f"list of {len(value['prefixItems'])}: {_takes(value['prefixItems'][0])}"
        case "array":
            inner = _takes(value["items"]) if "items" in value else "values"
            if inner == "table":
                return "list of tables"
            if "`, `" in inner:
                return f"list of any of {inner}"
            return f"list of {inner}"
        case "object" if "properties" not in value:
            inner = [
                *value.get("patternProperties", {}).values(),
                value.get("additionalProperties"),
            ]
            return "table" if inner[0] is True else f"table of {_takes(inner[0])}"
        case _:
            return "table"


def _range(value: Mapping[str, Any]) -> str:
    limits = {
        "from": value.get("minimum"),
        "above": value.get("exclusiveMinimum"),
        "to": (
            None if "exclusiveMaximum" in value else value.get("maximum")
        ),  # the one below is less
        "below": value.get("exclusiveMaximum"),
    }
    words = [f"{word} {limit:,.10g}" for word, limit in limits.items() if limit is not None]
    return "".join(f", {word}" for word in words)


def _metrics() -> Iterator[str]:
    yield "# Metrics"
    yield ""
    yield (
        "Names are the same in JSON, in MLflow and in tables. JSON documents and journals have all"
        " of them."
    )
    yield ""
    yield (
        f"MLflow has what runs are compared by: {_names(metrics.TRACKED_METRICS)}, costs, and the"
        " parts of a profile;"
    )
    yield (
        f"after each epoch {_names(metrics.LEARNING_METRICS)}, and under `by_epoch/`"
        f" {_names(metrics.EPOCH_SERIES)}."
    )
    for title, found in (
        ("Of runs", metrics.METRICS),
        ("Of profiles", metrics.PROFILE_METRICS),
        (
            "Of a setup of a sweep, in MLflow: `by_batch_size/...` with a step for each size",
            metrics.CURVE_METRICS,
        ),
    ):
        yield from ("", f"## {title}", "")
        rows = [(f"`{name}`", one.unit, one.better, one.meaning) for name, one in found.items()]
        yield from _table(("metric", "unit", "better", "meaning"), rows)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _exit_codes() -> Iterator[str]:
    yield "# Exit codes"
    yield ""
    yield from _table(
        ("code", "meaning"), [(str(code.value), meaning) for code, meaning in _read_exit_codes()]
    )
    yield ""
    yield (
        "With `--format json`, a command that ends with an error before it prints its document"
        " prints"
    )
    yield (
        '`{"error": {"type": ..., "message": ...}}` on stdout; stderr has the same text as without.'
    )


def _read_exit_codes() -> Iterator[tuple[ExitCode, str]]:
    """Yields each exit code with the text below it."""
    (cls,) = ast.parse(inspect.getsource(ExitCode)).body
    _, *lines = cls.body if isinstance(cls, ast.ClassDef) else []
    texts = [ast.literal_eval(line.value) for line in lines if isinstance(line, ast.Expr)]
    yield from zip(ExitCode, (" ".join(text.split()) for text in texts), strict=True)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in [heads, ["---"] * len(heads), *rows]:
        yield f"| {' | '.join(map(_cell, row))} |"


def _cell(text: str) -> str:
    """Returns a text as a cell. Some readers of Markdown show the escape of a pipe in backticks."""
    if "|" not in text:
        return text
    code = r'<code class="choices">\1</code>'
    with_tags = re.sub(r"`([^`]*)`", code, html.escape(text, quote=False))
    return with_tags.replace("|", "&#124;<wbr>")


if __name__ == "__main__":
    for path, text in write_pages().items():
        (ROOT / path).write_text(text, encoding="utf-8")
