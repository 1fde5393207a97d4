"""Data that a function of the user's returned: arrays, or splits, that must fit together."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tfbench.datasets.sources.splits import RecordSplit, Split, Splits, is_plausible
from tfbench.errors import DatasetError
from tfbench.recipe.dataset_spec import DatasetSpec

_FORM = "((x_train, y_train), (x_val, y_val)) of NumPy arrays, or tfbench.splits.Splits"


def splits_of_arrays(loaded: Any, *, source: str, where: str) -> Splits:
    """Makes splits of plain arrays, and describes them.

    Inputs stay bytes if they are, and become float32 otherwise; they are fed as they are, unscaled. Integer targets are
    labels, of shape (samples,) or (samples, 1), and the largest one says how many classes there are; others are a
    regression's values, of shape (samples, ...).

    Args:
        loaded: ((x_train, y_train), (x_val, y_val)).
        source: Of the data, for the record.
        where: The function that returned it, for messages.

    Raises:
        DatasetError: It is something else, or the arrays do not fit together.
    """
    try:
        (x_train, y_train), (x_val, y_val) = loaded
    except (TypeError, ValueError) as error:
        raise DatasetError(f"{where}: must return {_FORM}. Received: {_describe(loaded)}.") from error
    arrays = {"x_train": x_train, "y_train": y_train, "x_val": x_val, "y_val": y_val}
    for name, array in arrays.items():
        axes = 2 if name.startswith("x") else 1  # samples, and in the inputs at least one value of each
        if not isinstance(array, np.ndarray) or array.ndim < axes or array.dtype.kind not in "biuf":
            raise DatasetError(
                f"{where}: must return {_FORM}. Received as {name}: {_describe(array)}; "
                f"it must be an array of numbers, samples first, with {axes} axes or more."
            )
        if len(array) == 0:
            raise DatasetError(f"{where}: {name} holds no sample.")
    (x_train, x_val), (y_train, y_val) = _same_kind(x_train, x_val), _same_kind(y_train, y_val)
    has_classes = y_train.dtype.kind in "biu"
    targets = [_labels(y, where) if has_classes else _values(y) for y in (y_train, y_val)]
    dtype: Literal["uint8", "float32"] = "uint8" if x_train.dtype == np.uint8 else "float32"
    inputs = [x.astype(dtype, copy=False) for x in (x_train, x_val)]
    train, validation = (Split(inputs=x, targets=y, num_samples=len(x)) for x, y in zip(inputs, targets, strict=True))
    spec = DatasetSpec(
        input_shape=train.inputs.shape[1:],
        input_dtype=dtype,
        target_shape=train.targets.shape[1:],
        num_classes=max(int(y.max()) for y in targets) + 1 if has_classes else None,
        train_samples=train.num_samples,
        validation_samples=validation.num_samples,
    )
    return Splits(spec=spec, train=train, validation=validation, source=source)


def find_mismatch(splits: Splits) -> str | None:
    """Returns in what the samples are not what their description says, or None."""
    spec = splits.spec
    counts = {"train": spec.train_samples, "validation": spec.validation_samples, "test": spec.test_samples}
    for name, split in (("train", splits.train), ("validation", splits.validation), ("test", splits.test)):
        if split is None or isinstance(split, RecordSplit) or split.read:  # read when they are used
            continue
        if not isinstance(split.inputs, np.ndarray) or not isinstance(split.targets, np.ndarray):
            return f"{name}: inputs and targets must be NumPy arrays"
        problem = is_plausible(split, spec)
        if problem:
            return f"{name}: {problem}"
        if split.targets.shape[1:] != spec.target_shape:
            return f"{name}: expected targets of shape {spec.target_shape}, found {split.targets.shape[1:]}"
        if split.num_samples != counts[name]:
            return f"{name}: expected {counts[name]} samples, found {split.num_samples}"
    return None


def _same_kind(train: npt.NDArray[Any], validation: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Returns both arrays in the type that holds the values of either."""
    dtype = np.result_type(train, validation)
    return train.astype(dtype, copy=False), validation.astype(dtype, copy=False)


def _labels(targets: npt.NDArray[Any], where: str) -> npt.NDArray[np.int64]:
    if targets.ndim > 2 or targets.shape[1:] not in ((), (1,)):
        raise DatasetError(
            f"{where}: labels must be integers, one a sample, of shape (samples,). Received: {targets.shape}. "
            "One column a class: y.argmax(axis=1)."
        )
    return targets.reshape(-1).astype(np.int64)


def _values(targets: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    values: npt.NDArray[np.float32] = targets.astype(np.float32, copy=False)
    return values[:, None] if values.ndim == 1 else values


def _describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}, {value.dtype}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}: {', '.join(type(item).__name__ for item in value)}"
    return type(value).__name__
