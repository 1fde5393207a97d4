"""A compiled model's step on PyTorch as functions: Keras's own, and the step up to each phase."""

from typing import Any

import torch

from tfbench import backends
from tfbench.backends import profiling
from tfbench.backends.device_choice import Placed
from tfbench.backends.profiling import ProfiledBatches
from tfbench.backends.torch.op_trace import name_layers


class StepCalls(profiling.StepCalls):
    """A step of PyTorch's, which waits for the GPU; on a processor, PyTorch always waits."""

    def __init__(self, model: Any, batches: ProfiledBatches, placed: Placed) -> None:
        model._symbolic_build(data_batch=batches.on_host[0])  # as `fit` begins
        super().__init__(model, batches, placed)
        model.train()  # for layers that are modules of PyTorch's own
        if not model.jit_compile:
            name_layers(model, self.calls)

    def build(self, upto: str) -> Any:
        """Returns the step up to a phase."""

        def work(x: Any, y: Any) -> Any:
            return _run(self.model, upto, x, y)

        return torch.compile(work) if self.model.jit_compile else work

    def train(self, iterator: Any) -> Any:
        """Calls Keras's training function, which takes the batches of an execution."""
        return self.model.train_function([next(iterator)])

    def wait(self, result: Any) -> None:
        """Waits for the device."""
        backends.current().synchronize()

    def restore(self) -> None:
        """Resets all variables, and dropout's random generator, to their beginning."""
        torch.manual_seed(torch.initial_seed())
        super().restore()


def _run(model: Any, upto: str, x: Any, y: Any) -> Any:
    """Does what Keras's own step does, without its metrics, up to a phase.

    Returns the loss and the gradients.
    """
    if upto == "dispatch":
        if model.jit_compile:
            return torch.zeros(())  # a program must not be empty
        return None
    prediction = model(x, training=True) if model._call_has_training_arg else model(x)
    loss = model.compute_loss(x=x, y=y, y_pred=prediction, sample_weight=None, training=True)
    scaled = model.optimizer.scale_loss(loss)
    weights = model.trainable_weights[:]
    if upto == "forward" or not weights:
        return loss, []
    model.zero_grad()
    scaled.backward()
    gradients = [weight.value.grad for weight in weights]
    if upto == "update":
        with torch.no_grad():
            model.optimizer.apply(gradients, weights)
    return loss, gradients
