"""What a profiled step is fed with: batches at hand, or the recipe's own input pipeline."""

import itertools
from collections.abc import Callable
from typing import Any

from tfbench.backends import profiling
from tfbench.backends.placed import Placed
from tfbench.backends.profiling import count_at_hand
from tfbench.backends.tensorflow import placement


class ProfiledBatches(profiling.ProfiledBatches):
    """Batches of TensorFlow's.

    Args:
        dataset: The recipe's own endless stream of batches.
        placed: Where the step runs.
    """

    def __init__(self, dataset: Any, placed: Placed) -> None:
        import tensorflow as tf

        self._dataset, self._placed = dataset, placed
        self._device = placed.device_names[0]
        first = next(iter(dataset))
        size = sum(tensor.shape.num_elements() * tensor.dtype.size for tensor in tf.nest.flatten(first))
        self.on_host = list(dataset.take(count_at_hand(size)))
        with tf.device(self._device):
            self._on_device = [tf.nest.map_structure(tf.identity, batch) for batch in self.on_host]

    def iterator(self, *, num_ahead: int = 0) -> Any:
        """Returns an iterator of batches on the host, without any work."""
        import tensorflow as tf

        dataset = tf.data.Dataset.from_tensors(self.on_host[0])
        for batch in self.on_host[1:]:
            dataset = dataset.concatenate(tf.data.Dataset.from_tensors(batch))
        options = tf.data.Options()
        options.autotune.enabled = False
        dataset = dataset.repeat().with_options(options)
        return iterate(dataset.prefetch(num_ahead) if num_ahead else dataset, strategy_of(self._placed))

    def pipeline(self) -> Any:
        """Returns an iterator of the recipe's own input pipeline."""
        return iterate(self._dataset, strategy_of(self._placed))

    def draw_call(self) -> Callable[[], None]:
        """Returns what waits for the input pipeline's next batch."""
        iterator = iter(self._dataset)

        def call() -> None:
            next(iterator)

        return call

    def copy_call(self) -> Callable[[], None] | None:
        """Returns what copies a batch from the host to the device, and waits for it; None: no step does that."""
        if not self._placed.gpu_names or not holds_copy(next(self.iterator()), self._device):
            return None
        import tensorflow as tf

        cycle = itertools.cycle(self.on_host)

        def call() -> None:
            with tf.device(self._device):
                for tensor in tf.nest.flatten(next(cycle)):
                    tf.identity(tensor)
            placement.synchronize()

        return call


def strategy_of(placed: Any) -> Any:
    """Returns TensorFlow's strategy of a placement that this back end resolved."""
    return placed.strategy


def iterate(dataset: Any, strategy: Any) -> Any:
    """Returns an iterator as Keras makes it of a data set under a strategy."""
    return iter(strategy.experimental_distribute_dataset(dataset))


def holds_copy(batch: Any, device: str) -> bool:
    """Says whether a step has to bring its batch to the device: not where the iterator gives it there already.

    Args:
        batch: As an iterator gives it, eagerly; of one replica.
        device: Of the step, as TensorFlow names it: "/device:GPU:0".
    """
    import keras

    return any(not str(tensor.device).endswith(device) for tensor in keras.tree.flatten(batch))
