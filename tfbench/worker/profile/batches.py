"""What a profiled step is fed with: the recipe's own batches."""

from typing import Any

from tfbench import backends
from tfbench.backends.profiling import ProfiledBatches
from tfbench.worker.prepared import Prepared


def build_batches(prepared: Prepared) -> ProfiledBatches:
    """Takes some batches of the recipe's own endless stream."""
    return backends.current().build_batches(build_pipeline(prepared), prepared.resolved)


def build_pipeline(prepared: Prepared) -> Any:
    """Builds the recipe's own endless stream of batches."""
    training = prepared.training
    return backends.current().build_training_dataset(
        prepared.splits, global_batch_size=training.global_batch_size, seed=training.seed
    )
