"""Stand-in for a data set: same shapes, types, classes and number; learnable; made from a seed."""

import math
from collections.abc import Callable

import numpy as np

from tfbench.datasets.sources.splits import Array, Split, Splits, allocate, mean_of
from tfbench.recipe.dataset_spec import DatasetSpec

# All splits together; a larger data set draws its samples from a pool of this size.
POOL_BYTES = 256 * 1024 * 1024
_HELD_OUT_SHARE = 0.2  # of the pool, for each of the splits that are not trained with
_ORDERED = 0.8  # share of the tokens of a text that follow from the one before
_CHUNK = 4096  # samples made at a time, so that the noise does not outgrow the pool
_CHUNK_BYTES = 16 * 1024 * 1024

Arrays = tuple[Array, Array]


def generate_splits(spec: DatasetSpec, *, seed: int) -> Splits:
    """Generates training and validation samples, and those of a test split if the data set has one.

    Classification: each class has a random blocky pattern; a sample is that pattern, dimmed, under
    uniform noise. Regression: targets are a fixed random linear map of the inputs' last axis,
    squashed by tanh; where there is one target for several steps, of the mean over the steps. Text:
    each token has another that mostly follows it; one in five is any token.

    Args:
        spec: What to imitate.
        seed: The same seed gives the same data.
    """
    sample_bytes = math.prod(spec.sample_shape) * np.dtype(spec.input_dtype).itemsize
    pool = max(2, POOL_BYTES // max(1, sample_bytes))
    held_out = max(1, int(pool * _HELD_OUT_SHARE))
    counts = {
        "train": spec.train_samples,
        "validation": spec.validation_samples,
        "test": spec.test_samples,
    }
    rows = {name: min(count, held_out) for name, count in counts.items()}
    rows["train"] = min(spec.train_samples, max(1, pool - rows["validation"] - rows["test"]))
    structure, *noises = np.random.SeedSequence(seed).spawn(4)
    if spec.num_classes is None:
        generate = _regression
    elif spec.tokens_per_sample:
        generate = _text
    else:
        generate = _classification

    splits = {}
    for (name, count), noise in zip(counts.items(), noises, strict=True):
        inputs, targets = generate(spec, rows[name], structure, noise)
        splits[name] = Split(inputs=inputs, targets=targets, num_samples=count)
    drawn = f", drawn from {sum(rows.values())} in memory" if rows != counts else ""
    return Splits(
        spec=spec,
        train=splits["train"],
        validation=splits["validation"],
        test=splits["test"] if spec.test_samples else None,
        mean=mean_of(splits["train"].inputs, spec),
        source=f"synthetic, seed {seed}{drawn}",
        synthetic=True,
    )


def _classification(
    spec: DatasetSpec, rows: int, structure: np.random.SeedSequence, noise: np.random.SeedSequence
) -> Arrays:
    shape = spec.sample_shape
    expand = _class_patterns(spec, np.random.default_rng(structure))
    rng = np.random.default_rng(noise)
    labels = rng.integers(spec.num_outputs, size=rows)
    inputs = allocate((rows, *shape), spec.input_dtype)
    chunk = min(_CHUNK, max(1, _CHUNK_BYTES // math.prod(shape)))
    for start in range(0, rows, chunk):
        chosen = slice(start, start + chunk)
        # Bytes: a third of the pattern under two thirds of noise, so that a network has something
        # to learn for a while.
        bytes_ = np.frombuffer(rng.bytes(inputs[chosen].size), np.uint8)
        mixed = (bytes_ - bytes_ // 3).reshape(-1, *shape)
        mixed += expand(labels[chosen])
        if spec.input_dtype == "uint8":
            inputs[chosen] = mixed
        else:
            inputs[chosen] = mixed.astype(np.float32) / 255
    return inputs, labels


def _class_patterns(spec: DatasetSpec, rng: np.random.Generator) -> Callable[[Array], Array]:
    """Returns what makes patterns, 0 to 85, of labels.

    Patterns have blocks a quarter of the image wide, which convolutions see. They are kept by the
    block: a thousand whole ones of 256x256 pixels would take as much memory as the pool.
    """
    shape = spec.sample_shape
    num_blocks = [min(size, 4) for size in shape]
    bytes_ = rng.integers(0, 256, size=(spec.num_outputs, *num_blocks), dtype=np.uint8)
    blocks = bytes_ // 3

    def expand(labels: Array) -> Array:
        patterns = blocks[labels]
        for axis, size in enumerate(shape, start=1):
            if size > patterns.shape[axis]:
                width = math.ceil(size / patterns.shape[axis])
                patterns = patterns.take(np.arange(size) // width, axis=axis)
        return patterns

    return expand


def _text(
    spec: DatasetSpec, rows: int, structure: np.random.SeedSequence, noise: np.random.SeedSequence
) -> Arrays:
    follows = np.random.default_rng(structure).permutation(spec.num_outputs)
    rng = np.random.default_rng(noise)
    tokens = rng.integers(len(follows), size=(rows, spec.tokens_per_sample + 1), dtype=np.int32)
    for step in range(1, tokens.shape[1]):
        goes_on = rng.random(rows) < _ORDERED
        tokens[goes_on, step] = follows[tokens[goes_on, step - 1]]
    return tokens[:, :-1].astype(spec.input_dtype), tokens[:, 1:].copy()


def _regression(
    spec: DatasetSpec, rows: int, structure: np.random.SeedSequence, noise: np.random.SeedSequence
) -> Arrays:
    of_structure = np.random.default_rng(structure)
    weights = of_structure.normal(size=(spec.input_shape[-1], spec.target_shape[-1]))
    rng = np.random.default_rng(noise)
    inputs = rng.normal(size=(rows, *spec.input_shape)).astype(np.float32)
    steps = tuple(range(1, 1 + len(spec.input_shape) - len(spec.target_shape)))
    vectors = inputs.mean(axis=steps) if steps else inputs
    targets = np.tanh(vectors @ weights).astype(np.float32)
    return inputs.astype(spec.input_dtype), targets.reshape((rows, *spec.target_shape))
