"""Data that a function of the user's returned, as splits: arrays that must fit together."""

import dataclasses
import hashlib
import math
from typing import Any

import numpy as np

from tfbench.datasets.sources import fit_data
from tfbench.datasets.sources.fit_data import FORM, FitData
from tfbench.datasets.sources.splits import Array, Pipeline, Split, Splits, list_arrays, map_arrays
from tfbench.errors import DatasetError
from tfbench.recipe.dataset_spec import DatasetSpec

_SPLITS = {"train": "train", "val": "validation"}
_PARTS = {"x": "samples of another input", "y": "targets", "weights": "weights"}

_OWN_BATCHES = (
    "the batches are those of your own pipeline, which is measured with the network. Other backends"
    " may get others, and a resumed run begins the pipeline anew."
)
_DIGESTED_BYTES = 2**28  # of an array, of which all samples are digested
_DIGESTED_ROWS = 1000  # of a larger one

Data = tuple[Any, Any, Any]


def splits_of_arrays(loaded: Any, *, source: str, where: str) -> Splits:
    """Makes splits of plain arrays, and describes them; as `splits_of`."""
    return splits_of(fit_data.read(loaded, where), source=source, where=where)


def splits_of(loaded: FitData, *, source: str, where: str) -> Splits:
    """Makes splits of arrays, and describes them.

    They are fed as `fit` feeds them: floats as float32, integers as they are, unscaled. Bytes of a
    single input become float32. One integer a sample is a label, and the largest says how many
    classes there are; floats are a regression's values. All else, as several arrays, weights or
    labels, only a network that comes compiled can take.

    Args:
        loaded: Arrays, or arrays in dicts and tuples.
        source: Of the data, for the record.
        where: The function that returned it, for messages.

    Raises:
        DatasetError: It is something else, or the arrays do not fit together.
    """
    train = _read(loaded.training, "train", where)
    validation: Data = map_arrays(lambda array: array[:0], train)  # there is none
    if fit_data.makes_batches(loaded.validation):
        raise DatasetError(
            f"{where}: validates arrays by batches. Return arrays, or batches, for both."
        )
    if loaded.validation is not None:
        validation = _read(loaded.validation, "val", where)
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
    spec = dataclasses.replace(spec, shuffled=bool(loaded.arguments.get("shuffle", True)))
    return Splits(
        spec=spec,
        train=train_split,
        validation=validation_split,
        source=source,
        content=_digest((fed_train, fed_validation)),
    )


def splits_of_batches(
    loaded: FitData, inspected: FitData, batch_size: int, *, source: str, where: str
) -> Splits:
    """Makes splits of batches that the user makes, which hold the first batch of each.

    Args:
        loaded: To train with.
        inspected: The same, made once more, to be looked at: that may change it.
        batch_size: Of the run, over all replicas.
        source: As of `splits_of`.
        where: As of `splits_of`.

    Raises:
        DatasetError: The batches are of another size, or it is not known how many there are.
    """
    steps = loaded.arguments.get("steps_per_epoch")
    train = fit_data.inspect_batches(inspected.training, where, steps)
    if train.batch_size != batch_size:
        sizes = f"{train.batch_size}"
        if train.is_uneven:
            sizes = f"up to {train.batch_size}"
        raise DatasetError(
            f"{where}: makes batches of {sizes} samples, and the run counts {batch_size}. Use"
            f" --global-batch-size {train.batch_size}."
        )
    train_split = _split(train.first, train.num_samples)
    validation_split = _split(train.first, 0)
    if fit_data.makes_batches(inspected.validation):
        steps = loaded.arguments.get("validation_steps")
        found = fit_data.inspect_batches(inspected.validation, where, steps)
        validation_split = _split(found.first, found.num_samples)
    elif inspected.validation is not None:
        validation_split = _split(_read(inspected.validation, "val", where))
    spec = DatasetSpec(
        input_shape=_shape_of(train_split.inputs),
        target_shape=_shape_of(train_split.targets),
        train_samples=train_split.num_samples,
        validation_samples=validation_split.num_samples,
        is_structured=True,
    )
    validation = loaded.validation
    if isinstance(validation, tuple):  # arrays: `fit` takes as many as there are
        validation = _split(validation).arrays
    pipeline = Pipeline(
        training=loaded.training,
        validation=validation,
        arguments=loaded.arguments,
        batches=train.batches,
        num_steps=train.num_batches,
        is_users=True,
    )
    return Splits(
        spec=spec,
        train=train_split,
        validation=validation_split,
        source=source,
        notes=(_OWN_BATCHES,),
        pipeline=pipeline,
    )


def _digest(data: Any) -> str:
    """Returns what identifies arrays: of all samples, or of some where there are many."""
    digest = hashlib.sha256()
    kind = "all"
    for array in list_arrays(data):
        digest.update(f"{array.shape} {array.dtype}".encode())
        if array.nbytes > _DIGESTED_BYTES:
            kind = "sample"
            array = array[np.linspace(0, len(array) - 1, _DIGESTED_ROWS).astype(np.int64)]
        digest.update(np.ascontiguousarray(array).data)
    return f"{digest.hexdigest()[:12]} of {kind}"


def _split(data: Data, num_samples: int | None = None) -> Split:
    x, y, weights = data
    if num_samples is None:
        num_samples = _count(x)
    return Split(inputs=x, targets=y, weights=weights, num_samples=num_samples)


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


def _read(data: Any, name: str, where: str) -> Data:
    """Returns inputs, targets and weights, checked; those that are missing are None."""
    parts: Data = data
    num_samples: int | None = None
    for part, structure in zip(_PARTS, parts, strict=True):
        arrays = list_arrays(structure)
        if not arrays and part == "x":
            raise DatasetError(
                f"{where}: must return {FORM}. Received as x_{name}: {_describe(structure)}."
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
                    f"{where}: must return {FORM}. Received as {part}_{name}: {_describe(array)}; "
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
        input_shape=_shape_of(x),
        target_shape=_shape_of(y),
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
        num_classes = int(y.max()) + 1
        if validation.num_samples:
            num_classes = max(num_classes, int(validation.targets.max()) + 1)
    dtype: Any = str(x.dtype)
    return dataclasses.replace(
        spec,
        input_dtype=dtype,
        num_classes=num_classes,
        is_structured=False,
    )


def _shape_of(structure: Any) -> Any:
    """Returns the shapes of samples: one, or as many in the same dicts and tuples."""
    if structure is None:
        return ()
    return map_arrays(lambda array: array.shape[1:], structure)


def _describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}, {value.dtype}"
    if isinstance(value, dict):
        items = [f"{key}: {_describe(item)}" for key, item in value.items()]
        return "{" + ", ".join(items) + "}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_describe, value))})" if value else "nothing"
    return type(value).__name__
