"""What a function of the user's returned as data: everything that `fit` takes.

Arrays become NumPy's. Batches that the user makes, as a `tf.data.Dataset` does, stay what they are.
"""

import collections.abc
import dataclasses
import inspect
import itertools
import math
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tfbench.datasets.sources.splits import Array, list_arrays, map_arrays
from tfbench.errors import DatasetError
from tfbench.runs.batch_sizes import BatchSizes

FORM = (
    "what fit takes: (x, y), ((x_train, y_train), (x_val, y_val)), a tf.data.Dataset, PyDataset or"
    " generator, or a dict of arguments of fit. x and y are arrays; sample weights are a third item"
)
# Arguments of `fit` that a dict may hold, and who sets those that it may not.
_TAKEN = (
    "x",
    "y",
    "sample_weight",
    "class_weight",
    "validation_data",
    "validation_split",
    "shuffle",
    "steps_per_epoch",
    "validation_steps",
)
_ELSEWHERE = {
    "batch_size": "--global-batch-size sets it",
    "epochs": "--epochs sets them",
    "validation_batch_size": "--set training.validation_batch_size=N sets it",
    "callbacks": "a benchmark calls none of yours",
}
_INSPECTED_SECONDS = 5.0  # of going through batches, to count them


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class FitData:
    """Training and validation data, and the arguments of `fit` that go with them."""

    training: Any  # (x, y, weights), None where there are none; or batches of the user's
    validation: Any = None
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def makes_batches(value: Any) -> bool:
    """Says whether an object makes batches by itself."""
    import keras

    if isinstance(value, keras.utils.PyDataset | collections.abc.Generator):
        return True
    tensorflow: Any = sys.modules.get("tensorflow")
    if tensorflow and isinstance(value, tensorflow.data.Dataset):
        return True
    torch: Any = sys.modules.get("torch")
    return bool(torch) and isinstance(value, torch.utils.data.DataLoader)


def read(loaded: Any, where: str) -> FitData:
    """Reads what a function returned as data.

    Args:
        loaded: As `FORM` says.
        where: The function, for messages.

    Raises:
        DatasetError: It is something else.
    """
    has_x = isinstance(loaded, dict) and "x" in loaded
    if has_x and ("y" in loaded or loaded.keys() <= _arguments_of_fit()):
        return _read_arguments(dict(loaded), where)
    if makes_batches(loaded):
        return FitData(training=loaded)
    if not isinstance(loaded, tuple | list):
        loaded = (loaded,)
    if len(loaded) != 2:
        return FitData(training=_as_triple(loaded, where))
    first, second = loaded
    are_lists = isinstance(first, list) and isinstance(second, list)
    if are_lists and not _is_of_numbers(first) and not _is_of_numbers(second):
        raise DatasetError(
            f"{where}: returned two lists of arrays: (x, y) of several inputs and outputs, or"
            " training and validation data? Use tuples for (x, y), or return a dict of arguments of"
            ' fit: {"x": ..., "y": ...}.'
        )
    if makes_batches(first) or (_is_part(first) and (second is None or _is_part(second))):
        return FitData(training=_read_part(first, where), validation=_read_part(second, where))
    return FitData(training=_as_triple(loaded, where))


def _arguments_of_fit() -> set[str]:
    import keras

    return set(inspect.signature(keras.Model.fit).parameters)


def _is_part(value: Any) -> bool:
    """Says whether it is (x,), (x, y) or (x, y, weights), and no tuple of numbers."""
    if not isinstance(value, tuple) or not 1 <= len(value) <= 3:
        return False
    return not all(isinstance(part, int | float) for part in value)


