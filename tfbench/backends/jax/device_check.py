"""Whether several devices train as one does: a first step of both, from the same batch and the same weights.

Keras's step is one program for all devices, in which XLA decides what is exchanged. What is checked is what came of it:
the gradients that the optimizer was given. Dropout and the statistics of a batch are those of
one device, which sees the whole batch: they are the program's, not a device's.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tfbench import backends
from tfbench.backends import first_step
from tfbench.backends.first_step import Gradients, Reference
from tfbench.backends.jax import mesh_distribution
from tfbench.backends.keras_variables import training_variables
from tfbench.datasets.sources.splits import map_arrays
from tfbench.records.placement import Placement, ReplicaCheck

_GRADIENT = "tfbench_gradient_"


def check_devices(model: Any, build_one: Callable[[], Any], batches: Any, placement: Placement) -> ReplicaCheck:
    """Holds a first step of several devices against that of one, and takes it back.

    Args:
        model: Compiled, and laid on the devices.
        build_one: Builds and compiles a model like it. Where it raises, as code of the user's may at its second call,
            or one device cannot hold it with the whole batch, nothing is compared.
        batches: The training's batches.
        placement: Of the run.
    """
    check = ReplicaCheck(num_replicas=placement.num_replicas, compared=())
    batch = next(batches)
    model._symbolic_build(data_batch=batch)  # as `fit` begins
    values = [mesh_distribution.gather(variable.value) for variable in training_variables(model)]
    whole = map_arrays(mesh_distribution.gather, batch)
    one: Any = None
    with mesh_distribution.paused():
        try:
            one, reason = build_one(), ""
        except Exception as error:  # whatever the user's own code raises: that it builds once is enough to train
            reason = " ".join(f"the model could not be built again: {type(error).__name__}: {error}".split())
        if one is not None:
            try:
                one._symbolic_build(data_batch=whole)
                for variable, value in zip(training_variables(one), values, strict=True):
                    variable.assign(value)
                reference = _compute_reference(one, whole)
                reason = reference.find_unfit(placement.num_replicas)
            except Exception as error:
                if backends.current().explain_exhaustion(error) is None:
                    raise
                reason = "one device has not enough memory for the whole batch and all weights"
    # What follows, all workers do together, or none.
    if any(row[0] for row in mesh_distribution.gather_figures([float(bool(reason))])):
        return dataclasses.replace(check, reason=reason or "another worker could not compute what to compare with")
    names = [weight.path for weight in model.trainable_variables]
    return first_step.conclude(check, reference, first_step.find_farthest(reference, _do_step(model, batch), names))


def _compute_reference(one: Any, batch: Any) -> Reference:
    """Returns one device's gradients of a batch."""
    gradients = _do_step(one, batch)
    with _loss_scaled(one, first_step.OTHER_SCALE) as calls:
        scaled = _do_step(one, batch)
    scale = first_step.OTHER_SCALE if calls else 1.0  # a step of the user's own may leave its loss as it is
    noises = {index: first_step.norm(gradient - scaled[index] / scale) for index, gradient in gradients.items()}
    return Reference(gradients, {index: first_step.norm(gradient) for index, gradient in gradients.items()}, noises)


def _do_step(model: Any, batch: Any) -> Gradients:
    """Does a step by Keras's own training function, on a copy of the model's state.

    Returns:
        The gradients that the optimizer was given.
    """
    original, apply = model.train_step, model.optimizer.stateless_apply
    recorded: list[Any] = []

    def record(slots: Any, gradients: Any, trained: Any) -> Any:
        recorded[:] = gradients
        return apply(slots, gradients, trained)

    def train_step(state: Any, data: Any) -> Any:
        _, after = original(state, data)
        return {f"{_GRADIENT}{index}": value for index, value in enumerate(recorded)}, after

    model.optimizer.stateless_apply, model.train_step = record, train_step
    try:
        model.make_train_function(force=True)
        state = model._get_jax_state(
            trainable_variables=True, non_trainable_variables=True, optimizer_variables=True, metrics_variables=True
        )
        logs, _ = model.train_function(jax.tree.map(jnp.copy, list(map(list, state))), iter([batch]))
    finally:
        del model.optimizer.stateless_apply, model.train_step
        model.train_function = None
    found = {int(name.removeprefix(_GRADIENT)): mesh_distribution.gather(value) for name, value in logs.items()}
    return {index: value.astype(np.float64) for index, value in sorted(found.items())}


@contextlib.contextmanager
def _loss_scaled(model: Any, scale: float) -> Iterator[list[Any]]:
    """Has the optimizer scale the loss that it is given; yields what it was given."""
    original, calls = model.optimizer.scale_loss, list[Any]()

    def scale_loss(loss: Any) -> Any:
        calls.append(loss)
        return original(loss) * scale

    model.optimizer.scale_loss = scale_loss
    try:
        yield calls
    finally:
        del model.optimizer.scale_loss
