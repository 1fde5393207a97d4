"""A compiled model's step on PyTorch as functions without arguments: Keras's own, and those of its phases."""

from collections.abc import Callable
from typing import Any

from tfbench.backends.array_batches import ArrayBatches
from tfbench.backends.keras_variables import training_variables
from tfbench.backends.profiling import Call
from tfbench.backends.torch.op_trace import name_layers
from tfbench.records.profile import ProfiledLayer


class StepCalls:
    """A compiled model's step and what it is made of, as functions without arguments; see the protocol.

    Each waits until the GPU has done it; on a processor PyTorch returns when it is done.
    """

    def __init__(self, model: Any, batches: ArrayBatches, synchronize: Call) -> None:
        from tfbench.models.structure.graph import walk

        model._symbolic_build(data_batch=batches.on_host[0])  # as `fit` begins
        model.make_train_function()
        model.train()  # for layers that are modules of PyTorch's own
        self.model = model
        self._calls = list(walk(model))
        self._batches, self._synchronize = batches, synchronize
        self._variables = [*training_variables(model), *model.metrics_variables]
        self._kept = [variable.value.detach().clone() for variable in self._variables]
        if not self.why_not_apart:
            name_layers(model, self._calls)

    @property
    def num_layers(self) -> int:
        """Uses of a layer."""
        return len(self._calls)

    @property
    def why_not_apart(self) -> str:
        """Why its layers cannot be told apart; "": they can."""
        if not self.model.jit_compile:
            return ""
        return (
            'torch.compile makes one program of all layers (compiler = "inductor"): none can be timed apart. '
            "--set training.compiler=eager shows them as PyTorch computes them one after another."
        )

    def describe_layers(self, batch_size: int) -> list[ProfiledLayer]:
        """Returns the layers; none where they cannot be told apart."""
        from tfbench.models.structure.layer_costs import describe_calls

        if self.why_not_apart:
            return []
        return describe_calls(self._calls, self.model.trainable_variables, batch_size)

    def build(self, upto: str) -> Callable[[Any, Any], Any]:
        """Returns a function of inputs and targets, compiled as Keras's is: the step up to a phase."""
        import torch

        model = self.model

        def work(x: Any, y: Any) -> Any:
            return _run(model, upto, x, y)

        return torch.compile(work) if model.jit_compile else work

    def call(self, upto: str) -> Call:
        """Returns one call of the step up to a phase."""
        function, cycle = self.build(upto), self._batches.cycle()

        def call() -> None:
            function(*next(cycle))
            self._synchronize()

        return call

    def keras_call(self, iterator: Any, *, waits: bool = False) -> tuple[Call, int]:
        """Returns one call of Keras's training function, and the steps that it does.

        Args:
            iterator: Of its batches.
            waits: Whether it ends as calls of phases do; `fit` does not wait for each step.
        """

        def call() -> None:
            self._train(iterator)
            if waits:
                self._synchronize()

        return call, self.model.steps_per_execution

    def take_call(self, iterator: Any) -> Call:
        """Returns one call of a function that does nothing, with a batch taken as Keras's own is."""
        function = self.build("dispatch")

        def call() -> None:
            function(*next(iterator))
            self._synchronize()

        return call

    def restore(self) -> None:
        """Gives all variables the values of the beginning, those of metrics included."""
        import torch

        torch.manual_seed(torch.initial_seed())  # dropout draws from a generator that is no variable
        for variable, value in zip(self._variables, self._kept, strict=True):
            variable.assign(value)

    def _train(self, iterator: Any) -> Any:
        return self.model.train_function([next(iterator)])  # Keras gives it the batches of an execution


def _run(model: Any, upto: str, x: Any, y: Any) -> Any:
    """Does what Keras's own step does, without its metrics, up to a phase; returns the loss and the gradients."""
    import torch

    if upto == "dispatch":
        return torch.zeros(()) if model.jit_compile else None  # a program has to have something in it
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
