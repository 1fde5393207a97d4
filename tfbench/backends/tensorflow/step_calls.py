"""What a profile takes apart: batches at hand, and a compiled model's step as functions without arguments."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfbench.backends import profiling
from tfbench.backends.profiling import Call
from tfbench.backends.tensorflow.profiled_step import ProfiledStep


class ProfiledBatches(profiling.ProfiledBatches):
    """Batches of TensorFlow's.

    Args:
        dataset: The recipe's own endless stream of batches.
        placed: Where the step runs.
    """

    def __init__(self, dataset: Any, placed: Any) -> None:
        def put(tensor: Any) -> Any:
            with tf.device(placed.device_names[0]):
                return tf.identity(tensor)

        super().__init__(
            dataset, put=put, iterate=lambda batches: iter(placed.strategy.experimental_distribute_dataset(batches))
        )

    def iterator(self, *, num_ahead: int = 0) -> Any:
        """Returns an iterator of batches on the host, without any work."""
        dataset = tf.data.Dataset.from_tensors(self.on_host[0])
        for batch in self.on_host[1:]:
            dataset = dataset.concatenate(tf.data.Dataset.from_tensors(batch))
        options = tf.data.Options()
        options.autotune.enabled = False
        dataset = dataset.repeat().with_options(options)
        return self._iterate(dataset.prefetch(num_ahead) if num_ahead else dataset)


class StepCalls(profiling.StepCalls):
    """A step of TensorFlow's; waited for by reading its result."""

    def __init__(self, model: Any, batches: ProfiledBatches, placed: Any) -> None:
        model.optimizer.build(model.trainable_variables)
        super().__init__(model, batches, placed)
        self._profiled = ProfiledStep(model, self.calls, placed.strategy)

    def build(self, upto: str) -> Callable[..., Any]:
        """Returns the step up to a phase."""
        return self._profiled.build(upto)

    def train(self, iterator: Any) -> Any:
        """Calls Keras's training function."""
        return self.model.train_function(iterator)["loss"]

    def wait(self, result: Any) -> None:
        """Waits until the device has a number, and what was to be done before it, and copies it to the host."""
        (result[0] if isinstance(result, tuple) else result).numpy()

    def take_call(self, iterator: Any) -> Call:
        """Returns one call of a function that takes a batch of an iterator, as Keras's does, and nothing else."""
        function = self._profiled.build_take()
        return lambda: self.wait(function(iterator))
