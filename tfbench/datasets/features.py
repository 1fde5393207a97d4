"""Random vectors, or sequences of them, generated; the target is a smooth function of each."""

from typing import Annotated

import numpy as np
import pydantic

from tfbench.datasets.sources.splits import Array, Split, Splits
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Count, NaturalNumber, Width, schema

MAX_VALUES = 2 * 2**30  # of all inputs together, 8 GiB
NUM_WAVES = 16  # enough for a function that a straight line does not fit

Samples = Annotated[Count, pydantic.Field(le=100_000_000)]


@schema
class Config:
    """A sample is `time_steps` vectors of `num_features` values."""

    num_features: Width = 4
    """Values of a vector."""
    time_steps: Annotated[Count, pydantic.Field(le=1_000_000)] = 1
    """Vectors of a sample; 1: a sample is one vector, not a sequence."""
    num_samples: Samples = 10_000
    """Training samples."""
    validation_samples: Samples = 1_000
    """Validation samples."""
    seed: NaturalNumber = 0
    """Draws inputs and function.

    It is not the training's, so that runs with several of those share the data.
    """

    def __post_init__(self) -> None:
        num_samples = self.num_samples + self.validation_samples
        num_values = num_samples * self.time_steps * self.num_features
        if num_values > MAX_VALUES:
            raise ValueError(
                "(num_samples + validation_samples) * time_steps * num_features must be at most"
                f" {MAX_VALUES:,} values. Received: {num_values:,}."
            )


def describe(config: Config) -> DatasetSpec:
    """Returns shapes and sizes."""
    return DatasetSpec(
        input_shape=(config.time_steps, config.num_features),
        target_shape=(1,),
        train_samples=config.num_samples,
        validation_samples=config.validation_samples,
    )


def load_splits(config: Config, data_dir: str | None) -> Splits:
    """Generates the samples.

    Inputs are standard normal. With the values of a sample in one vector x of length n, its target
    is the sum of `NUM_WAVES` waves, a_j sin(w_j x + b_j), with w_j normal of variance 1/n, so that
    w_j x is standard normal whatever the length, b_j uniform on the circle, and a_j normal, scaled
    for targets of a variance of about 1.
    """
    spec = describe(config)
    size = config.time_steps * config.num_features
    seeds = np.random.SeedSequence(config.seed).spawn(3)
    of_function, of_training, of_validation = map(np.random.default_rng, seeds)
    frequencies = of_function.normal(scale=size**-0.5, size=(size, NUM_WAVES)).astype(np.float32)
    phases = of_function.uniform(0, 2 * np.pi, NUM_WAVES)
    heights = of_function.normal(size=NUM_WAVES)
    heights *= np.sqrt(2 / np.sum(heights**2))  # the variance of a sine of uniform phase is 1/2

    def generate(rng: np.random.Generator, count: int) -> Split:
        inputs: Array = rng.standard_normal((count, *spec.input_shape), np.float32)
        targets = np.sin(inputs.reshape(count, -1) @ frequencies + phases) @ heights
        return Split(inputs=inputs, targets=targets.astype(np.float32)[:, None], num_samples=count)

    return Splits(
        spec=spec,
        train=generate(of_training, config.num_samples),
        validation=generate(of_validation, config.validation_samples),
        source=f"generated, seed {config.seed}",
    )
