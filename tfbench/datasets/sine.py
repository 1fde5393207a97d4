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
        if self.train_points >= self.num_points:
            raise ValueError(
                f"train_points must be below num_points. Received: {self.train_points} of {self.num_points}."
            )


def describe(config: Config) -> DatasetSpec:
    """Returns shapes and sizes: one sample starts at each point."""
    return DatasetSpec(
        input_shape=(config.sequence_length, 1),
        input_dtype="float32",
        target_shape=(config.sequence_length, 1),
        num_classes=None,
        train_samples=config.train_points,
        validation_samples=config.num_points - config.train_points,
    )


def load_splits(config: Config, data_dir: str | None) -> Splits:
    """Generates the windows: sample i is `sequence_length` values from point i on, its target the same one step later.

    Indices wrap around at the end of each split. Source of the constants: the article "LSTM learns a sine wave" (Qiita,
    user chachay), whose network the Qiita article on CPU and GPU speed with Chainer uses.
    """
    import numpy as np

    times = np.linspace(0, 2 * np.pi * 3, config.num_points)
    wave = (config.amplitude * np.sin(2 * times)).astype(np.float32)[:, None]

    def windows(part: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]") -> Split:
        starts = np.arange(len(part))[:, None]
        steps = np.arange(config.sequence_length)[None, :]
        inputs = part[(starts + steps) % len(part)]
        targets = part[(starts + steps + 1) % len(part)]
        return Split(inputs=inputs, targets=targets, num_samples=len(part))

    return Splits(
        spec=describe(config),
        train=windows(wave[: config.train_points]),
        validation=windows(wave[config.train_points :]),
        source=f"generated, {config.num_points} points",
    )
