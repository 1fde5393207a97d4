"""Whether several replicas train as one does: a first step of both, from the same batch and the same weights.

TensorFlow adds the replicas' gradients up, Keras divides their losses, and either may be wrong without a sign of it. So
every run over several replicas does one step before its clock starts, and takes it back:

- Sums over the replicas must count each replica once, exactly.
- The gradients that the optimizer is given must be those that one replica computes from the same batch: part after
  part, so that dropout and statistics of a batch are those of each replica, with float64 for the mean.
- All replicas of a process must make the same weights of them.

`first_step` says how far they may be apart. Each of several workers makes the whole check, of the batch that all are
fed with together, and takes it that the others' replicas hold before the step what its own does.
"""

import dataclasses
import gc
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbench.backends import first_step
from tfbench.backends.tensorflow.one_replica import compute_reference, to_array
from tfbench.backends.tensorflow.replica_step import (
    GradientStep,
    all_workers,
    build,
    count_in_sums,
    feed,
    gather,
    random_numbers_kept,
    replicas_of,
    taken_back,
)
from tfbench.backends.tensorflow.variables import copies_of
from tfbench.models.structure.foreign_model import has_own_step
from tfbench.records.placement import Placement, ReplicaCheck

_UNDIVIDED = (
    "its own train_step must divide its loss by the replicas (tf.distribute.get_strategy().num_replicas_in_sync), as "
    "self.compute_loss does"
)
_OF_VALUE = 2.0**-12  # of a weight, added to its update's size: four roundings of it are within the tolerance
_NO_MEMORY = "there was not enough memory for one more replica"


def check_replicas(model: Any, build_one: Callable[[], Any], batches: Any, placement: Placement) -> ReplicaCheck:
    """Holds a first step of several replicas against that of one, and takes it back; whoever asks looks for faults.

    Args:
        model: Compiled under a strategy of several replicas; with a snapshot's values already, if there is one.
        build_one: Builds and compiles a model like it, outside of the strategy, for the batch of one replica. Where it
            raises, as code of the user's may at its second call, sums are all that is compared.
        batches: The training's batches, a tf.data.Dataset of its own; of several workers, this one's.
        placement: Names the replicas.
    """
    check = ReplicaCheck(num_replicas=placement.num_replicas, compared=())
    with random_numbers_kept():
        batch = next(iter(batches))  # drawn once: what reads the samples may change them at random
        try:
            strategy = model.distribute_strategy
            parts = gather(strategy, batch) if placement.num_workers > 1 else _split(batch, placement.num_replicas)
            check = _compare_sums(check, model, batch, parts, placement)
            with taken_back(model, lambda: build(model, parts[0])):
                check = _compare_step(check, model, build_one, batch, parts)
        except tf.errors.ResourceExhaustedError:
            check = dataclasses.replace(check, reason=_NO_MEMORY)
    gc.collect()  # the functions of two steps, before the memory that training needs is read
    return check


def suggest_mend(check: ReplicaCheck, placement: Placement) -> str:
    """Returns what to do where replicas do not train as one does."""
    import keras

    if _UNDIVIDED in check.faults:
        return ""
    safe = "reduction_to_one_device"
    mend = (
        f"Use another number of replicas, or another version of TensorFlow ({tf.__version__}) or Keras "
        f"({keras.__version__})"
        if placement.cross_device_ops == safe or placement.num_workers > 1
        else f'Use distribution.cross_device_ops = "{safe}"'
    )
    return f"{mend}; a model with code of its own may be the cause, too."


def _compare_sums(
    check: ReplicaCheck, model: Any, batch: Any, parts: Sequence[Any], placement: Placement
) -> ReplicaCheck:
    """Compares what the replicas are fed with, and how often their sums hold each."""
    strategy = model.distribute_strategy
    counts = count_in_sums(strategy, [math.prod(weight.shape) for weight in model.trainable_variables])
    faults = (*_check_feed(strategy, batch, parts), *_check_counts(counts, placement))
    return dataclasses.replace(check, compared=("sums",), faults=faults)


