"""Training from samples that lie on JAX's device: one compiled loop of many steps, which gather their batches there."""

from collections.abc import Callable, Iterable
from typing import Any

from tfbench.backends import array_feeding, resident_samples
from tfbench.backends.one_device import Placed
from tfbench.datasets.sources.splits import Splits, map_arrays
from tfbench.recipe.sections import TrainingConfig


def build_resident_training(
    model: Any, splits: Splits, training: TrainingConfig, placed: Placed, *, steps_per_epoch: int, first_step: int
) -> Any:
    """Copies the training samples to the device, and gives a compiled model a training function that takes them there.

    What the host hands over is the samples' numbers, those of the model's `steps_per_execution` steps at a time, fewer
    at the end of an epoch; one compiled function does the steps of a call. See the protocol.
    """
    import jax

    split, finish = resident_samples.require_in_memory(splits), resident_samples.build_finish(splits)
    with resident_samples.too_many_named(split, placed):
        samples = jax.block_until_ready(jax.device_put(split.arrays))

    def gather(samples: Any, rows: Any) -> tuple[Any, ...]:
        inputs, *others = map_arrays(lambda array: array.at[rows].get(mode="promise_in_bounds"), samples)
        return finish(inputs), *others

    most = min(int(model.steps_per_execution), steps_per_epoch)
    blocks = resident_samples.number_blocks(
        splits, training, most=most, steps_per_epoch=steps_per_epoch, first_step=first_step
    )
    # As `fit` makes the variables of optimizer, loss and metrics, which would take samples' numbers for a batch.
    model._symbolic_build(data_batch=gather(samples, jax.numpy.zeros(training.global_batch_size, "int32")))
    if training.compiler_used == "eager":
        do_steps = _one_by_one(model, gather)
    else:
        do_steps = _compile(model, gather, {most, steps_per_epoch % most or most})

    def train_function(state: Any, iterator: Any) -> Any:
        (rows,) = next(iterator)
        return do_steps(state, samples, rows)

    model.train_function = train_function
    return array_feeding.ahead((rows,) for rows in blocks)


def _compile(model: Any, gather: Callable[..., Any], sizes: Iterable[int]) -> Callable[..., Any]:
    """Returns what does the steps of a block in one call: of Keras's state of a model it makes the one after them.

    Each size of a block has a program of its own: of a loop whose length is in no program, a GPU asks the host at every
    step whether it goes on. The first call compiles all of them, so that no later one takes the time for it.

    Args:
        model: Compiled.
        gather: Makes a batch of the samples, by their numbers.
        sizes: Of all blocks, in steps.
    """
    import jax

    # The samples are an argument: what a compiled function closes over may become constants of its code.
    def do_steps(state: Any, samples: Any, rows: Any) -> Any:
        def step(done: Any, told_and_state: Any) -> Any:
            told, after = model.train_step(told_and_state[1], gather(samples, rows[done]))
            return jax.tree.map(jax.numpy.asarray, told), tuple(map(list, after))

        # What the last step tells is handed on from step to step; a loop needs first values for that.
        told, _ = jax.eval_shape(step, 0, (None, state))
        nothing = jax.tree.map(lambda one: jax.numpy.zeros(one.shape, one.dtype), told)
        return jax.lax.fori_loop(0, len(rows), step, (nothing, state))

    # As Keras does: a state is not kept beside the one after it.
    jitted = jax.jit(do_steps, donate_argnums=0)
    programs: dict[int, Callable[..., Any]] = {}

    def run(state: Any, samples: Any, rows: Any) -> Any:
        if not programs:
            for size in sizes:
                block = jax.ShapeDtypeStruct((size, *rows.shape[1:]), rows.dtype)
                programs[size] = jitted.lower(state, samples, block).compile()
        return programs[len(rows)](state, samples, rows)

    return run


def _one_by_one(model: Any, gather: Callable[..., Any]) -> Callable[..., Any]:
    """Returns what does the same with nothing compiled."""

    def do_steps(state: Any, samples: Any, rows: Any) -> Any:
        told: Any = {}
        for numbers in rows:
            told, state = model.train_step(state, gather(samples, numbers))
        return told, state

    return do_steps
