"""A sine wave, generated: the next value is to be predicted."""

import math
from typing import Annotated, Literal

import numpy as np
import pydantic

from tfbench.datasets.sources.splits import Array, Split, Splits
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Count, PositiveNumber, schema

Points = Annotated[Count, pydantic.Field(le=10_000_000)]
Rows = Annotated[Count, pydantic.Field(le=65_536)]


@schema
class Config:
    """x(t) = amplitude * sin(2 t) at `num_points` even steps of t from 0 to 6 pi.

    The first `train_points` train.
    """

    num_points: Points = 100
    """Points of the wave."""
    train_points: Points = 80
    """Points, from the first one on, that training samples are taken from."""
    sequence_length: Points = 10
    """Steps of a sample."""
    amplitude: PositiveNumber = 0.8
    """Height of the wave."""
    order: Literal["shuffled", "random_starts", "consecutive"] = "shuffled"
    """Order of the training windows.

    "shuffled": each starting point once per epoch. "random_starts": starting points drawn anew for
    every batch, as the original does. "consecutive": each of the `num_rows` rows of a batch goes on
    where it ended in the batch before, which makes truncated back-propagation of a stateful model's
    training.
    """
    num_rows: Rows = 10
    """Rows of a batch under `order = "consecutive"`; must be the global batch size."""

    def __post_init__(self) -> None:
        if self.train_points + self.sequence_length >= self.num_points:
            raise ValueError(
                "num_points must leave room for a validation sample: more than train_points +"
                f" sequence_length. Received: {self.num_points} with {self.train_points} +"
                f" {self.sequence_length}."
            )


def describe(config: Config) -> DatasetSpec:
    """Returns shapes and sizes.

    A training sample starts at each point, a validation sample where it fits in whole. With
    consecutive windows, an epoch ends when all rows are back where they began.
    """
    is_consecutive = config.order == "consecutive"
    train_samples = config.train_points
    if is_consecutive:
        train_samples = config.num_rows * _batches_of_a_round(config)
    return DatasetSpec(
        input_shape=(config.sequence_length, 1),
        target_shape=(config.sequence_length, 1),
        train_samples=train_samples,
        validation_samples=config.num_points - config.train_points - config.sequence_length,
        shuffled=not is_consecutive,
        drawn=config.order == "random_starts",
        num_rows=config.num_rows if is_consecutive else None,
    )


def load_splits(config: Config, data_dir: str | None) -> Splits:
    """Generates the windows: values from a point on, and as target the same one step later.

    Training windows wrap around at the end of the split, as in the original. Validation windows do
    not: the wave jumps there, and no network can foresee that.

    Source of the constants: the Qiita article "LSTM learns a sine wave" (user chachay), whose
    network the Qiita article on CPU and GPU speed with Chainer uses.
    """
    spec = describe(config)
    times = np.linspace(0, 2 * np.pi * 3, config.num_points)
    wave = (config.amplitude * np.sin(2 * times)).astype(np.float32)[:, None]

    def windows(part: Array, starts: Array) -> Split:
        points = starts[:, None] + np.arange(config.sequence_length)[None, :]
        return Split(
            inputs=part[points % len(part)],
            targets=part[(points + 1) % len(part)],
            num_samples=len(starts),
        )

    starts = np.arange(spec.train_samples)
    if config.order == "consecutive":
        starts = _consecutive_starts(config)
    return Splits(
        spec=spec,
        train=windows(wave[: config.train_points], starts),
        validation=windows(wave[config.train_points :], np.arange(spec.validation_samples)),
        source=f"generated, {config.num_points} points",
    )


def _batches_of_a_round(config: Config) -> int:
    """Returns after how many batches a row, which moves on by a window each, is where it began."""
    return config.train_points // math.gcd(config.train_points, config.sequence_length)


def _consecutive_starts(config: Config) -> Array:
    """Returns where the windows start, batch after batch.

    The rows begin at even distances along the wave, as in the iterator of Chainer's example of a
    recurrent language model.
    """
    rows = np.arange(config.num_rows) * config.train_points // config.num_rows
    batches = np.arange(_batches_of_a_round(config)) * config.sequence_length
    return np.add.outer(batches, rows).ravel()
