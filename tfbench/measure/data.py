"""The samples that a recipe names: a data set's, synthetic, the user's own, or a network's."""

import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfbench.datasets import network
from tfbench.datasets.sources import synthetic, tfds_sets
from tfbench.datasets.sources.splits import Split, Splits
from tfbench.errors import DatasetError, Notice
from tfbench.measure import user_code
from tfbench.measure.compiled_model import build_model
from tfbench.recipe import registry
from tfbench.recipe.dataset_spec import DatasetSpec, TfdsOptions
from tfbench.recipe.sections import DatasetConfig, ModelConfig
from tfbench.runs.record import DatasetSummary

NETWORK = "network"  # the data set that is made for a network


def load_data(
    config: DatasetConfig,
    data_dir: str | None,
    *,
    seed: int,
    batch_size: int = 0,
    allows_code: bool = False,
) -> Splits:
    """Loads the real data set, or makes its synthetic stand-in.

    Batches that the user makes must have the run's `batch_size`.
    """
    if name := registry.find_tfds_name(config.name):
        options = TfdsOptions(**config.options)
        return tfds_sets.load_splits(name, options, data_dir, batch_size)
    if registry.is_code(config.name):
        return user_code.load_splits(config, data_dir, batch_size, allows_code=allows_code)
    module = registry.load("datasets", config.name)
    options = module.Config(**config.options)
    if config.data == "synthetic":
        return make_synthetic(module.describe(options), seed)
    return module.load_splits(options, data_dir)  # type: ignore[no-any-return]  # found by name


@functools.lru_cache(maxsize=1)
def make_synthetic(spec: DatasetSpec, seed: int) -> Splits:
    """Returns synthetic samples, and keeps them: what forks others makes them once for all."""
    return synthetic.generate_splits(spec, seed=seed)


def summarize_data(config: DatasetConfig, splits: Splits) -> DatasetSummary:
    """Returns what is recorded of the samples."""
    return DatasetSummary(
        name=config.name,
        source=splits.source,
        synthetic=splits.synthetic,
        train_samples=splits.train.num_samples,
        validation_samples=splits.validation.num_samples,
        cache=splits.cache,
        content=splits.content,
        batches=splits.pipeline.batches if splits.pipeline else None,
        has_own_batches=splits.pipeline is not None and splits.pipeline.is_users,
        files=user_code.find_files(config),
        tokens_per_sample=splits.spec.tokens_per_sample,
    )


def make_splits(config: DatasetConfig, model_config: ModelConfig, *, allows_code: bool) -> Splits:
    """Makes random samples for a network, which is built once for its shapes.

    Floats are normal, integers are rows of its embeddings, or 0 and 1. Targets are what the loss
    takes, by its name: labels, one-hot or binary labels, or normal values.

    Raises:
        TfbenchError: The network cannot be built, or its shapes are not known.
    """
    import keras

    options = network.Config(**config.options)
    spec = network.describe(options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)  # given when it is built to be trained
        model = build_model(model_config, spec, allows_code=allows_code)
    if not getattr(model, "inputs", None):
        raise DatasetError(
            "data set network: only a Sequential or functional network with keras.Input tells its"
            " shapes. Give a function load_data() in the same file, or --set"
            " dataset.name=FILE.py:load_data."
        )
    if registry.is_code(model_config.name):
        user_code.require_no_data(model_config)
    # A Sequential model has no `input` before its first call.
    model_input = model.inputs[0] if isinstance(model, keras.Sequential) else model.input

    def set_length(tensor: Any) -> Any:
        sizes = [options.length if size is None else size for size in tensor.shape[1:]]
        return keras.KerasTensor((tensor.shape[0], *sizes), tensor.dtype)

    inputs = keras.tree.map_structure(set_length, model_input)
    outputs = model(inputs)
    layers = model._flatten_layers()
    num_rows = min((layer.input_dim for layer in layers if hasattr(layer, "input_dim")), default=2)

    def make(num_samples: int, seed: np.random.SeedSequence) -> Split:
        rng = np.random.default_rng(seed)

        def draw(tensor: Any) -> Any:
            size = (num_samples, *tensor.shape[1:])
            if "int" in tensor.dtype:
                return rng.integers(num_rows, size=size).astype(tensor.dtype)
            return _normal(rng, size)

        return Split(
            inputs=keras.tree.map_structure(draw, inputs),
            targets=_targets(outputs, model.loss, num_samples, rng),
            num_samples=num_samples,
        )

    seeds = np.random.SeedSequence(options.seed).spawn(2)
    return Splits(
        spec=spec,
        train=make(options.num_samples, seeds[0]),
        validation=make(options.validation_samples, seeds[1]),
        source=f"made for the network's inputs, seed {options.seed}",
        synthetic=True,
    )


def _targets(output: Any, loss: Any, num_samples: int, rng: np.random.Generator) -> Any:
    """Returns targets for outputs in dicts and lists, each with its loss, or all with one."""
    losses: Any = loss
    if isinstance(output, Mapping):
        if not isinstance(loss, Mapping):
            losses = dict.fromkeys(output, loss)
        targets = {}
        for key, value in output.items():
            targets[key] = _targets(value, losses.get(key), num_samples, rng)
        return targets
    if isinstance(output, Sequence):
        if isinstance(loss, Mapping):
            losses = loss.values()
        elif not isinstance(loss, list | tuple):
            losses = [loss] * len(output)
        pairs = zip(output, losses, strict=True)
        return tuple(_targets(value, own_loss, num_samples, rng) for value, own_loss in pairs)
    name = loss
    if not isinstance(loss, str):
        name = str(getattr(loss, "name", getattr(loss, "__name__", "")))
    name = name.lower()
    size = (num_samples, *output.shape[1:])
    num_classes = size[-1]
    if "sparse" in name:
        return rng.integers(num_classes, size=size[:-1])
    if "categorical" in name:
        labels = rng.integers(num_classes, size=size[:-1])
        return np.eye(num_classes, dtype=np.float32)[labels]
    if "binary" in name:
        return rng.integers(2, size=size).astype(np.float32)
    return _normal(rng, size)


def _normal(rng: np.random.Generator, size: tuple[int, ...]) -> Any:
    return rng.standard_normal(size, np.float32)
