"""A run's own training step over several replicas, done once and taken back, and sums over its replicas."""

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfbench.backends.first_step import Gradients
from tfbench.backends.tensorflow.variables import copies_of, to_numpy, training_variables

_GRADIENT = "tfbench_gradient_"
_SHARED_SEED = "global_seed_generator"  # as Keras names it


@contextlib.contextmanager
def random_numbers_kept() -> Iterator[None]:
    """Gives the generators that all of Python and of NumPy share the states that they had before."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)


@contextlib.contextmanager
def taken_back(model: Any, build_all: Callable[[], None]) -> Iterator[None]:
    """Gives a model, its optimizer and Keras's generators of random numbers what they had before, bit by bit.

    Not TensorFlow's own: its global generator, and the seeds of operations outside of functions, have gone on.

    Args:
        model: Compiled under a strategy.
        build_all: Makes the variables that are not there yet; no draw of its own is seen afterwards either.
    """
    from keras.src.backend.common import global_state  # nothing public tells of the generator that Keras shares

    shared = global_state.get_global_attribute(_SHARED_SEED)
    build_all()
    variables = [*training_variables(model), *([] if shared is None else [shared.state])]
    kept = [np.array(to_numpy(variable)) for variable in variables]
    try:
        yield
    finally:
        with model.distribute_strategy.scope():
            for variable, value in zip(variables, kept, strict=True):
                variable.assign(value)
        if shared is None:
            global_state.set_global_attribute(_SHARED_SEED, None)
        model.reset_metrics()


def build(model: Any, batch: Any) -> None:
    """Makes the variables that training would make as it begins: those of the optimizer, the loss and the metrics."""
    if not model.optimizer.built:  # as a resumed run's is; one that scales the loss would make its variables again
        with model.distribute_strategy.scope():
            model.optimizer.build(model.trainable_variables)
    model._maybe_symbolic_build(data_batch=batch)  # as `fit` does; nothing public does it without training


class GradientStep:
    """Does steps by a function that Keras makes for training, with a model's strategy, optimizer and settings.

    The function is made for these steps alone, so that training later traces its own, as it would have without.

    Args:
        model: Compiled and built; changed by a step, and until `undo` no other than it would train.
        applies: Whether the optimizer updates the weights by the gradients.
    """

    def __init__(self, model: Any, *, applies: bool) -> None:
        self._model, self._optimizer = model, inner_optimizer(model)
        self._strategy, self._steps_per_execution = model.distribute_strategy, model.steps_per_execution
        places = {
            id(copy): (index, replica)
            for index, weight in enumerate(model.trainable_variables)
            for replica, copy in zip(replicas_of(self._strategy), copies_of(weight), strict=True)
        }
        recorded: dict[tuple[int, int], Any] = {}
        original_update, original_step = self._optimizer.update_step, model.train_step

        def update_step(gradient: Any, variable: Any, learning_rate: Any) -> Any:
            if id(variable) in places:  # a step of the user's own may update more than the model's weights
                recorded[places[id(variable)]] = tf.convert_to_tensor(gradient)
            return original_update(gradient, variable, learning_rate) if applies else None

        def train_step(data: Any) -> dict[str, Any]:
            original_step(data)
            own = _replica_id()
            return {f"{_GRADIENT}{index}": value for (index, replica), value in recorded.items() if replica == own}

        self._optimizer.update_step, model.train_step = update_step, train_step
        if model.optimizer is not self._optimizer:
            # It updates within a condition, out of which no gradient can be handed: here as if they are finite.
            model.optimizer.apply = model.optimizer._stateful_handle_finite_grads
        model.steps_per_execution = 1
        model.make_train_function(force=True)

    def __call__(self, batch: Any) -> Gradients:
        """Does a step; returns the gradients that the optimizer was given, summed over the replicas.

        Args:
            batch: Inputs and targets of all replicas in this process.
        """
        found = self._model.train_function(feed(self._strategy, batch))
        return {int(name.removeprefix(_GRADIENT)): value.numpy() for name, value in found.items()}

    def undo(self) -> None:
        """Lets the model train as it would have."""
        del self._optimizer.update_step, self._model.train_step
        if self._model.optimizer is not self._optimizer:
            del self._model.optimizer.apply
        self._model.train_function, self._model.steps_per_execution = None, self._steps_per_execution


def inner_optimizer(model: Any) -> Any:
    """Returns the optimizer that updates a model's weights: not the one around it that scales float16's loss."""
    return getattr(model.optimizer, "inner_optimizer", model.optimizer)


def replicas_of(strategy: Any) -> range:
    """Returns the numbers of the replicas of this process, among those of all workers."""
    if strategy.num_replicas_in_sync == 1:
        return range(1)
    count = len(strategy.extended.worker_devices)
    first = strategy.cluster_resolver.task_id * count if strategy.cluster_resolver else 0
    return range(first, first + count)


def gather(strategy: Any, batch: Any) -> list[Any]:
    """Returns what the replicas of several workers are fed with, each its batch; all workers must ask for it at once.

    Args:
        strategy: Of several workers, each one replica.
        batch: Inputs and targets of this one.
    """
    values = tf.nest.flatten(batch)
    # Integers are gathered as what every way to do so takes.
    wide = [value if value.dtype.is_floating else tf.cast(value, tf.int64) for value in values]

    def give() -> Any:
        return tf.distribute.get_replica_context().all_gather(wide, axis=0)

    gathered = tf.function(lambda: strategy.run(give), autograph=False)()
    count = strategy.num_replicas_in_sync
    with tf.device("/cpu:0"):
        parts = [tf.split(tf.cast(all_, own.dtype), count) for all_, own in zip(gathered, values, strict=True)]
    return [tf.nest.pack_sequence_as(batch, part) for part in zip(*parts, strict=True)]


def all_workers(strategy: Any, is_so: bool) -> bool:
    """Says whether something is so for all workers; all must ask for it at once."""
    if not strategy.cluster_resolver:
        return is_so
    with strategy.scope():
        count = strategy.reduce(tf.distribute.ReduceOp.SUM, tf.constant(float(is_so)), axis=None)
    return int(count) == int(strategy.num_replicas_in_sync)


def feed(strategy: Any, batch: Any) -> Any:
    """Returns an iterator of one batch, divided among the replicas as training's are."""
    with tf.device("/cpu:0"):
        batches = tf.data.Dataset.from_tensors(batch)
    return iter(strategy.experimental_distribute_dataset(batches))


def count_in_sums(strategy: Any, sizes: list[int]) -> list[set[float]]:
    """Returns how often each replica is counted in sums over all of them, by what Keras's optimizers sum up with.

    Args:
        strategy: Of several replicas.
        sizes: Elements of each tensor that is summed up; all at once, as the gradients of a step are.
    """
    num_replicas = strategy.num_replicas_in_sync
    sizes = [max(size, num_replicas) for size in sizes]

    def sum_up() -> Any:
        def give() -> Any:
            context = tf.distribute.get_replica_context()
            own = [tf.cast(tf.range(size) % num_replicas == _replica_id(), tf.float32) for size in sizes]
            return context.all_reduce(tf.distribute.ReduceOp.SUM, own)

        return strategy.run(give)

    counts: list[set[float]] = [set() for _ in range(num_replicas)]
    for total in tf.function(sum_up, autograph=False)():
        for copy in strategy.experimental_local_results(total):
            for replica in range(num_replicas):
                counts[replica].update(np.unique(copy.numpy()[replica::num_replicas]).tolist())
    return counts


def _replica_id() -> int:
    """Returns the number of the replica whose part of a step is being traced."""
    return int(tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group))
