"""Data that a function of the user's returned: arrays, or splits, that must fit together."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tfbench.datasets.sources.splits import Split, Splits, list_arrays, map_arrays
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
    train, validation = (
        _read(data, name, where) for name, data in zip(_SPLITS, _pair(loaded, where), strict=True)
    )
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
    train, validation = (_as_fed(data, train, validation) for data in (train, validation))
    spec = _describe_data(train, validation)
    wanted, found = (
        [array.shape[1:] for array in list_arrays(data)] for data in (train, validation)
    )
    if spec.is_structured and wanted != found:  # else `splits.find_mismatch` says which
        raise DatasetError(
            f"{where}: validation: expected arrays of shapes {wanted}, found {found}."
        )
    splits = [
        Split(inputs=x, targets=y, weights=w, num_samples=_count(x))
        for x, y, w in (train, validation)
    ]
    return Splits(spec=spec, train=splits[0], validation=splits[1], source=source)


def _layout(data: Data) -> Any:
    return map_arrays(lambda _array: True, data)


def _count(inputs: Any) -> int:
    return len(list_arrays(inputs)[0])


def _as_fed(data: Data, train: Data, validation: Data) -> Data:
    """Returns data in types that every backend has and both share.

    A column is a row where its counterpart is one.
    """
    pairs = iter(zip(list_arrays(train), list_arrays(validation), strict=True))

    def convert(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        one, other = next(pairs)
        dtype = np.result_type(one, other)
        if dtype.kind == "f":
            dtype = np.dtype(np.float32)
        elif dtype.kind != "b" and dtype != np.uint8:
            dtype = np.dtype(np.int32 if dtype.itemsize < 4 or dtype == np.int32 else np.int64)
        is_same = math.prod(one.shape[1:]) == math.prod(array.shape[1:]) == 1
        return (array.reshape(len(array), *one.shape[1:]) if is_same else array).astype(
            dtype, copy=False
        )

    fed: Data = map_arrays(convert, data)
    return fed


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
    """Returns inputs, targets and weights as they are fed."""
    parts: Data = (*data, *[None] * (len(_PARTS) - len(data)))
    num_samples: int | None = None
    for part, structure in zip(_PARTS, parts, strict=True):
        arrays = list_arrays(structure)
        if not arrays and part == "x":
            raise DatasetError(
                f"{where}: must return {_FORM}. Received as x_{name}: {_describe(structure)}."
            )
        for array in arrays:
            axes = (
                2 if part == "x" and structure is array else 1
            )  # samples, and at least one value of each
            if (
                not isinstance(array, np.ndarray)
                or array.ndim < axes
                or array.dtype.kind not in "biuf"
            ):
                raise DatasetError(
                    f"{where}: must return {_FORM}. Received as {part}_{name}: {_describe(array)}; "
                    f"it must be an array of numbers, samples first, with {axes} axes or more."
                )
            num_samples = len(array) if num_samples is None else num_samples
            if len(array) != num_samples:
                raise DatasetError(
                    f"{where}: {_SPLITS[name]}: found {num_samples} inputs, but {len(array)}"
                    f" {_PARTS[part]}."
                )
    if not num_samples:
        raise DatasetError(f"{where}: x_{name} holds no sample.")
    return parts


def _describe_data(train: Data, validation: Data) -> DatasetSpec:
    x, y, weights = train
    is_plain = (
        isinstance(x, np.ndarray)
        and x.dtype != bool
        and isinstance(y, np.ndarray)
        and weights is None
    )
    has_labels = is_plain and y.dtype.kind in "biu"
    is_structured = not is_plain or (has_labels and y.shape[1:] not in ((), (1,)))
    dtype: Any = "float32" if is_structured else str(x.dtype)
    is_class = has_labels and not is_structured
    return DatasetSpec(
        input_shape=() if is_structured else x.shape[1:],
        input_dtype=dtype,
        target_shape=() if is_structured else y.shape[1:],
        num_classes=max(int(y.max()), int(validation[1].max())) + 1 if is_class else None,
        train_samples=_count(x),
        validation_samples=_count(validation[0]),
        is_structured=is_structured,
    )


def _describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}, {value.dtype}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_describe(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_describe, value))})" if value else "nothing"
    return type(value).__name__
