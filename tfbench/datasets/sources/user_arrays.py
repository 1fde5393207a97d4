"""Data that a function of the user's returned: arrays, or splits, that must fit together."""

import dataclasses
import math
from typing import Any

import numpy as np

from tfbench.datasets.sources.splits import Array, Split, Splits, list_arrays, map_arrays
from tfbench.errors import DatasetError
from tfbench.recipe.dataset_spec import DatasetSpec

_FORM = (
    "((x_train, y_train), (x_val, y_val)) of NumPy arrays, each pair with sample weights as a third"
    " item if there are"
)
_SPLITS = {"train": "train", "val": "validation"}
_PARTS = {"x": "samples of another input", "y": "targets", "weights": "weights"}

Data = tuple[Any, Any, Any]


def splits_of_arrays(loaded: Any, *, source: str, where: str) -> Splits:
    """Makes splits of plain arrays, and describes them.

    They are fed as `fit` feeds them: floats as float32, integers as they are, unscaled. Bytes of a
    single input become float32. One integer a sample is a label, and the largest says how many
    classes there are; floats are a regression's values. All else, as several arrays, weights or
    labels, only a network that comes compiled can take.

    Args:
        loaded: ((x_train, y_train), (x_val, y_val)), each x, y and weights an array, or arrays in
            dicts and tuples.
        source: Of the data, for the record.
        where: The function that returned it, for messages.

    Raises:
        DatasetError: It is something else, or the arrays do not fit together.
    """
    raw_train, raw_validation = _pair(loaded, where)
    train = _read(raw_train, "train", where)
    validation = _read(raw_validation, "val", where)
    if validation[2] is None:  # weights of classes are for the training alone
        num_samples = _count(validation[0])
        ones = map_arrays(
            lambda weights: np.ones((num_samples, *weights.shape[1:]), weights.dtype), train[2]
        )
        validation = (*validation[:2], ones)
    if _layout(train) != _layout(validation):
        received = f"Received: {_describe(train)} and {_describe(validation)}."
        raise DatasetError(
            f"{where}: training and validation data must have the same arrays. {received}"
        )
    fed_train = _as_fed(train, train, validation)
    fed_validation = _as_fed(validation, train, validation)
    train_split = _split(fed_train)
    validation_split = _split(fed_validation)
    spec = _describe_data(train_split, validation_split)
    expected = _sample_shapes(fed_train)
    found = _sample_shapes(fed_validation)
    if spec.is_structured and expected != found:  # else `splits.find_mismatch` says which
        raise DatasetError(
            f"{where}: validation: expected arrays of shapes {expected}, found {found}."
        )
    return Splits(spec=spec, train=train_split, validation=validation_split, source=source)


def _split(data: Data) -> Split:
    x, y, weights = data
    return Split(inputs=x, targets=y, weights=weights, num_samples=_count(x))


def _sample_shapes(data: Data) -> list[tuple[int, ...]]:
    return [array.shape[1:] for array in list_arrays(data)]


def _layout(data: Data) -> Any:
    return map_arrays(lambda _array: True, data)


def _count(inputs: Any) -> int:
    return len(list_arrays(inputs)[0])


def _as_fed(data: Data, train: Data, validation: Data) -> Data:
    """Returns training or validation data in types that every backend has and both share.

    A column becomes a row where its counterpart in the training data is one.
    """
    pairs = iter(zip(list_arrays(train), list_arrays(validation), strict=True))

    def convert(array: Array) -> Array:
        of_train, of_validation = next(pairs)
        dtype = _fed_dtype(np.result_type(of_train, of_validation))
        shape = of_train.shape[1:]
        if math.prod(shape) == math.prod(array.shape[1:]) == 1:
            array = array.reshape(len(array), *shape)
        return array.astype(dtype, copy=False)

    fed: Data = map_arrays(convert, data)
    return fed


def _fed_dtype(dtype: Any) -> Any:
    if dtype.kind == "f":
        return np.float32
    if dtype.kind == "b" or dtype == np.uint8:
        return dtype
    if dtype.itemsize < 4 or dtype == np.int32:
        return np.int32
    return np.int64


def _pair(loaded: Any, where: str) -> tuple[Any, Any]:
    try:
        train, validation = loaded
        if not (isinstance(train, tuple | list) and isinstance(validation, tuple | list)):
            raise TypeError
        if not {len(train), len(validation)} <= {1, 2, 3}:
            raise ValueError
    except (TypeError, ValueError) as error:
        raise DatasetError(
            f"{where}: must return {_FORM}. Received: {_describe(loaded)}."
        ) from error
    return train, validation


def _read(data: Any, name: str, where: str) -> Data:
    """Returns inputs, targets and weights, checked; those that are missing are None."""
    missing = [None] * (len(_PARTS) - len(data))
    parts: Data = (*data, *missing)
    num_samples: int | None = None
    for part, structure in zip(_PARTS, parts, strict=True):
        arrays = list_arrays(structure)
        if not arrays and part == "x":
            raise DatasetError(
                f"{where}: must return {_FORM}. Received as x_{name}: {_describe(structure)}."
            )
        for array in arrays:
            # Samples, and at least one value of each where there is one input.
            num_axes = 2 if part == "x" and structure is array else 1
            if (
                not isinstance(array, np.ndarray)
                or array.ndim < num_axes
                or array.dtype.kind not in "biuf"
            ):
                raise DatasetError(
                    f"{where}: must return {_FORM}. Received as {part}_{name}: {_describe(array)}; "
                    f"it must be an array of numbers, samples first, with {num_axes} axes or more."
                )
            if num_samples is None:
                num_samples = len(array)
            if len(array) != num_samples:
                raise DatasetError(
                    f"{where}: {_SPLITS[name]}: found {num_samples} inputs, but {len(array)}"
                    f" {_PARTS[part]}."
                )
    if not num_samples:
        raise DatasetError(f"{where}: x_{name} holds no sample.")
    return parts


def _describe_data(train: Split, validation: Split) -> DatasetSpec:
    x = train.inputs
    y = train.targets
    spec = DatasetSpec(
        input_shape=(),
        train_samples=train.num_samples,
        validation_samples=validation.num_samples,
        is_structured=True,
    )
    if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
        return spec
    if x.dtype == bool or train.weights is not None:
        return spec
    num_classes = None
    if y.dtype.kind in "biu":  # labels
        if y.shape[1:] not in ((), (1,)):
            return spec
        num_classes = max(int(y.max()), int(validation.targets.max())) + 1
    dtype: Any = str(x.dtype)
    return dataclasses.replace(
        spec,
        input_shape=x.shape[1:],
        input_dtype=dtype,
        target_shape=y.shape[1:],
        num_classes=num_classes,
        is_structured=False,
    )


def _describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}, {value.dtype}"
    if isinstance(value, dict):
        items = [f"{key}: {_describe(item)}" for key, item in value.items()]
        return "{" + ", ".join(items) + "}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_describe, value))})" if value else "nothing"
    return type(value).__name__
