"""The JSON schema of recipe files, by which editors check, complete and explain them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pydantic
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from tfbench.recipe import registry
from tfbench.recipe.sections import RecipeFile
from tfbench.schema import meanings_of, to_plain

_DRAFT = "http://json-schema.org/draft-07/schema#"  # the newest one that editors of TOML know
_CODE = {"type": "string", "pattern": r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", "description": "Your own function."}
_TABLES = {"properties", "patternProperties", "$defs"}  # of schemas, by names that could be words of a schema, too
Schema = dict[str, Any]


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
            if "const" in value and value.pop("default", None):  # it tells choices apart, so that it must be there
                written["required"] = [key, *written.get("required", [])]
        return written


def recipe_schema() -> Schema:
    """Returns the schema of a recipe file, draft 7: every table and key, unknown ones rejected.

    It knows of a key what can be said of it alone. What contradicts another key, `tfbench validate` finds.
    """
    definitions: Schema = {}
    schema = _describe(RecipeFile, definitions)
    properties = schema["properties"]
    for value in properties.values():
        value.pop("default", None)  # each key has its own
    del definitions["ModelConfig"]
    data = definitions.pop("DatasetConfig")["properties"]["data"]
    properties["model"] = _named_table(properties["model"], "models", definitions, {})
    properties["dataset"] = _named_table(properties["dataset"], "datasets", definitions, {"data": data})
    return {"$schema": _DRAFT, "title": "tfbench recipe", **schema, "definitions": dict(sorted(definitions.items()))}


def _describe(cls: type, definitions: Schema) -> Schema:
    """Returns the schema of a class, and adds those of the classes within it to `definitions`."""
    adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(cls)
    written = _simplify(adapter.json_schema(schema_generator=_Generator, ref_template="#/definitions/{model}"))
    definitions |= written.pop("$defs", {})
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


def _named_table(table: Schema, kind: registry.Kind, definitions: Schema, own: Schema) -> Schema:
    """Returns the schema of a table whose `name` says what else it takes: one choice a name, and one for your code."""
    choices = []
    for name, summary in registry.list_names(kind).items():
        config = _describe(registry.load(kind, name).Config, definitions)
        # The file of a saved network says by itself which model it is.
        required = [*(["name"] if name != "keras_file" else []), *config.get("required", [])]
        properties = {"name": {"const": name, "description": summary}, **own, **config["properties"]}
        choices.append(config | {"title": name, "properties": properties, "required": required})
    code = {"type": "object", "properties": {"name": _CODE, **own}, "required": ["name"], "additionalProperties": True}
    choices.append(code | {"title": "package.module:function"})
    return {"description": table["description"], "type": "object", "oneOf": choices}
