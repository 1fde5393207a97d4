"""Initial weights that NumPy draws, the same on every backend for a seed."""

import contextlib
import types
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_TRUNCATED_AT = 2.0  # standard deviations, as in Keras

Array = npt.NDArray[Any]


@contextlib.contextmanager
def drawn_by_numpy() -> Iterator[None]:
    """Lets Keras's random initializers take their numbers from NumPy instead of the backend.

    What they make of the numbers, as by the fan-in of a weight, stays Keras's. Weights of a
    `.keras` file, and of initializers of the user's own, are what they are.
    """
    # Keras offers no way to say where its initializers take numbers from.
    from keras.src.initializers import random_initializers

    kept = random_initializers.random, random_initializers.ops
    random_initializers.random = types.SimpleNamespace(
        normal=_normal,
        truncated_normal=_truncated_normal,
        uniform=_uniform,
        make_default_seed=kept[0].make_default_seed,
        SeedGenerator=kept[0].SeedGenerator,
    )
    # Of an orthogonal matrix: two libraries' factors of one matrix differ in their last bits.
    random_initializers.ops = types.SimpleNamespace(
        qr=np.linalg.qr, diag=np.diag, sign=np.sign, transpose=np.transpose, reshape=np.reshape
    )
    try:
        yield
    finally:
        random_initializers.random, random_initializers.ops = kept


def _normal(
    shape: Sequence[int],
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: Any = None,
    seed: Any = None,
) -> Array:
    return _finish(mean + stddev * _generator(seed).standard_normal(shape), dtype)


def _truncated_normal(
    shape: Sequence[int],
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: Any = None,
    seed: Any = None,
) -> Array:
    """Draws those again that are too far out."""
    generator = _generator(seed)
    values = generator.standard_normal(shape).reshape(-1)
    while len(outside := np.flatnonzero(np.abs(values) > _TRUNCATED_AT)):
        values[outside] = generator.standard_normal(len(outside))
    return _finish(mean + stddev * values.reshape(shape), dtype)


def _uniform(
    shape: Sequence[int],
    minval: float = 0.0,
    maxval: float = 1.0,
    dtype: Any = None,
    seed: Any = None,
) -> Array:
    return _finish(_generator(seed).uniform(minval, maxval, shape), dtype)


def _generator(seed: Any) -> np.random.Generator:
    """Returns what draws for one weight.

    As Keras, anew from a number, or on and on from a generator of seeds.
    """
    from keras import ops

    state = (
        [seed, 0]
        if isinstance(seed, int)
        else ops.convert_to_numpy(seed.next()).astype(np.uint32).tolist()
    )
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(state)))


def _finish(values: Array, dtype: Any) -> Array:
    return np.asarray(values, dtype or "float32")
