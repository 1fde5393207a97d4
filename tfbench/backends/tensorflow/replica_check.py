"""Whether several replicas train as one does: a first step of both, from the same batch and the same weights.

TensorFlow adds the replicas' gradients up, Keras divides their losses, and either may be wrong without a sign of it. So
every run over several replicas does one step before its clock starts, and takes it back:

- Sums over the replicas must count each replica once, exactly.
- The gradients that the optimizer is given must be those that one replica computes from the same batch: part after
  part, so that dropout and statistics of a batch are those of each replica, with float64 for the mean.
- The update of each replica must be the one that an optimizer outside of the strategy makes of these gradients.

Tolerances: one replica computes a gradient twice, from losses of different scale, so that both differ by rounding
alone, whatever the precision and the order of sums in its kernels. What several replicas differ by was seen to be less
than that in float32, bfloat16 and float16. A weight may differ by `_TIMES_ROUNDING` times as much (its own, or that of
all), and by `_FLOOR` in any case: sums of n terms in another order differ by about sqrt(n) 2^-24, which is 2^-12 for 16
million. A replica of 64 that is left out is 2^-6.
"""

import dataclasses
import gc
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfbench.backends.tensorflow.one_replica import OneReplica, Reference, norm, to_array
from tfbench.backends.tensorflow.replica_step import (
    Step,
    build,
    count_in_sums,
    do_step,
    feed,
    random_numbers_kept,
    taken_back,
)
from tfbench.errors import MeasurementError
from tfbench.records.run import Placement, ReplicaCheck

_FLOOR = 2.0**-10
_TIMES_ROUNDING = 8
_OF_WHOLE = 2.0**-20  # of the gradient of all weights, by which that of any may differ: sixteen roundings in float32
_OF_VALUE = 2.0**-12  # of a weight, added to its update's size: so four roundings of the weight are within `_FLOOR`


class _Deviation(NamedTuple):
    """How far a weight is from where it should be, and may be; both relative to its size."""

    weight: str
    value: float
    tolerance: float

    @property
    def is_too_far(self) -> bool:
        return not self.value <= self.tolerance  # what is not a number is too far


def check_replicas(model: Any, build_one: Callable[[], Any], batches: Any, placement: Placement) -> ReplicaCheck:
    """Holds a first step of several replicas against that of one, and takes it back; whoever asks looks for faults.

    Args:
        model: Compiled under a strategy of several replicas; with a snapshot's values already, if there is one.
        build_one: Builds and compiles a model like it, outside of the strategy, for the batch of one replica. Where it
            raises, as code of the user's may at its second call, sums are all that is compared.
        batches: The training's batches, a tf.data.Dataset of its own.
        placement: Names the replicas.
    """
    check = ReplicaCheck(num_replicas=placement.num_replicas, compared=())
    with random_numbers_kept():
        batch = next(iter(batches))  # drawn once: what reads the samples may change them at random
        parts = _split(batch, placement.num_replicas)
        try:
            check = _compare_sums(check, model, batch, parts, placement)
            with taken_back(model, lambda: build(model, parts[0])):
                check = _compare_step(check, model, build_one, batch, parts)
        except tf.errors.ResourceExhaustedError:
            check = dataclasses.replace(check, reason="there was not enough memory for one more replica")
    gc.collect()  # the functions of two steps, before the memory that training needs is read
    return check


def require_as_one(check: ReplicaCheck, placement: Placement) -> None:
    """Ends a run whose replicas do not train as one.

    Raises:
        MeasurementError: There are faults.
    """
    import keras

    if not check.faults:
        return
    safe = "reduction_to_one_device"
    mend = (
        f"Use another number of replicas, or another version of TensorFlow ({tf.__version__}) or Keras "
        f"({keras.__version__})"
        if placement.cross_device_ops == safe
        else f'Use distribution.cross_device_ops = "{safe}"'
    )
    raise MeasurementError(
        f"{placement.strategy} on {', '.join(placement.devices)} with cross_device_ops = {placement.cross_device_ops} "
        f"does not train as one replica does: {'; '.join(check.faults)}. Nothing was measured. {mend}; a model with "
        "code of its own may be the cause, too."
    )


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
    """Compares gradients and update, if one replica can tell what they should be."""
    try:
        one = OneReplica(model, build_one())
    except tf.errors.ResourceExhaustedError:
        raise
    except Exception as error:  # whatever the user's own code raises: that it builds once is enough to train
        reason = f"the model could not be built again for one replica: {type(error).__name__}: {error}"
        return dataclasses.replace(check, reason=" ".join(reason.split()))
    scale = getattr(model.optimizer, "dynamic_scale", None)
    reference = one.compute_gradients(parts, loss_scale=1.0 if scale is None else float(to_array(scale)))
    if not reference.gradients:
        return dataclasses.replace(check, reason="the model hands no gradients to its optimizer")
    if not all(np.isfinite(gradient).all() for gradient in reference.gradients.values()):
        return dataclasses.replace(check, reason="the gradients of the first step are not finite")
    if reference.rounding * _TIMES_ROUNDING > 1 / (2 * len(parts)):
        reason = (
            f"one replica's own gradients differ by {reference.rounding:.2g} of their size from one computation to the "
            "next: the network draws random numbers of its own, or computes too roughly"
        )
        return dataclasses.replace(check, reason=reason)
    step = do_step(model, batch)
    if not step.gradients:
        return dataclasses.replace(check, reason="the optimizer does not update the weights one by one, as Keras's do")
    gradient = _farthest(_compare_gradients(reference, step, one.names))
    update = _farthest(_compare_updates(one, step))
    return dataclasses.replace(
        check,
        compared=("sums", "gradients", "update"),
        rounding=reference.rounding,
        weight=gradient.weight,
        deviation=_finite(gradient.value),
        tolerance=gradient.tolerance,
        updated_weight=update.weight,
        update_deviation=_finite(update.value),
        update_tolerance=update.tolerance,
        faults=(*check.faults, *_find_faults(gradient, update)),
    )