def _read_arguments(loaded: dict[str, Any], where: str) -> FitData:
    known = _arguments_of_fit()
    for name in loaded:
        if name not in known:
            raise DatasetError(
                f"{where}: returned {name}, which fit does not take. Inputs by name stand in a dict"
                ' of their own: {"x": {...}, "y": ...}.'
            )
        if name not in _TAKEN:
            reason = _ELSEWHERE.get(name, "a benchmark sets it")
            raise DatasetError(f"{where}: returned {name} for fit. Leave it out: {reason}.")
    if loaded.get("shuffle") == "batch":
        raise DatasetError(f'{where}: returned shuffle="batch". Return True or False.')
    training = loaded.pop("x")
    validation = _read_part(loaded.pop("validation_data", None), where)
    share = loaded.pop("validation_split", 0.0)
    if makes_batches(training):
        if share:
            raise DatasetError(f"{where}: returned validation_split beside batches, which hold it.")
        for name in ("y", "sample_weight"):
            if loaded.pop(name, None) is not None:
                raise DatasetError(f"{where}: returned {name} beside batches, which hold it.")
        return FitData(training=training, validation=validation, arguments=loaded)
    for name in ("steps_per_epoch", "validation_steps"):
        if loaded.pop(name, None) is not None:
            raise DatasetError(
                f"{where}: returned {name} for arrays. Leave it out: an epoch is all samples."
            )
    parts = (training, loaded.pop("y", None), loaded.pop("sample_weight", None))
    triple = _as_triple(parts, where)
    if share and validation is None:  # as `fit`, which splits only then
        triple, validation = _split(triple, share)
    class_weight = loaded.pop("class_weight", None)
    if class_weight:
        triple = (*triple[:2], _weigh_classes(triple, class_weight, where))
    return FitData(training=triple, validation=validation, arguments=loaded)


def _read_part(value: Any, where: str) -> Any:
    """Returns batches of the user's as they are, all else as a triple; None if there is nothing."""
    if value is None or makes_batches(value):
        return value
    return _as_triple(value if isinstance(value, tuple | list) else (value,), where)


def _as_triple(parts: Any, where: str) -> tuple[Any, Any, Any]:
    """Returns x, y and weights as arrays of NumPy's, None for those that are missing."""
    if not 1 <= len(parts) <= 3:
        raise DatasetError(f"{where}: must return {FORM}. Received: {len(parts)} parts.")
    x, y, weights, *_ = [*map(as_arrays, parts), None, None]
    return x, y, weights


