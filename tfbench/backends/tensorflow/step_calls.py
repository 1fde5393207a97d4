"""What a profile takes apart: batches at hand, and a compiled model's step as functions without arguments."""

import itertools
from collections.abc import Callable
from typing import Any

from tfbench import backends
from tfbench.backends import profiling
from tfbench.backends.one_device import Placed
from tfbench.backends.profiling import Call, count_at_hand
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

    def draw_call(self) -> Call:
        """Returns what waits for the input pipeline's next batch."""
        iterator = iter(self._dataset)

        def call() -> None:
            next(iterator)

        return call

    def copy_call(self) -> Call | None:
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
    """Returns TensorFlow's strategy of a placement that this backend resolved."""
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


class StepCalls(profiling.StepCalls):
    """A step of TensorFlow's; waited for by reading its result."""

    def __init__(self, model: Any, batches: ProfiledBatches, placed: Placed) -> None:
        import tensorflow as tf

        from tfbench.backends.tensorflow.profiled_step import ProfiledStep

        super().__init__(model, batches)
        self._profiled = ProfiledStep(model, self.calls, strategy_of(placed))
        self._variables = [*self._profiled.variables, *backends.current().carried_states(model)]
        self._kept = [tf.identity(variable) for variable in self._variables]
        model.make_train_function()

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

    def restore(self) -> None:
        """Gives all variables the values of the beginning, those of metrics included."""
        for variable, value in zip(self._variables, self._kept, strict=True):
            variable.assign(value)
        self.model.reset_metrics()

    @property
    def why_not_apart(self) -> str:
        """Why its layers cannot be told apart; "": they can."""
        if self.model.jit_compile:
            reason = 'XLA makes one program of all layers (compiler = "xla")'
        elif self.model.run_eagerly:
            reason = 'no operation bears the name of its layer without a graph (compiler = "eager")'
        else:
            return ""
        return (
            f"{reason}: none can be timed apart. --set training.compiler=graph shows them as TensorFlow's graph "
            "computes them."
        )
