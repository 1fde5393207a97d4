"""Initial weights of recipes, which NumPy draws, the same on every backend for a seed."""

import contextlib
import math
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfbench.errors import RecipeError

_TRUNCATED_AT = 2.0  # standard deviations, as in Keras
_UNCOUNTED_BYTES = 2**30  # of weights that are drawn before all of them are counted

Array = npt.NDArray[Any]
Draw = Callable[..., Array]  # of a shape, and keywords


class Budget:
    """Rejects a network whose weights cannot be in memory, before they are drawn.

    Args:
        name: Of the network.
        limit_bytes: All the memory that there is; None: not known, and nothing is rejected.
        count: Returns the bytes of all weights without making them; None: it cannot.
    """

    def __init__(self, name: str, limit_bytes: int | None, count: Callable[[], int | None]) -> None:
        self._name = name
        self._limit_bytes = limit_bytes
        self._count = count
        self._drawn_bytes = 0
        self._is_counted = False

    def checked(self, draw: Draw) -> Draw:
        """Returns a function that draws as another one does what the budget allows."""

        def draw_allowed(shape: Sequence[int], **options: Any) -> Array:
            dtype = np.dtype(options.get("dtype") or "float32")
            sizes = [int(size) for size in np.atleast_1d(shape)]  # of a tensor, they wrap
            self._take(math.prod(sizes) * dtype.itemsize)
            return draw(shape, **options)

        return draw_allowed

    def _take(self, num_bytes: int) -> None:
        """Raises RecipeError if a weight, or all together, are more than there is memory."""
        self._drawn_bytes += num_bytes
        if self._drawn_bytes > _UNCOUNTED_BYTES and not self._is_counted:
            self._is_counted = True
            self._require(self._count())
        self._require(num_bytes)

    def _require(self, num_bytes: int | None) -> None:
        if num_bytes is None or self._limit_bytes is None or num_bytes <= self._limit_bytes:
            return
        raise RecipeError(
            f"model {self._name}: its weights take {num_bytes / 2**30:,.1f} GiB, and this machine"
            f" has {self._limit_bytes / 2**30:,.1f} GiB of memory in all. Make the network smaller."
        )


@contextlib.contextmanager
def drawn_by_numpy(budget: Budget) -> Iterator[None]:
    """Lets Keras's random initializers take their numbers from NumPy instead of the backend.

    What they make of the numbers, as by the fan-in of a weight, stays Keras's. Weights of a
    `.keras` file stay as they are.
    """
    # For orthogonal matrices: two libraries' factors of one matrix differ in their last bits.
    ops = types.SimpleNamespace(
        qr=np.linalg.qr, diag=np.diag, sign=np.sign, transpose=np.transpose, reshape=np.reshape
    )
    draws = {"normal": _normal, "truncated_normal": _truncated_normal, "uniform": _uniform}
    with _drawn_by(draws, budget, ops):
        yield


@contextlib.contextmanager
def drawn_by_keras(budget: Budget) -> Iterator[None]:
    """Lets Keras's random initializers draw as ever, but nothing that exceeds the memory.

    For networks of the user's own: they have the weights that they have under `fit`, so other ones
    on each backend.
    """
    from keras.src.initializers import random_initializers

    keras_random = random_initializers.random
    names = ("normal", "truncated_normal", "uniform")
    draws = {name: getattr(keras_random, name) for name in names}
    with _drawn_by(draws, budget, random_initializers.ops):
        yield


@contextlib.contextmanager
def _drawn_by(draws: Mapping[str, Draw], budget: Budget, ops: Any) -> Iterator[None]:
    # Keras offers no way to say where its initializers take numbers from.
    from keras.src.initializers import random_initializers

    keras_random = random_initializers.random
    keras_ops = random_initializers.ops
    checked = {name: budget.checked(draw) for name, draw in draws.items()}
    random_initializers.random = types.SimpleNamespace(
        **checked,
        make_default_seed=keras_random.make_default_seed,
        SeedGenerator=keras_random.SeedGenerator,
    )
    random_initializers.ops = ops
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
