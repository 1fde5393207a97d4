"""A text of yours: windows of its bytes, each with the byte that comes next as its label."""

import hashlib
from pathlib import Path
from typing import Annotated

import numpy as np
import pydantic

from tfbench.datasets.sources.splits import Split, Splits
from tfbench.errors import DatasetError
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Count, schema

NUM_BYTES = 256  # kinds of tokens
_HELD_OUT = 10  # one byte in so many, at the end of the text, is for validation
_HINT = "Name one UTF-8 text file (--data-dir FILE), or use --data synthetic."

Samples = Annotated[Count, pydantic.Field(le=10_000_000)]


@schema
class Config:
    """A sample is `context` bytes.

    Windows lie at even distances over the text, whatever its length.
    """

    context: Annotated[Count, pydantic.Field(ge=2, le=1_000_000)] = 64
    """Bytes of a sample."""
    num_samples: Samples = 12_000
    """Training samples, from the first nine tenths of the text."""
    validation_samples: Samples = 1_000
    """Validation samples, from the last tenth."""


def describe(config: Config) -> DatasetSpec:
    """Returns shapes and sizes."""
    return DatasetSpec(
        input_shape=(config.context,),
        input_dtype="int32",
        target_shape=(config.context,),
        num_classes=NUM_BYTES,
        train_samples=config.num_samples,
        validation_samples=config.validation_samples,
    )


def load_splits(config: Config, data_dir: str | None) -> Splits:
    """Reads the file.

    Args:
        config: As above.
        data_dir: The file.

    Raises:
        DatasetError: None is named, it cannot be read, is no UTF-8, or too short.
    """
    if data_dir is None:
        raise DatasetError(f"data set text: needs a file. {_HINT}")
    path = Path(data_dir)
    try:
        data = path.read_bytes()
        data.decode("utf-8")
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror}). {_HINT}") from error
    except UnicodeDecodeError as error:
        raise DatasetError(
            f"{path}: is not UTF-8 text, from byte {error.start:,} on. {_HINT}"
        ) from error
    least = _HELD_OUT * (config.context + 1)
    if len(data) < least:
        raise DatasetError(
            f"{path}: must hold {least:,} bytes or more, since dataset.context = {config.context}. "
            f"Received: {len(data):,}. Use a longer text, or a smaller context."
        )
    spec = describe(config)
    cut = len(data) - len(data) // _HELD_OUT

    def windows(part: bytes, count: int) -> Split:
        starts = np.linspace(0, len(part) - config.context - 1, count).astype(np.int64)
        numbers = np.frombuffer(part, np.uint8)
        rows = np.lib.stride_tricks.sliding_window_view(numbers, config.context + 1)[starts]
        inputs = rows[:, :-1].astype(np.int32)
        targets = rows[:, 1:].astype(np.int32)
        return Split(inputs=inputs, targets=targets, num_samples=count)

    digest = hashlib.sha256(data).hexdigest()
    return Splits(
        spec=spec,
        train=windows(data[:cut], spec.train_samples),
        validation=windows(data[cut:], spec.validation_samples),
        source=f"{path.name}, {len(data):,} bytes, SHA-256 {digest[:12]}",
    )
