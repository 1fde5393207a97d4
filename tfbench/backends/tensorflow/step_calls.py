"""A compiled model's step as functions without arguments: Keras's own, and those of its parts."""

from typing import Any

from tfbench.backends.placed import Placed
from tfbench.backends.profiling import Call
from tfbench.backends.tensorflow.profiled_batches import ProfiledBatches, strategy_of
from tfbench.backends.tensorflow.variables import carried_states
from tfbench.records.profile import ProfiledLayer


class StepCalls:
    """A compiled model's step and what it is made of, as functions without arguments.

    Each waits until the device has done it, by reading its result; Keras's own does so if it is asked to.
    """

    def __init__(self, model: Any, batches: ProfiledBatches, placed: Placed) -> None:
        import tensorflow as tf

        from tfbench.backends.tensorflow.profiled_step import ProfiledStep

        self.model = model
        self._batches = batches
        self._profiled = ProfiledStep(model, strategy_of(placed))
        self._keras_steps = model.steps_per_execution
        self._variables = [*self._profiled.variables, *carried_states(model)]
        self._kept = [tf.identity(variable) for variable in self._variables]
        model.make_train_function()

    def call(self, upto: str) -> Call:
        """Returns one call of the step up to a phase; see `ProfiledStep.build`."""
        function, cycle = self._profiled.build(upto), self._batches.cycle()

        def call() -> None:
            result = function(*next(cycle))
            _read(result[0] if isinstance(result, tuple) else result)

        return call

    def keras_call(self, iterator: Any, *, waits: bool = False) -> tuple[Call, int]:
        """Returns one call of Keras's training function, and the steps that it does.

        Args:
            iterator: Of its batches.
            waits: Whether it ends as calls of phases do, so that it differs from them by what it does, and not by what
                the host does beside a device; `fit` does not wait for each step.
        """

        def call() -> None:
            logs = self.model.train_function(iterator)
            if waits:
                _read(logs["loss"])

        return call, self._keras_steps

    @property
    def num_layers(self) -> int:
        """Uses of a layer."""
        return self._profiled.num_calls

    def take_call(self, iterator: Any) -> Call:
        """Returns one call of a function that takes a batch of an iterator, as Keras's does, and nothing else."""
        function = self._profiled.build_take()

        def call() -> None:
            _read(function(iterator))

        return call

    def restore(self) -> None:
        """Gives all variables the values of the beginning, those of metrics included."""
        for variable, value in zip(self._variables, self._kept, strict=True):
            variable.assign(value)
        self.model.reset_metrics()

    def describe_layers(self, batch_size: int) -> list[ProfiledLayer]:
        """Returns the layers; none where they cannot be told apart."""
        return [] if self.why_not_apart else self._profiled.describe_layers(batch_size)

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


def _read(result: Any) -> None:
    """Waits until the device has a number, and what was to be done before it, and copies it to the host."""
    result.numpy()