def _compare_gradients(reference: Reference, step: Step, names: Sequence[str]) -> Iterator[_Deviation]:
    """Yields for each weight how far its gradient is from that of one replica, relative to a part's gradient."""
    whole = math.hypot(*reference.sizes.values())
    nothing = np.zeros(())
    for index in reference.gradients.keys() | step.gradients.keys():
        expected = reference.gradients.get(index, nothing)
        size = reference.sizes.get(index, 0.0) + whole * _OF_WHOLE / _FLOOR or 1.0
        rounding = max(reference.rounding, reference.noises.get(index, 0.0) / size)
        found = step.gradients.get(index, nothing)
        yield _Deviation(names[index], norm(found - expected) / size, max(_FLOOR, _TIMES_ROUNDING * rounding))


def _compare_updates(one: OneReplica, step: Step) -> Iterator[_Deviation]:
    """Yields for each weight and variable of the optimizer how far it is, in any replica, from that of one replica."""
    before = one.values()
    one.update(step.gradients)
    for index, (name, old, new) in enumerate(zip(one.all_names, before, one.values(), strict=True)):
        if not np.isfinite(new).all():
            continue  # too high a learning rate, which one replica does not survive either
        size = norm(new - old) + norm(new) * _OF_VALUE or 1.0
        farthest = max(norm(values[index] - new) for values in step.values)
        yield _Deviation(name, farthest / size, _FLOOR)


def _farthest(deviations: Iterator[_Deviation]) -> _Deviation:
    """Returns the deviation that is farthest beyond, or next to, its tolerance."""
    return max(deviations, key=lambda found: math.inf if math.isnan(found.value) else found.value / found.tolerance)


def _split(batch: Any, num_parts: int) -> list[Any]:
    """Returns the parts of a batch, as its replicas get them."""
    with tf.device("/cpu:0"):  # a GPU has no memory to spare for the batch of all
        whole = [tf.split(value, num_parts) for value in tf.nest.flatten(batch)]
    return [tf.nest.pack_sequence_as(batch, values) for values in zip(*whole, strict=True)]


def _check_feed(strategy: Any, batch: Any, parts: Sequence[Any]) -> Iterator[str]:
    """Yields a fault if the replicas are not given the batch, each its part."""
    fed = [strategy.experimental_local_results(v) for v in tf.nest.flatten(next(feed(strategy, batch)))]
    for values, wanted in zip(fed, zip(*map(tf.nest.flatten, parts), strict=True), strict=True):
        for value, part in zip(values, wanted, strict=True):
            if not np.array_equal(value.numpy(), part.numpy(), equal_nan=value.dtype.is_floating):
                yield "its replicas are not fed the samples of the batch, each a part in order"
                return


def _check_counts(counts: Sequence[set[float]], placement: Placement) -> Iterator[str]:
    wrong = [
        f"{device} {' or '.join(f'{count:g}' for count in sorted(found))} times"
        for device, found in zip(placement.devices, counts, strict=True)
        if found != {1.0}
    ]
    if wrong:
        yield f"its sums over {len(counts)} replicas count {', '.join(wrong)} instead of once"


def _find_faults(gradient: _Deviation, update: _Deviation) -> Iterator[str]:
    if gradient.is_too_far:
        yield (
            f"the gradients of the first step differ by up to {gradient.value:.3g} of their size from what one replica "
            f"computes of the same batch and weights (tolerance {gradient.tolerance:.2g}, weight {gradient.weight})"
        )
    if update.is_too_far:
        yield (
            f"the first update differs by up to {update.value:.3g} of its size from what one replica makes of the same "
            f"gradients (tolerance {update.tolerance:.2g}, {update.weight})"
        )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
