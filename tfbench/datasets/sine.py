"""A sine wave to be continued: generated, and the whole data of its workload."""

from typing import Annotated

import pydantic

from tfbench.results import DatasetSpec
from tfbench.schema import Count, PositiveNumber, schema
from tfbench.splits import Split, Splits

Points = Annotated[Count, pydantic.Field(le=10_000_000)]


@schema
class Config:
    """x(t) = amplitude * sin(2 t) at `num_points` even steps of t from 0 to 6 pi; the first `train_points` train."""

    num_points: Points = 100
    train_points: Points = 80
    sequence_length: Points = 10
    amplitude: PositiveNumber = 0.8

    def __post_init__(self) -> None:
        if self.train_points + self.sequence_length >= self.num_points:
            raise ValueError(
                "num_points must leave room for a validation sample: more than train_points + sequence_length. "
                f"Received: {self.num_points} with {self.train_points} + {self.sequence_length}."
            )


def describe(config: Config) -> DatasetSpec:
    """Returns shapes and sizes: a training sample starts at each point, a validation sample where it fits in whole."""
    return DatasetSpec(
        input_shape=(config.sequence_length, 1),
        input_dtype="float32",
        target_shape=(config.sequence_length, 1),
        num_classes=None,
        train_samples=config.train_points,
        validation_samples=config.num_points - config.train_points - config.sequence_length,
    )


def load_splits(config: Config, data_dir: str | None) -> Splits:
    """Generates the windows: `sequence_length` values from a point on, and as target the same one step later.

    Training windows wrap around at the end of the split, as in the original. Validation windows do not: the wave jumps
    there, and no network can foresee that.

    Source of the constants: the Qiita article "LSTM learns a sine wave" (user chachay), whose network the Qiita article
    on CPU and GPU speed with Chainer uses.
    """
    import numpy as np

    spec = describe(config)
    times = np.linspace(0, 2 * np.pi * 3, config.num_points)
    wave = (config.amplitude * np.sin(2 * times)).astype(np.float32)[:, None]

    def windows(part: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]", count: int) -> Split:
        rows = np.arange(count)[:, None] + np.arange(config.sequence_length)[None, :]
        return Split(inputs=part[rows % len(part)], targets=part[(rows + 1) % len(part)], num_samples=count)

    return Splits(
        spec=spec,
        train=windows(wave[: config.train_points], spec.train_samples),
        validation=windows(wave[config.train_points :], spec.validation_samples),
        source=f"generated, {config.num_points} points",
    )
