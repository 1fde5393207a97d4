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
    `.keras` file, and of the user's own initializers, stay as they are.
    """
    # Keras offers no way to say where its initializers take numbers from.
    from keras.src.initializers import random_initializers

    keras_random = random_initializers.random
    keras_ops = random_initializers.ops
    random_initializers.random = types.SimpleNamespace(
        normal=_normal,
        truncated_normal=_truncated_normal,
        uniform=_uniform,
        make_default_seed=keras_random.make_default_seed,
        SeedGenerator=keras_random.SeedGenerator,
    )
    # For orthogonal matrices: two libraries' factors of one matrix differ in their last bits.
    random_initializers.ops = types.SimpleNamespace(
        qr=np.linalg.qr, diag=np.diag, sign=np.sign, transpose=np.transpose, reshape=np.reshape
    )
    try:
        yield
    finally:
        random_initializers.random = keras_random
        random_initializers.ops = keras_ops


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
    """Draws values that are too far out again."""
    generator = _generator(seed)
    values = generator.standard_normal(shape).reshape(-1)
    is_outside = np.abs(values) > _TRUNCATED_AT
    while is_outside.any():
        values[is_outside] = generator.standard_normal(is_outside.sum())
        is_outside = np.abs(values) > _TRUNCATED_AT
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
    """Returns the generator for one weight.

    As in Keras, a number begins anew each time, and a generator of seeds goes on.
    """
    from keras import ops

    if isinstance(seed, int):
        state = [seed, 0]
    else:
        state = ops.convert_to_numpy(seed.next()).astype(np.uint32).tolist()
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(state)))


def _finish(values: Array, dtype: Any) -> Array:
    return np.asarray(values, dtype or "float32")
