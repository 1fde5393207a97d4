"""A recipe to begin with: the keys that it may hold, each below what it means."""

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from tfbench.errors import UnknownNameError
from tfbench.recipe import registry
from tfbench.recipe.optimizers import AdamConfig
from tfbench.recipe.sections import DatasetConfig, MeasurementConfig, OutputConfig, TrainingConfig
from tfbench.recipe.toml_text import format_inline
from tfbench.schema import meanings_of, to_plain

_WIDTH = 100
_BATCH_SIZE, _EPOCHS = 128, 10
_MIN_STEPS = 8  # of an epoch
_LAYERS = """\
[model]
name = "layers"
layer = [
    {{ type = "Flatten" }},
    {{ type = "Dense", units = 100, activation = "relu" }},
    {{ type = "Dense", units = {num_outputs} }},
]"""
_SWEEP = """\
# What `tfbench sweep` varies, unless told otherwise.
[sweep]
"training.global_batch_size" = [{}, {}, {}]"""


def write_template(model: str, dataset: str) -> str:
    """Returns a recipe file for a network and a data set: what must be chosen, and as comments what else may be.

    Args:
        model: A model of `registry.list_names`, the path of a `.keras` file, or a function of the user's.
        dataset: A data set, or such a function.

    Raises:
        UnknownNameError: There is no such model or data set.
    """
    num_outputs, num_samples = 10, _BATCH_SIZE * _MIN_STEPS  # of a user's data, of which only its code knows more
    data = _table("dataset", f"name = {format_inline(dataset)}", "# Its arguments, such as: samples = 1000")
    if not registry.is_code(dataset):
        module = registry.load("datasets", dataset)
        spec = module.describe(module.Config())
        num_outputs, num_samples = spec.num_classes or 0, spec.train_samples
        keys = *_keys(DatasetConfig, {"data": "real"}), *_keys(module.Config, to_plain(module.Config()))
        data = _table("dataset", f"name = {format_inline(dataset)}", *keys)
    batch_size = min(_BATCH_SIZE, num_samples // _MIN_STEPS)
    training = {"global_batch_size": batch_size, "epochs": _EPOCHS}
    loss = {} if num_outputs else {"loss": "mean_squared_error"}
    blocks = [
        _table("recipe", f"title = {format_inline(f'{model} on {dataset}')}", 'source = "my own"'),
        _model_table(model, num_outputs or 1),
        data,
        _table("training", *_keys(TrainingConfig, training | loss, has_rest=True)),
        _table("training.optimizer", *_keys(AdamConfig, to_plain(AdamConfig()))),
        _table("measurement", *_keys(MeasurementConfig, {}, has_rest=True)),
        _table("output", *_keys(OutputConfig, {}, has_rest=True)),
        _SWEEP.format(batch_size // 4 or 1, batch_size, batch_size * 4),
    ]
    return "\n\n".join(blocks) + "\n"


def _model_table(model: str, num_outputs: int) -> str:
    if registry.is_code(model):
        return _table("model", f"name = {format_inline(model)}", "# Its arguments, such as: width = 64")
    if model.endswith(".keras"):
        return _table("model", "# Relative to this file.", f"file = {format_inline(model)}")
    if model == "keras_file":
        raise UnknownNameError("--model keras_file: name the file itself, such as net.keras.")
    if model == "layers":
        return _LAYERS.format(num_outputs=num_outputs)
    needed = {"architecture": "ResNet50"} if model == "keras_application" else {}
    config = registry.load("models", model).Config
    return _table("model", f"name = {format_inline(model)}", *_keys(config, to_plain(config(**needed))))


def _table(name: str, *lines: str) -> str:
    return "\n".join([f"[{name}]", *lines])


def _keys(cls: type, values: Mapping[str, Any], *, has_rest: bool = False) -> Iterator[str]:
    """Yields the keys of a class with these values, and with `has_rest` the others as comments, by their defaults."""
    meanings = meanings_of(cls)
    for field in dataclasses.fields(cls):
        value = values.get(field.name, field.default if has_rest else dataclasses.MISSING)
        if value is dataclasses.MISSING:
            continue
        yield from textwrap.wrap(
            meanings.get(field.name, ""), _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
        )
        mark = "" if field.name in values and value is not None else "#"
        yield f"{mark}{field.name} =" if value is None else f"{mark}{field.name} = {format_inline(value)}"
