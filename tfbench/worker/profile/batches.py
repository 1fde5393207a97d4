"""What a profiled step is fed with: batches at hand, or the recipe's own input pipeline."""

import itertools
from collections.abc import Iterator
from typing import Any

from tfbench.backends.tensorflow import input_pipeline
from tfbench.worker.benchmark import Prepared

_POOL_BATCHES, _POOL_BYTES = 32, 64 * 2**20  # at hand, so that a step learns from more than one batch


class ProfiledBatches:
    """Some batches of the recipe's data, at hand on the device of the run, over and over."""

    def __init__(self, prepared: Prepared) -> None:
        import tensorflow as tf

        self.dataset = build_pipeline(prepared)
        first = next(iter(self.dataset))
        size = sum(tensor.shape.num_elements() * tensor.dtype.size for tensor in first)
        self._num = max(2, min(_POOL_BATCHES, _POOL_BYTES // size))
        self.on_host = list(self.dataset.take(self._num))
        with tf.device(prepared.device):
            self.on_device = [tuple(map(tf.identity, batch)) for batch in self.on_host]

    def cycle(self) -> Iterator[Any]:
        """Yields batches on the device, without end."""
        return itertools.cycle(self.on_device)

    def iterator(self, strategy: Any, *, num_ahead: int = 0) -> Any:
        """Returns an iterator as Keras's training function takes it: of batches on the host, without any work.

        Args:
            strategy: That the batches are for.
            num_ahead: Batches that a thread has ready, as in an input pipeline; 0: there is no such thread.
        """
        import tensorflow as tf

        dataset = tf.data.Dataset.from_tensors(self.on_host[0])
        for batch in self.on_host[1:]:
            dataset = dataset.concatenate(tf.data.Dataset.from_tensors(batch))
        options = tf.data.Options()
        options.autotune.enabled = False
        dataset = dataset.repeat().with_options(options)
        return iterate(dataset.prefetch(num_ahead) if num_ahead else dataset, strategy)


def build_pipeline(prepared: Prepared) -> Any:
    """Builds the recipe's own endless stream of batches."""
    training = prepared.training
    return input_pipeline.build_training_dataset(
        prepared.splits, global_batch_size=training.global_batch_size, seed=training.seed
    )


def iterate(dataset: Any, strategy: Any) -> Any:
    """Returns an iterator as Keras makes it of a data set under a strategy."""
    return iter(strategy.experimental_distribute_dataset(dataset))
