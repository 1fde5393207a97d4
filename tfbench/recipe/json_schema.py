"""The JSON schema of recipe files, by which editors check, complete and explain them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pydantic
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from tfbench.recipe import registry
from tfbench.recipe.meanings import read_meanings
from tfbench.recipe.sections import DatasetConfig, Reference
from tfbench.recipe.tables import SECTIONS, THREADS, VARIABLE_SECTIONS
from tfbench.schema import to_plain

_DRAFT = "http://json-schema.org/draft-07/schema#"  # the newest one that editors of TOML know
_CODE = {"type": "string", "pattern": r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", "description": "Your own function."}
_HEADINGS = {
    "model": "Which network, and what it takes.",
    "dataset": "Which data set, whether it is the real one, and what it takes.",
    "sweep": "What `tfbench sweep` varies, unless told otherwise: from a key, in quotes, to a list of values.",
    "reference": "Published figures, to stand beside yours.",
}
_TABLES = {"properties", "patternProperties", "$defs"}  # of schemas, by names that could be words of a schema, too
Schema = dict[str, Any]


class _Generator(GenerateJsonSchema):
    """Writes down what a class of a recipe takes, with what its keys mean."""

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        written = super().dataclass_schema(schema)
        for key, meaning in read_meanings(schema["cls"]).items():
            written["properties"][key]["description"] = meaning
        for field in dataclasses.fields(schema["cls"]):
            if field.default_factory is not dataclasses.MISSING:
                written["properties"][field.name]["default"] = to_plain(field.default_factory())
        for key, value in written["properties"].items():
            if "const" in value and value.pop("default", None):  # it tells choices apart, so that it must be there
                written["required"] = [key, *written.get("required", [])]
        return written


def recipe_schema() -> Schema:
    """Returns the schema of a recipe file, draft 7: every table and key, unknown ones refused.

    It knows of a key what can be said of it alone. What contradicts another key, `tfbench validate` finds.
    """
    definitions: Schema = {}
    properties = {name: _describe(cls, definitions) for name, cls in SECTIONS.items()}
    properties["model"] = _named_table("models", definitions, {})
    data = _describe(DatasetConfig, definitions)["properties"]["data"]
    properties["dataset"] = _named_table("datasets", definitions, {"data": data})
    properties["sweep"] = _sweep_table()
    properties["reference"] = {"type": "array", "items": _describe(Reference, definitions)}
    for name, heading in _HEADINGS.items():
        properties[name]["description"] = heading
    return {
        "$schema": _DRAFT,
        "title": "tfbench recipe",
        "description": "One workload, and how to measure it.",
        **_table(properties, required=["recipe", "model", "dataset", "training"]),
        "definitions": dict(sorted(definitions.items())),
    }


def _describe(cls: type, definitions: Schema) -> Schema:
    """Returns the schema of a class, and adds those of the classes within it to `definitions`."""
    adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(cls)
    written = _simplify(adapter.json_schema(schema_generator=_Generator, ref_template="#/definitions/{model}"))
    for name, inner in written.pop("$defs", {}).items():
        if definitions.setdefault(name, inner) != inner:
            raise ValueError(f"two classes of recipes are named {name}")
    return dict(written)


def _simplify(schema: Any) -> Any:
    """Returns what pydantic writes as draft 7 has it, and without what TOML has no word for: null."""
    if isinstance(schema, list):
        return [_simplify(element) for element in schema]
    if not isinstance(schema, Mapping):
        return schema
    simple = {key: _simplify(value) for key, value in schema.items() if key not in ("title", "discriminator", *_TABLES)}
    for key in sorted(_TABLES & schema.keys()):
        simple[key] = {name: _simplify(inner) for name, inner in schema[key].items()}
    if "prefixItems" in simple:
        simple["items"] = simple.pop("prefixItems")
        simple["additionalItems"] = False
    if "patternProperties" in simple:
        simple["additionalProperties"] = False
    if simple.get("default", 0) is None:
        del simple["default"]
    choices = [choice for choice in simple.get("anyOf", []) if choice != {"type": "null"}]
    if len(choices) == 1:
        del simple["anyOf"]
        simple = choices[0] | simple
    return simple


def _named_table(kind: registry.Kind, definitions: Schema, own: Schema) -> Schema:
    """Returns the schema of a table whose `name` says what else it takes: one choice a name, and one for your code."""
    choices = []
    for name, summary in registry.list_names(kind).items():
        config = _describe(registry.load(kind, name).Config, definitions)
        required = config.get("required", [])
        choices.append(
            _table(
                {"name": {"const": name, "description": summary}, **own, **config["properties"]},
                # The file of a saved network says by itself which model it is.
                required=required if name == "keras_file" else ["name", *required],
            )
            | {"title": name, "description": config["description"]}
        )
    code = _table({"name": _CODE, **own}, required=["name"]) | {"title": "package.module:function"}
    code["additionalProperties"] = True
    return {"type": "object", "oneOf": [*choices, code]}


def _sweep_table() -> Schema:
    values = {"type": "array", "minItems": 1}
    table = _table({THREADS: values | {"description": "Both thread settings of [training]."}}, required=[])
    sections = "|".join(VARIABLE_SECTIONS)
    return table | {"patternProperties": {rf"^({sections})\..+$": values}}


def _table(properties: Schema, *, required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
