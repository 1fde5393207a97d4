"""A compiled model's step as functions without arguments: Keras's own, and those of its parts."""

from collections.abc import Callable
from typing import Any

from tfbench.backends import profiling
from tfbench.backends.placed import Placed
from tfbench.backends.profiling import Call
from tfbench.backends.tensorflow.profiled_batches import ProfiledBatches, strategy_of
from tfbench.backends.tensorflow.variables import carried_states


class StepCalls(profiling.StepCalls):
    """A step of TensorFlow's; waited for by reading its result."""

    def __init__(self, model: Any, batches: ProfiledBatches, placed: Placed) -> None:
        import tensorflow as tf

        from tfbench.backends.tensorflow.profiled_step import ProfiledStep

        super().__init__(model, batches)
        self._profiled = ProfiledStep(model, self.calls, strategy_of(placed))
        self._variables = [*self._profiled.variables, *carried_states(model)]
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
