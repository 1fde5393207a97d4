"""The samples that a recipe names.

Its data set's, synthetic ones, the user's own, or random ones for a network.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfbench.datasets import network
from tfbench.datasets.sources import synthetic
from tfbench.datasets.sources.splits import Split, Splits
from tfbench.errors import DatasetError, Notice
from tfbench.recipe import registry
from tfbench.recipe.sections import DatasetConfig, ModelConfig
from tfbench.records.run import DatasetSummary
from tfbench.worker import user_code
from tfbench.worker.compiled_model import build_model

NETWORK = "network"  # the data set that is made for a network


def load_data(
    config: DatasetConfig, data_dir: str | None, *, seed: int, allows_code: bool = False
) -> Splits:
    """Loads the real data set, or makes its synthetic stand-in."""
    if registry.is_code(config.name):
        return user_code.load_splits(config, data_dir, allows_code=allows_code)
    module = registry.load("datasets", config.name)
    options = module.Config(**config.options)
    if config.data == "synthetic":
        return synthetic.generate_splits(module.describe(options), seed=seed)
    splits: Splits = module.load_splits(options, data_dir)
    return splits


def summarize_data(config: DatasetConfig, splits: Splits) -> DatasetSummary:
    """Returns what is recorded of the samples."""
    return DatasetSummary(
        name=config.name,
        source=splits.source,
        synthetic=splits.synthetic,
        train_samples=splits.train.num_samples,
        validation_samples=splits.validation.num_samples,
        cache=splits.cache,
        digest=user_code.find_digest(config),
        tokens_per_sample=splits.spec.tokens_per_sample,
    )


def make_splits(config: DatasetConfig, model_config: ModelConfig, *, allows_code: bool) -> Splits:
    """Makes samples, for which the network is built once.

    Floats are normal, integers rows of its embeddings, or 0, 1.

    Targets are what the loss takes, by its name: labels, one-hot or binary labels, or normal
    values.

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
    shaped = keras.tree.map_structure(
        lambda tensor: keras.KerasTensor(
            (
                tensor.shape[0],
                *(options.length if size is None else size for size in tensor.shape[1:]),
            ),
            tensor.dtype,
        ),
        (
            model.inputs[0] if isinstance(model, keras.Sequential) else model.input
        ),  # it has none before its first call
    )
    outputs = model(shaped)
    rows = min(
        (layer.input_dim for layer in model._flatten_layers() if hasattr(layer, "input_dim")),
        default=2,
    )

    def make(num_samples: int, rng: np.random.Generator) -> Split:
        def draw(tensor: Any) -> Any:
            size = (num_samples, *tensor.shape[1:])
            return (
                rng.integers(rows, size=size).astype(tensor.dtype)
                if "int" in tensor.dtype
                else _normal(rng, size)
            )

        inputs = keras.tree.map_structure(draw, shaped)
        return Split(
            inputs=inputs,
            targets=_targets(outputs, model.loss, num_samples, rng),
            num_samples=num_samples,
        )

    counts = (options.num_samples, options.validation_samples)
    seeds = np.random.SeedSequence(options.seed).spawn(len(counts))
    splits = [
        make(count, np.random.default_rng(seed)) for count, seed in zip(counts, seeds, strict=True)
    ]
    return Splits(
        spec=spec,
        train=splits[0],
        validation=splits[1],
        source=f"made for the network's inputs, seed {options.seed}",
        synthetic=True,
    )


def _targets(output: Any, loss: Any, num_samples: int, rng: np.random.Generator) -> Any:
    """Returns targets for outputs in dicts and lists, each with its loss, or all with one."""
    if isinstance(output, Mapping):
        return {
            key: _targets(
                value, loss.get(key) if isinstance(loss, Mapping) else loss, num_samples, rng
            )
            for key, value in output.items()
        }
    if isinstance(output, Sequence):
        losses = loss if isinstance(loss, list | tuple) else [loss] * len(output)
        if isinstance(loss, Mapping):
            losses = list(loss.values())
        pairs = zip(output, losses, strict=True)
        return tuple(_targets(value, one, num_samples, rng) for value, one in pairs)
    name = str(
        loss if isinstance(loss, str) else getattr(loss, "name", getattr(loss, "__name__", ""))
    ).lower()
    size = (num_samples, *output.shape[1:])
    if "sparse" in name:
        return rng.integers(size[-1], size=size[:-1])
    if "categorical" in name:
        return np.eye(size[-1], dtype=np.float32)[rng.integers(size[-1], size=size[:-1])]
    if "binary" in name:
        return rng.integers(2, size=size).astype(np.float32)
    return _normal(rng, size)


def _normal(rng: np.random.Generator, size: tuple[int, ...]) -> Any:
    return rng.standard_normal(size, np.float32)
