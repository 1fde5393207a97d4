"""A recipe to begin with: the keys that it may hold, each below what it means."""

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from tfbench.errors import UnknownNameError
from tfbench.recipe import registry
from tfbench.recipe.meanings import read_meanings
from tfbench.recipe.optimizers import AdamConfig
from tfbench.recipe.sections import DatasetConfig, MeasurementConfig, OutputConfig, TrainingConfig
from tfbench.recipe.toml_text import format_inline
from tfbench.schema import to_plain

_WIDTH = 100
_BATCH_SIZE, _EPOCHS = 128, 10
_MIN_STEPS = 8  # of an epoch
_HIDDEN_UNITS = 100
# What has no default, since there is no network without it.
_NEEDED: Mapping[str, Mapping[str, Any]] = {"keras_application": {"architecture": "ResNet50"}}


def write_template(model: str, dataset: str) -> str:
    """Returns a recipe file for a network and a data set: what must be chosen, and as comments what else may be.

    Args:
        model: A model of `registry.list_names`, the path of a `.keras` file, or a function of the user's.
        dataset: A data set, or such a function.

    Raises:
        UnknownNameError: There is no such model or data set.
    """
    if model == "keras_file":
        raise UnknownNameError("--model keras_file: name the file itself, such as net.keras.")
    num_outputs, num_samples = _ask_dataset(dataset)
    batch_size = min(_BATCH_SIZE, num_samples // _MIN_STEPS)
    regression = {} if num_outputs else {"loss": "mean_squared_error"}
    training = {"global_batch_size": batch_size, "epochs": _EPOCHS, **regression}
    blocks = [
        [
            "#:schema recipe.schema.json",
            "# Editors check and explain the keys by that file, which `tfbench schema` prints.",
        ],
        ["[recipe]", f"title = {format_inline(f'{model} on {dataset}')}", 'source = "my own"'],
        _model_lines(model, num_outputs or 1),
        _dataset_lines(dataset),
        ["[training]", *_key_lines(TrainingConfig, training, has_rest=True, left_out=("optimizer",))],
        ["[training.optimizer]", *_key_lines(AdamConfig, to_plain(AdamConfig()))],
        ["[measurement]", *_key_lines(MeasurementConfig, {}, has_rest=True)],
        ["[output]", *_key_lines(OutputConfig, {}, has_rest=True)],
        [
            "# What `tfbench sweep` varies, unless told otherwise.",
            "[sweep]",
            f'"training.global_batch_size" = [{batch_size // 4 or 1}, {batch_size}, {batch_size * 4}]',
        ],
    ]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _model_lines(model: str, num_outputs: int) -> list[str]:
    if registry.is_code(model):
        return ["[model]", f"name = {format_inline(model)}", "# Its arguments, such as: width = 64"]
    if model.endswith(".keras"):
        return ["[model]", "# Relative to this file.", f"file = {format_inline(model)}"]
    if model == "layers":
        return [
            *("[model]", 'name = "layers"', "layer = [", '    { type = "flatten" },'),
            f'    {{ type = "dense", units = {_HIDDEN_UNITS}, activation = "relu" }},',
            *(f'    {{ type = "dense", units = {num_outputs} }},', "]"),
        ]
    config = registry.load("models", model).Config
    values = to_plain(config(**_NEEDED.get(model, {})))
    return ["[model]", f"name = {format_inline(model)}", *_key_lines(config, values)]


def _dataset_lines(dataset: str) -> list[str]:
    lines = ["[dataset]", f"name = {format_inline(dataset)}"]
    if registry.is_code(dataset):
        return [*lines, "# Its arguments, such as: samples = 1000"]
    config = registry.load("datasets", dataset).Config
    data = _key_lines(DatasetConfig, {"data": "real"}, left_out=("name", "options"))
    return [*lines, *data, *_key_lines(config, to_plain(config()))]


def _ask_dataset(dataset: str) -> tuple[int, int]:
    """Returns classes, 0 where there are none, and training samples; only a user's code knows those of its own."""
    if registry.is_code(dataset):
        return 10, _BATCH_SIZE * _MIN_STEPS
    module = registry.load("datasets", dataset)
    spec = module.describe(module.Config())
    return spec.num_classes or 0, spec.train_samples


def _key_lines(
    cls: type, values: Mapping[str, Any], *, has_rest: bool = False, left_out: tuple[str, ...] = ()
) -> Iterator[str]:
    """Yields the keys of a class with these values, and with `has_rest` the others as comments, by their defaults."""
    meanings = read_meanings(cls)
    for field in dataclasses.fields(cls):
        if field.name in left_out or (field.name not in values and not has_rest):
            continue
        yield from textwrap.wrap(
            meanings.get(field.name, ""), _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
        )
        value = values.get(field.name, field.default)
        mark = "" if field.name in values and value is not None else "#"
        yield f"{mark}{field.name} =" if value is None else f"{mark}{field.name} = {format_inline(value)}"
