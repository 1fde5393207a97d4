"""Training from samples that lie on JAX's device: one compiled loop of many steps, which gather their batches there."""

from collections.abc import Callable
from typing import Any

from tfbench.backends import array_feeding, resident_samples
from tfbench.backends.jax.memory import explain_exhaustion
from tfbench.backends.placed import Placed
from tfbench.datasets.sources.splits import Splits
from tfbench.recipe.sections import TrainingConfig


def build_resident_training(
    model: Any, splits: Splits, training: TrainingConfig, placed: Placed, *, steps_per_epoch: int, first_step: int
) -> Any:
    """Copies the training samples to the device, and gives a compiled model a training function that takes them there.

    What the host hands over is the samples' numbers, those of the model's `steps_per_execution` steps at a time, fewer
    at the end of an epoch; one compiled function does these steps. See the protocol.
    """
    import jax

    split, finish = resident_samples.require_in_memory(splits), resident_samples.build_finish(splits)
    with resident_samples.too_many_named(split, placed, explain_exhaustion):
        samples = jax.block_until_ready(jax.device_put((split.inputs, split.targets)))

    def gather(samples: tuple[Any, Any], rows: Any) -> tuple[Any, Any]:
        inputs, targets = (array.at[rows].get(mode="promise_in_bounds") for array in samples)
        return finish(inputs), targets

    blocks = resident_samples.number_blocks(
        splits,
        training,
        most=int(model.steps_per_execution),
        steps_per_epoch=steps_per_epoch,
        first_step=first_step,
    )
    # As `fit` makes the variables of optimizer, loss and metrics, which would take samples' numbers for a batch.
    model._symbolic_build(data_batch=gather(samples, jax.numpy.zeros(training.global_batch_size, "int32")))
    do_steps = _one_by_one(model, gather) if training.compiler_used == "eager" else _compile(model, gather)

    def train_function(state: Any, iterator: Any) -> Any:
        return do_steps(state, samples, *next(iterator))

    model.train_function = train_function
    return array_feeding.ahead(blocks)


def _compile(model: Any, gather: Callable[..., Any]) -> Callable[..., Any]:
    """Returns what does the steps of a block in one call: of Keras's state of a model it makes the one after them."""
    import jax

    # The samples are an argument: what a compiled function closes over may become constants of its code.
    def do_steps(state: Any, samples: Any, rows: Any, count: Any) -> Any:
        def step(done: Any, told_and_state: Any) -> Any:
            told, after = model.train_step(told_and_state[1], gather(samples, rows[done]))
            return jax.tree.map(jax.numpy.asarray, told), tuple(map(list, after))

        # What the last step tells is handed on from step to step; a loop needs first values for that.
        told, _ = jax.eval_shape(step, 0, (None, state))
        nothing = jax.tree.map(lambda one: jax.numpy.zeros(one.shape, one.dtype), told)
        return jax.lax.fori_loop(0, count, step, (nothing, state))

    # As Keras does: a state is not kept beside the one after it.
    compiled: Callable[..., Any] = jax.jit(do_steps, donate_argnums=0)
    return compiled


def _one_by_one(model: Any, gather: Callable[..., Any]) -> Callable[..., Any]:
    """Returns what does the same with nothing compiled."""

    def do_steps(state: Any, samples: Any, rows: Any, count: Any) -> Any:
        told: Any = {}
        for done in range(int(count)):
            told, state = model.train_step(state, gather(samples, rows[done]))
        return told, state

    return do_steps
