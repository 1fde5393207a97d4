"""What a data set hands over: samples in their stored type, and what makes them a model's input."""

import contextlib
import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tfbench.errors import DatasetError
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.runs.batch_sizes import BatchSizes

# bytes; TensorFlow uses memory that begins at a multiple of it as it is, and copies any other
ALIGNMENT = 64
SplitName = Literal["train", "validation", "test"]
Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """Samples of one split, each found by its number.

    `inputs` and `targets` may hold fewer samples than `num_samples` (a pool, for synthetic data):
    sample i is then row i modulo the pool's size. Where `inputs` are not the samples but say where
    they are, as names of files do, `read` turns a row into a sample of the stored shape and type.
    Where the description of the data says `is_structured`, each of the three is arrays in dicts and
    tuples, or None.
    """

    inputs: Any
    targets: Any
    num_samples: int
    read: Callable[[Any], Array] | None = None
    weights: Any = None  # of samples, or of each of their values

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The inputs, targets and weights of all samples, as `fit` unpacks a batch.

        None at its end is left out.
        """
        if self.weights is not None:
            return (self.inputs, self.targets, self.weights)
        if self.targets is not None:
            return (self.inputs, self.targets)
        return (self.inputs,)

    @property
    def num_rows(self) -> int:
        """Samples that are there: of a pool, fewer than `num_samples`."""
        return len(list_arrays(self.inputs)[0])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in list_arrays(self.arrays))

    def labels(self) -> Array:
        """Returns the target of every sample, a pool's as often as it is drawn from."""
        return np.resize(self.targets, (self.num_samples, *self.targets.shape[1:]))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Pipeline:
    """What `fit` is given where batches are not tfbench's: those of the user's, or whole arrays."""

    training: Any
    validation: Any
    arguments: Mapping[str, Any]  # of `fit` that go with them
    batches: BatchSizes
    num_steps: int  # of an epoch
    is_users: bool  # whether the batches are the user's


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Splits:
    """Training, validation and, if there is one, test samples of a data set.

    `mean` is subtracted from the inputs before they are scaled: float32, of the stored shape, or of
    the input's where it is one of channels.
    """

    spec: DatasetSpec
    train: Split
    validation: Split
    source: str
    synthetic: bool = False
    notes: tuple[str, ...] = ()  # what a reader of the figures must know of the data
    test: Split | None = None
    mean: npt.NDArray[np.float32] | None = None
    # whether the samples were decoded before, as of `sources/cache.py`; "": they are not kept there
    cache: str = ""
    pipeline: Pipeline | None = None  # None: tfbench makes the batches
    content: str = ""  # digest of the user's own samples, and of how many of them; "": none


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LoadedSplits:
    """Splits of a published data set by name, each with all of its samples in arrays."""

    splits: Mapping[str, Split]
    source: str = ""  # for people
    where: str = ""  # in messages
    remedy: str = "Fetch it again."  # where it is not what it should be
    cache: str = ""  # what came of the cache
    num_classes: int | None = None  # of its labels, where somebody asked

    def require(self, spec: DatasetSpec, counts: Mapping[str, int]) -> None:
        """Checks samples, labels and numbers of splits.

        Raises:
            DatasetError: Naming the split, and what is wrong with it.
        """
        for name, count in counts.items():
            if problem := find_mismatch(self.splits[name], spec, count):
                raise DatasetError(f"{self.where}, split {name}: {problem}. {self.remedy}")

    def train_and_test(self, spec: DatasetSpec) -> Splits:
        """Returns the splits "train", whose mean counts, and "test", which is for validation.

        Raises:
            DatasetError: They are not what the description says.
        """
        self.require(spec, {"train": spec.train_samples, "test": spec.validation_samples})
        train = self.splits["train"]
        test = self.splits["test"]
        mean = mean_of(train.inputs, spec)
        return Splits(
            spec=spec, train=train, validation=test, source=self.source, mean=mean, cache=self.cache
        )


