"""Stand-in for a data set.

Same shapes, types, classes and number of samples, learnable, made from the seed.
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tfbench.datasets.sources.splits import Split, Splits, allocate, mean_of
from tfbench.recipe.dataset_spec import DatasetSpec

POOL_BYTES = (
    256 * 1024 * 1024
)  # all splits together; a larger data set draws its samples from a pool of this size
_HELD_OUT_SHARE = 0.2  # of the pool, for each of the splits that are not trained with
_ORDERED = 0.8  # share of the tokens of a text that follow from the one before
_CHUNK = 4096  # samples made at a time, so that the noise does not outgrow the pool
_CHUNK_BYTES = 16 * 1024 * 1024

Arrays = tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]


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
    sample_bytes = math.prod(_stored_shape(spec)) * np.dtype(spec.input_dtype).itemsize
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
    noise = dict(zip(counts, noises, strict=True))

    def make(name: str) -> Split:
        maker = (
            _regression
            if spec.num_classes is None
            else _text
            if spec.tokens_per_sample
            else _classification
        )
        inputs, targets = maker(spec, rows[name], structure, noise[name])
        return Split(inputs=inputs, targets=targets, num_samples=counts[name])

    train = make("train")
    drawn = f", drawn from {sum(rows.values())} in memory" if rows != counts else ""
    return Splits(
        spec=spec,
        train=train,
        validation=make("validation"),
        test=make("test") if spec.test_samples else None,
        mean=mean_of(train.inputs, spec),
        source=f"synthetic, seed {seed}{drawn}",
        synthetic=True,
    )


def _stored_shape(spec: DatasetSpec) -> tuple[int, ...]:
    return spec.stored_shape or spec.input_shape


def _classification(
    spec: DatasetSpec, rows: int, structure: np.random.SeedSequence, noise: np.random.SeedSequence
) -> Arrays:
    shape = _stored_shape(spec)
    expand = _class_patterns(spec, np.random.default_rng(structure))
    rng = np.random.default_rng(noise)
    labels = rng.integers(spec.num_classes or 1, size=rows)
    inputs = allocate((rows, *shape), spec.input_dtype)
    chunk = min(_CHUNK, max(1, _CHUNK_BYTES // math.prod(shape)))
    for start in range(0, rows, chunk):
        # Bytes: a third of the pattern under two thirds of noise, so that a network has something
        # to learn for a while.
        mixed = np.frombuffer(
            rng.bytes(len(inputs[start : start + chunk]) * math.prod(shape)), np.uint8
        )
        mixed = mixed - mixed // 3
        mixed = mixed.reshape(-1, *shape)
        mixed += expand(labels[start : start + chunk])
        inputs[start : start + chunk] = (
            mixed if spec.input_dtype == "uint8" else mixed.astype(np.float32) / 255
        )
    return inputs, labels


def _class_patterns(
    spec: DatasetSpec, rng: np.random.Generator
) -> Callable[[npt.NDArray[np.int64]], npt.NDArray[np.uint8]]:
    """Returns what makes patterns, 0 to 85, of labels.

    Of blocks a quarter of the image wide, which convolutions see.

    Patterns are kept by the block: a thousand whole ones of 256x256 pixels would take as much
    memory as the pool.
    """
    shape = _stored_shape(spec)
    blocks = (
        rng.integers(
            0, 256, size=(spec.num_classes or 1, *(min(size, 4) for size in shape)), dtype=np.uint8
        )
        // 3
    )

    def expand(labels: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
        patterns = blocks[labels]
        for axis, size in enumerate(shape, start=1):
            if size > patterns.shape[axis]:
                patterns = patterns.take(
                    np.arange(size) // -(-size // patterns.shape[axis]), axis=axis
                )
        return patterns

    return expand


def _text(
    spec: DatasetSpec, rows: int, structure: np.random.SeedSequence, noise: np.random.SeedSequence
) -> Arrays:
    follows = np.random.default_rng(structure).permutation(spec.num_classes or 1)
    rng = np.random.default_rng(noise)
    tokens = rng.integers(len(follows), size=(rows, spec.tokens_per_sample + 1), dtype=np.int32)
    for step in range(1, tokens.shape[1]):
        goes_on = rng.random(rows) < _ORDERED
        tokens[goes_on, step] = follows[tokens[goes_on, step - 1]]
    return tokens[:, :-1].astype(spec.input_dtype), tokens[:, 1:].copy()


def _regression(
    spec: DatasetSpec, rows: int, structure: np.random.SeedSequence, noise: np.random.SeedSequence
) -> Arrays:
    weights = np.random.default_rng(structure).normal(
        size=(spec.input_shape[-1], spec.target_shape[-1])
    )
    inputs = np.random.default_rng(noise).normal(size=(rows, *spec.input_shape)).astype(np.float32)
    steps = tuple(range(1, 1 + len(spec.input_shape) - len(spec.target_shape)))
    targets = np.tanh((inputs.mean(axis=steps) if steps else inputs) @ weights).astype(np.float32)
    return inputs.astype(spec.input_dtype), targets.reshape((rows, *spec.target_shape))
