"""A compiled model's step on JAX as functions: Keras's own, and the step up to each phase.

A function takes the state that training changes, and returns it. The state is held here, as `fit`
holds it: a function that updates it may write over what it was given, so that every call has to
begin with what the last one left.
"""

import functools
from typing import Any

import jax
import keras

from tfbench.backends import profiling
from tfbench.backends.device_choice import Placed
from tfbench.backends.profiling import ProfiledBatches

# The parts of the state that Keras's training function takes and returns, in its order.
STATE_PARTS = (
    "trainable_variables",
    "non_trainable_variables",
    "optimizer_variables",
    "metrics_variables",
)

State = tuple[list[Any], list[Any], list[Any], list[Any]]


class StepCalls(profiling.StepCalls):
    """A step of JAX's; all of its results are waited for."""

    def __init__(self, model: Any, batches: ProfiledBatches, placed: Placed) -> None:
        model._symbolic_build(data_batch=batches.on_host[0])  # as `fit` begins
        super().__init__(model, batches, placed)
        self._state: State | None = None  # None: the model's variables hold it

    def build(self, upto: str) -> Any:
        """Returns the step up to a phase, as a function of the state, too.

        It returns all that it computes, the loss first, since XLA leaves out unused results.
        """
        work = functools.partial(_run, self.model, upto)
        if not self.model.jit_compile:
            return work
        donated = 0 if upto == "update" else ()
        return jax.jit(work, donate_argnums=donated, keep_unused=True)

    def run(self, upto: str, function: Any, x: Any, y: Any) -> Any:
        """Calls what `build` returned."""
        result = function(self.take_state(), x, y)
        if upto == "update":
            self._state = result[1]
        return result

    def train(self, iterator: Any) -> Any:
        """Calls Keras's training function; returns its logs, and the state."""
        logs, self._state = self.model.train_function(self.take_state(), iterator)
        # `fit` lays the state out for callbacks after each step, which takes time for a network of
        # many variables.
        self.model._jax_state = dict(zip(STATE_PARTS, self._state, strict=True))
        return logs, self._state

    def wait(self, result: Any) -> None:
        """Waits for all arrays; JAX alone would pass over those in Keras's own containers."""
        jax.block_until_ready(keras.tree.flatten(result))

    def restore(self) -> None:
        """Gives all variables the values of the beginning, and holds no state beside them."""
        self._state = self.model._jax_state = None
        super().restore()

    def take_state(self) -> State:
        """Returns the state; the first call takes it from the model's variables, as `fit` does."""
        if self._state is None:
            parts = dict.fromkeys(STATE_PARTS, True)
            self._state = self.model._get_jax_state(**parts, purge_model_variables=True)
        return self._state


def _run(model: Any, upto: str, state: State, x: Any, y: Any) -> Any:
    """Does what Keras's own step does, without its metrics, up to a phase."""
    if upto == "dispatch":
        return 0.0
    trained, others, of_optimizer, of_metrics = state
    forward = functools.partial(
        model.compute_loss_and_updates,
        non_trainable_variables=others,
        metrics_variables=of_metrics,
        x=x,
        y=y,
        sample_weight=None,
        training=True,
        optimizer_variables=of_optimizer,
    )
    if upto == "forward":
        _, (loss, _, others, _) = forward(trained)
        return loss, others
    backward = jax.value_and_grad(forward, has_aux=True)
    (_, (loss, _, others, _)), gradients = backward(trained)
    if upto == "backward":
        return loss, others, gradients
    trained, of_optimizer = model.optimizer.stateless_apply(of_optimizer, gradients, trained)
    return loss, (trained, others, of_optimizer, of_metrics)