def list_arrays(structure: Any) -> list[Array]:
    """Returns the arrays in dicts, in the order of their keys, and tuples; None holds none."""
    if structure is None:
        return []
    if isinstance(structure, dict):
        structure = [structure[key] for key in sorted(structure, key=str)]
    if not isinstance(structure, tuple | list):
        return [structure]
    arrays = []
    for value in structure:
        arrays += list_arrays(value)
    return arrays


def map_arrays(function: Callable[[Any], Any], structure: Any) -> Any:
    """Returns the same dicts and tuples with what a function makes of their arrays."""
    if isinstance(structure, dict):
        return {key: map_arrays(function, structure[key]) for key in sorted(structure, key=str)}
    if isinstance(structure, tuple | list):
        # A tuple either way: TensorFlow makes one tensor of a list.
        return tuple(map_arrays(function, value) for value in structure)
    if structure is None:
        return None
    return function(structure)


def allocate(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Returns an uninitialised array that TensorFlow can use without a copy."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def copy_aligned(array: Array) -> Array:
    """Returns the values of an array in memory such as `allocate` gives."""
    copy = allocate(array.shape, array.dtype)
    copy[...] = array
    return copy


def mean_of(inputs: Array, spec: DatasetSpec) -> npt.NDArray[np.float32] | None:
    """Returns the mean of samples in the form that `spec` asks for, or None."""
    if spec.mean == "none":
        return None
    mean = inputs.mean(axis=0, dtype=np.float64)
    if spec.mean == "channel":
        return spread_mean(mean.mean(axis=(0, 1)), spec)
    return np.asarray(mean, np.float32)


def spread_mean(of_channels: Array, spec: DatasetSpec) -> npt.NDArray[np.float32]:
    """Returns means of channels for each pixel of a model's input.

    Frameworks subtract them ten times as fast as three numbers.
    """
    return np.broadcast_to(of_channels, spec.input_shape).astype(np.float32, order="C")


def find_mismatch(split: Split, spec: DatasetSpec, num_samples: int) -> str | None:
    """Returns how the samples of a split differ from their description, or None.

    It costs one pass over the targets.

    Args:
        split: Its inputs are samples, not where they are.
        spec: Of the data.
        num_samples: How many there should be.
    """
    shape = spec.sample_shape
    if split.inputs.shape[1:] != shape or split.inputs.dtype != spec.input_dtype:
        return (
            f"expected inputs of shape {shape}, {spec.input_dtype};"
            f" found {split.inputs.shape[1:]}, {split.inputs.dtype}"
        )
    if len(split.inputs) != len(split.targets):
        return f"found {len(split.inputs)} inputs, but {len(split.targets)} targets"
    if spec.num_classes is not None and len(split.targets):
        low = int(np.min(split.targets))
        high = int(np.max(split.targets))
        if low < 0 or high >= spec.num_classes:
            return f"expected labels 0 to {spec.num_classes - 1}, found {low} to {high}"
    if split.targets.shape[1:] != spec.target_shape:
        return f"expected targets of shape {spec.target_shape}, found {split.targets.shape[1:]}"
    if num_samples != split.num_samples:
        return f"expected {num_samples:,} samples, found {split.num_samples:,}"
    return None


def count_steps_per_epoch(num_samples: int, global_batch_size: int) -> int:
    """Returns ceil(samples / batch).

    Every batch is full, and the order wraps around inside the last one.
    """
    return math.ceil(num_samples / global_batch_size)


@contextlib.contextmanager
def reading(path: Path, expected: str, remedy: str = "Fetch it again.") -> Iterator[None]:
    """Turns whatever is raised into a message.

    Args:
        path: What is read.
        expected: What it should be: "an IDX file".
        remedy: What to do.

    Raises:
        DatasetError: Something was raised.
    """
    try:
        yield
    except DatasetError:
        raise
    except Exception as error:  # readers of damaged files raise what their parsers do
        text = re.sub(r"\{\{.*?\}\} ?|\[Op:.*", "", str(error))  # TensorFlow's names of nodes
        lines = text.strip().splitlines()
        reason = lines[0][:200].strip() if lines else type(error).__name__
        raise DatasetError(f"{path}: cannot be read as {expected} ({reason}). {remedy}") from error
