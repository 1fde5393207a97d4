"""What a network is: its configuration and how it was compiled, as one digest.

Equal networks have equal digests in every process, on every backend and under every strategy. So
what these change is left out: names that Keras counts up, batch sizes, seeds and addresses. A
function goes by its name, since its code is in a file with a digest of its own.
"""

import functools
import hashlib
import json
import re
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfbench.models.structure import foreign_model

# The samples that a network was built with, and seeds that were drawn for it.
_LEFT_OUT = ("build_config", "build_input_shape", "seed")
# What the recipe sets in place of what `compile` was given.
_OF_RECIPE = ("optimizer", "run_eagerly", "steps_per_execution", "jit_compile")
_NAMES_LAYERS = ("inbound_nodes", "input_layers", "output_layers")


def digest_of_network(model: Any) -> str:
    """Returns what identifies a network, with its training where it came compiled.

    A network whose configuration cannot be had, such as a class of the user's own, goes by its
    class and the layers within.
    """
    things = [model, *model._flatten_layers(include_self=False, recursive=True)]
    if foreign_model.comes_compiled(model):
        given = model._compile_config.config
        things.append(model.optimizer)
        things.append({name: given[name] for name in given if name not in _OF_RECIPE})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of functions, which could not be saved
        parts = [_describe_safely(thing) for thing in things]
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _describe_safely(thing: Any) -> Any:
    """Returns the configuration of a thing; its class alone where that holds what cannot be read.

    A value may refer to itself, or be of a class with conversions of its own.
    """
    try:
        return _describe(thing)
    except Exception:
        return _name_of(type(thing))


def _describe(value: Any) -> Any:
    """Returns a value of a configuration in the words of JSON, the same in every process."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return re.sub(r"\b0x[0-9a-f]+\b", "0x", value)
    if isinstance(value, Mapping):
        return _describe_table(value)
    if isinstance(value, list | tuple | set | frozenset):
        described = [_describe(item) for item in value]
        is_unordered = isinstance(value, set | frozenset)
        return sorted(described, key=json.dumps) if is_unordered else described
    if isinstance(value, functools.partial):
        return [_describe(value.func), _describe(value.args), _describe(value.keywords)]
    if hasattr(value, "__qualname__"):
        return _name_of(value)
    if hasattr(value, "get_config"):
        return [_name_of(type(value)), _describe(_read_config(value))]
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        if array.dtype.hasobject:  # whose bytes are addresses
            return _describe(array.tolist())
        contents = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
        return [str(array.dtype), list(array.shape), contents]
    return _name_of(type(value))


def _describe_table(table: Mapping[Any, Any]) -> Any:
    """Returns a configuration's table without what differs between processes."""
    if table.get("class_name") == "__keras_tensor__":
        return _describe(table["config"]["keras_history"])
    code = table.get("value")
    if len(table) == 1 and isinstance(code, list | tuple) and len(code) == 3:
        return ["lambda", *_describe(code[1:])]  # its byte code holds the file's whole path
    table = _number_layers(table)
    described = {}
    for key, value in table.items():
        is_named = key == "config" and isinstance(value, Mapping)
        if is_named and not str(table.get("class_name")).endswith("DTypePolicy"):
            value = {name: item for name, item in value.items() if name != "name"}
        if key == "batch_shape":
            value = value and [None, *value[1:]]
        if key not in _LEFT_OUT:
            described[str(key)] = _describe(value)
    return described


def _number_layers(table: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Returns the configuration of a graph with places in place of its layers' names."""
    layers = table.get("layers")
    if not isinstance(layers, list) or not all(isinstance(layer, Mapping) for layer in layers):
        return table
    places = {layer.get("name"): place for place, layer in enumerate(layers)}

    def number(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: number(item) for key, item in value.items()}
        if not isinstance(value, list | tuple):
            return value
        if len(value) == 3 and isinstance(value[0], str) and value[0] in places:
            return [places[value[0]], *value[1:]]
        return [number(item) for item in value]

    numbered = []
    for layer in layers:
        unnamed = {key: value for key, value in layer.items() if key != "name"}
        numbered.append(_replace(unnamed, number))
    return _replace({**table, "layers": numbered}, number)


def _replace(table: Mapping[Any, Any], number: Any) -> dict[Any, Any]:
    """Returns a table whose references to layers are numbered."""
    return {key: number(value) if key in _NAMES_LAYERS else value for key, value in table.items()}


def _read_config(thing: Any) -> Any:
    """Returns the configuration of a thing of Keras without its name; None where it has none."""
    try:
        config = dict(thing.get_config())
    except Exception:  # of the user's code, or of Keras where the user wrote none
        return None
    if not type(thing).__name__.endswith("DTypePolicy"):
        config.pop("name", None)
    return config


def _name_of(thing: Any) -> str:
    """Returns the module and name of a class or function."""
    # A file whose module's name was taken has a folder behind it; some of Python's have none.
    module = str(getattr(thing, "__module__", "")).partition(" of ")[0]
    if module.startswith("keras."):
        module = "keras"  # each backend may have a class of its own for the same
    return f"{module}.{thing.__qualname__}"