def as_arrays(value: Any) -> Any:
    """Returns tensors, data frames, lists of numbers and the like as arrays of NumPy's."""
    if isinstance(value, dict):
        return {key: as_arrays(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        if _is_of_numbers(value):
            return np.asarray(value)
        return tuple(as_arrays(part) for part in value)
    if value is None or isinstance(value, np.ndarray):
        return value
    if hasattr(value, "to_frame") and hasattr(value, "to_numpy"):  # a column of pandas', as in fit
        return value.to_numpy()[:, None]
    if hasattr(value, "__array__"):
        return np.asarray(value)
    return value


def _is_of_numbers(values: Any) -> bool:
    """Says whether a list holds numbers, or lists of numbers."""
    if not isinstance(values, tuple | list):
        return isinstance(values, int | float)
    return len(values) > 0 and all(map(_is_of_numbers, values))


def _split(triple: tuple[Any, Any, Any], share: float) -> tuple[Any, Any]:
    """Holds the last samples out for the validation, as `fit` does."""
    num_samples = len(list_arrays(triple[0])[0])
    start = math.floor(num_samples * (1.0 - share))
    return (
        map_arrays(lambda array: array[:start], triple),
        map_arrays(lambda array: array[start:], triple),
    )


def _weigh_classes(triple: tuple[Any, Any, Any], weights: Mapping[int, float], where: str) -> Array:
    """Returns the weights of samples by their class, as `fit` makes them."""
    _, y, sample_weights = triple
    if sample_weights is not None:
        raise DatasetError(
            f"{where}: returned class_weight and sample_weight, of which fit takes one. Multiply"
            " the weights of the samples by those of their classes."
        )
    if not isinstance(y, np.ndarray):
        raise DatasetError(f"{where}: class_weight needs one array of labels.")
    labels = y
    if y.ndim > 1:
        labels = y.argmax(axis=-1) if y.shape[-1] > 1 else y[..., 0]
    found: Array = np.ones(labels.shape, np.float32)
    for label, weight in weights.items():
        found[labels == label] = weight
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class Inspected:
    """What a look at batches of the user's has shown."""

    first: tuple[Any, Any, Any]  # arrays of the first batch: x, y and weights
    sizes: tuple[int, ...]  # samples of each batch that was looked at
    num_batches: int  # of an epoch
    # Of an epoch. Where the number of batches is known, all count as full ones: how far the look
    # got must not change it.
    num_samples: int

    @property
    def batch_size(self) -> int:
        """Samples of a full batch."""
        return max(self.sizes)

    @property
    def is_uneven(self) -> bool:
        """Whether batches have several sizes, apart from a short last one."""
        full = self.sizes[:-1] or self.sizes
        return len(set(full)) > 1 or self.sizes[-1] > full[0]

    @property
    def batches(self) -> BatchSizes:
        """Samples of the steps; all are full where an epoch was not gone through."""
        if self.is_uneven:
            return BatchSizes(size=sum(self.sizes) / len(self.sizes))
        last_size = self.sizes[-1]
        is_whole = len(self.sizes) == self.num_batches
        if last_size == self.batch_size or not is_whole:
            return BatchSizes(size=self.batch_size)
        return BatchSizes(size=self.batch_size, last_size=last_size, num_steps=self.num_batches)


def inspect_batches(batches: Any, where: str, num_batches: int | None) -> Inspected:
    """Goes through an epoch of batches, or some seconds of it.

    Args:
        batches: Of a pipeline that nothing trains with: it may not be the same afterwards.
        where: The function that made it, for messages.
        num_batches: Of an epoch; None: as many as there are.

    Raises:
        DatasetError: It is not known how many there are, or of which sizes.
    """
    import keras

    sizes: list[int] = []
    first = None
    is_whole = True
    length = _find_length(batches) if num_batches is None else num_batches
    end = time.monotonic() + _INSPECTED_SECONDS
    for batch in itertools.islice(_iterate(batches), num_batches):
        arrays = map_arrays(np.asarray, keras.utils.unpack_x_y_sample_weight(batch))
        first = first or arrays
        sizes.append(_count_samples(arrays, where))
        if time.monotonic() > end:
            is_whole = False
            break
    if first is None:
        raise DatasetError(f"{where}: made no batch.")
    if length is None and not is_whole:
        raise DatasetError(
            f"{where}: made {len(sizes)} batches in {_INSPECTED_SECONDS:g} s, and does not say how"
            ' many an epoch has. Return {"x": batches, "steps_per_epoch": NUMBER}.'
        )
    num_batches = len(sizes) if length is None else length
    inspected = Inspected(first, tuple(sizes), num_batches, sum(sizes))
    if inspected.is_uneven and not is_whole:
        raise DatasetError(
            f"{where}: makes batches of {min(sizes)} to {max(sizes)} samples, and an epoch of them"
            f" takes more than {_INSPECTED_SECONDS:g} s. Make them equal, but for the last of an"
            " epoch."
        )
    if length is None or inspected.is_uneven:
        return inspected
    return dataclasses.replace(inspected, num_samples=length * inspected.batch_size)


def _count_samples(arrays: tuple[Any, Any, Any], where: str) -> int:
    """Returns how many samples a batch has.

    Raises:
        DatasetError: It is a single sample.
    """
    shapes = [array.shape for array in list_arrays(arrays)]
    sizes = {shape[0] if shape else None for shape in shapes}
    size = shapes[0][0] if shapes[0] else None
    if size is None or len(sizes) > 1:
        raise DatasetError(
            f"{where}: makes single samples, or arrays of unequal length: {shapes}. Make batches of"
            " them: .batch(N)."
        )
    return int(size)


def _iterate(batches: Any) -> Iterator[Any]:
    import keras

    if isinstance(batches, keras.utils.PyDataset):
        numbers = itertools.count() if batches.num_batches is None else range(batches.num_batches)
        return (batches[number] for number in numbers)
    return iter(batches)


def _find_length(batches: Any) -> int | None:
    """Returns how many batches there are, where that is known without making them."""
    if hasattr(batches, "cardinality"):
        cardinality = int(batches.cardinality())
        return cardinality if cardinality >= 0 else None
    if hasattr(batches, "__len__"):
        return len(batches)
    return None
