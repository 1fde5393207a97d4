"""Random samples in the shapes of the network's own inputs and outputs.

They are generated, to measure speed alone.
"""

from typing import Annotated

import pydantic

from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Count, NaturalNumber, schema

Samples = Annotated[Count, pydantic.Field(le=10_000_000)]


@schema
class Config:
    """The network must come compiled: its loss tells what its targets are."""

    num_samples: Samples = 1024
    """Training samples."""
    validation_samples: Samples = 256
    """Validation samples."""
    length: Annotated[Count, pydantic.Field(le=1_000_000)] = 32
    """Size of every axis that the network leaves open, as the length of sequences."""
    seed: NaturalNumber = 0
    """Draws the samples."""


def describe(config: Config) -> DatasetSpec:
    """Returns sizes; `worker.data` makes the samples, since the network alone knows the shapes."""
    return DatasetSpec(
        input_shape=(),
        train_samples=config.num_samples,
        validation_samples=config.validation_samples,
        is_structured=True,
    )