def _compare_step(
    check: ReplicaCheck, model: Any, build_one: Callable[[], Any], batch: Any, parts: Sequence[Any]
) -> ReplicaCheck:
    """Compares gradients, if one replica can tell what they should be, and the weights that replicas make of them."""
    found: tuple[first_step.Reference, Callable[[Any], first_step.Gradients]] | None = None
    try:
        found = compute_reference(model, build_one(), parts)
        reason = found[0].find_unfit(len(parts))
    except tf.errors.ResourceExhaustedError:
        reason = _NO_MEMORY
    except Exception as error:  # whatever the user's own code raises: that it builds once is enough to train
        reason = f"the model could not be built again for one replica: {type(error).__name__}: {error}"
    if not all_workers(model.distribute_strategy, not reason):  # or the others would wait for this one in their step
        reason = reason or "another worker could not compute what one replica would"
    if found is None or reason:
        return dataclasses.replace(check, reason=" ".join(reason.split()))
    reference, compute = found
    before, names = (
        [to_array(weight) for weight in model.trainable_variables],
        [w.path for w in model.trainable_variables],
    )
    step = GradientStep(model, applies=True)
    try:
        gradients = step(batch)
    finally:
        step.undo()
    if not gradients:
        return dataclasses.replace(check, reason="the optimizer does not update the weights one by one, as Keras's do")
    farthest, undivided = first_step.find_farthest(reference, gradients, names), list[str]()
    if has_own_step(model) and farthest.is_too_far:
        # Its loss need not be a mean: a sum over the samples is that of the whole batch, not the mean of its parts'.
        whole = dataclasses.replace(reference, gradients=compute(_join(parts)))
        as_whole = first_step.find_farthest(whole, gradients, names)
        farthest, undivided = (farthest, [_UNDIVIDED]) if as_whole.is_too_far else (as_whole, [])
    check = first_step.conclude(check, reference, farthest)
    return dataclasses.replace(check, faults=(*check.faults, *undivided, *_compare_weights(model, before)))


def _compare_weights(model: Any, before: Sequence[Any]) -> Iterator[str]:
    """Yields a fault if replicas of this process made other weights of the same gradients."""
    for weight, old in zip(model.trainable_variables, before, strict=True):
        first, *others = (copy.numpy() for copy in copies_of(weight))
        size = first_step.norm(first - old) + first_step.norm(first) * _OF_VALUE
        if any(first_step.norm(other - first) > size * first_step.FLOOR for other in others):
            yield f"its replicas hold other weights after the first update ({weight.path})"
            return


def _split(batch: Any, num_parts: int) -> list[Any]:
    """Returns the parts of a batch, as its replicas get them."""
    with tf.device("/cpu:0"):  # a GPU has no memory to spare for the batch of all
        whole = [tf.split(value, num_parts) for value in tf.nest.flatten(batch)]
    return [tf.nest.pack_sequence_as(batch, values) for values in zip(*whole, strict=True)]


def _join(parts: Sequence[Any]) -> Any:
    """Returns the batch that the replicas' parts make."""
    return tf.nest.map_structure(lambda *values: tf.concat(values, axis=0), *parts)


def _check_feed(strategy: Any, batch: Any, parts: Sequence[Any]) -> Iterator[str]:
    """Yields a fault if the replicas of this process are not given the batch, each its part."""
    parts = [parts[replica] for replica in replicas_of(strategy)]
    fed = [strategy.experimental_local_results(v) for v in tf.nest.flatten(next(feed(strategy, batch)))]
    for values, wanted in zip(fed, zip(*map(tf.nest.flatten, parts), strict=True), strict=True):
        for value, part in zip(values, wanted, strict=True):
            if not np.array_equal(value.numpy(), part.numpy(), equal_nan=value.dtype.is_floating):
                yield "its replicas are not fed the samples of the batch, each a part in order"
                return


def _check_counts(counts: Sequence[set[float]], placement: Placement) -> Iterator[str]:
    alone = placement.num_workers == 1
    names = placement.devices if alone else [f"worker {index}" for index in range(placement.num_workers)]
    wrong = [
        f"{device} {' or '.join(f'{count:g}' for count in sorted(found))} times"
        for device, found in zip(names, counts, strict=True)
        if found != {1.0}
    ]
    if wrong:
        yield f"its sums over {len(counts)} replicas count {', '.join(wrong)} instead of once"
