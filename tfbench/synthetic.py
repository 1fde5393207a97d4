"""Stand-in for a data set: same shapes, types, classes and number of samples, learnable, made from the seed."""

import numpy as np
import numpy.typing as npt

from tfbench.results import DatasetSpec
from tfbench.splits import Split, Splits

POOL_BYTES = 256 * 1024 * 1024  # both splits together; a larger data set draws its samples from a pool of this size
_VALIDATION_SHARE = 0.2  # of the pool
_CHUNK = 4096  # samples made at a time, so that the float64 noise does not outgrow the pool


def generate_splits(spec: DatasetSpec, *, seed: int) -> Splits:
    """Generates training and validation samples.

    Classification: each class has a random blocky pattern; a sample is that pattern, dimmed, under uniform noise.
    Regression: targets are a fixed random linear map of the inputs' last axis, squashed by tanh.

    Args:
        spec: What to imitate.
        seed: The same seed gives the same data.
    """
    sample_bytes = int(np.prod(spec.input_shape)) * np.dtype(spec.input_dtype).itemsize
    pool = max(2, POOL_BYTES // max(1, sample_bytes))
    validation_rows = min(spec.validation_samples, max(1, int(pool * _VALIDATION_SHARE)))
    train_rows = min(spec.train_samples, max(1, pool - validation_rows))
    make = _regression if spec.num_classes is None else _classification
    structure, train_noise, validation_noise = np.random.SeedSequence(seed).spawn(3)
    train = make(spec, train_rows, structure, train_noise)
    validation = make(spec, validation_rows, structure, validation_noise)
    is_pool = train_rows < spec.train_samples or validation_rows < spec.validation_samples
    drawn = f", drawn from {train_rows + validation_rows} in memory" if is_pool else ""
    return Splits(
        spec=spec,
        train=Split(inputs=train[0], targets=train[1], num_samples=spec.train_samples),
        validation=Split(inputs=validation[0], targets=validation[1], num_samples=spec.validation_samples),
        source=f"synthetic, seed {seed}{drawn}",
        synthetic=True,
    )


def _classification(
    spec: DatasetSpec, rows: int, structure: np.random.SeedSequence, noise: np.random.SeedSequence
) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.int64]]:
    patterns = _class_patterns(spec, np.random.default_rng(structure))
    rng = np.random.default_rng(noise)
    labels = rng.integers(len(patterns), size=rows)
    inputs = np.empty((rows, *spec.input_shape), spec.input_dtype)
    for start in range(0, rows, _CHUNK):
        part = labels[start : start + _CHUNK]
        # Bytes: a third of the pattern under two thirds of noise, so that a network has something to learn for a while.
        mixed = patterns[part] // 3 + rng.integers(0, 171, size=(len(part), *spec.input_shape), dtype=np.uint8)
        inputs[start : start + _CHUNK] = mixed if spec.input_dtype == "uint8" else mixed.astype(np.float32) / 255
    return inputs, labels


def _class_patterns(spec: DatasetSpec, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Returns one pattern a class, of blocks a quarter of the image wide: convolutions and pooling can see them."""
    coarse_shape = tuple(min(size, 4) for size in spec.input_shape)
    patterns = rng.integers(0, 256, size=(spec.num_classes or 1, *coarse_shape), dtype=np.uint8)
    for axis, size in enumerate(spec.input_shape, start=1):
        repeats = -(-size // patterns.shape[axis])
        patterns = np.repeat(patterns, repeats, axis=axis).take(range(size), axis=axis)
    return patterns


def _regression(
    spec: DatasetSpec, rows: int, structure: np.random.SeedSequence, noise: np.random.SeedSequence
) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.float32]]:
    weights = np.random.default_rng(structure).normal(size=(spec.input_shape[-1], spec.target_shape[-1]))
    inputs = np.random.default_rng(noise).normal(size=(rows, *spec.input_shape)).astype(np.float32)
    targets = np.tanh(inputs @ weights).astype(np.float32)
    return inputs.astype(spec.input_dtype), targets.reshape((rows, *spec.target_shape))
