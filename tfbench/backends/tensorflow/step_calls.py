"""What a profile takes apart.

Batches at hand, and a compiled model's step as functions without arguments.

The step does what Keras's own does, with a gradient tape a layer in the place of one for all: then
each layer's operations carry its number, forward and backward, and what its gradient computes is
found under its own scope, whoever wrote that gradient.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfbench.backends import profiling
from tfbench.backends.profiling import Call
from tfbench.backends.tensorflow.device_watch import copies_of
from tfbench.models.structure import graph

Tensors = dict[Any, Any]  # symbolic tensor -> its value, or the gradient of it


class ProfiledBatches(profiling.ProfiledBatches):
    """Batches of TensorFlow's.

    Args:
        dataset: The recipe's own endless stream of batches.
        placed: Where the step runs.
    """

    def __init__(self, dataset: Any, placed: Any) -> None:
        def put(tensor: Any) -> Any:
            with tf.device(placed.device_names[0]):
                return tf.identity(tensor)

        super().__init__(
            dataset,
            put=put,
            iterate=lambda batches: iter(placed.strategy.experimental_distribute_dataset(batches)),
        )

    def iterator(self, *, num_ahead: int = 0) -> Any:
        """Returns an iterator of batches on the host, without any work."""
        dataset = tf.data.Dataset.from_tensors(self.on_host[0])
        for batch in self.on_host[1:]:
            dataset = dataset.concatenate(tf.data.Dataset.from_tensors(batch))
        options = tf.data.Options()
        options.autotune.enabled = False
        dataset = dataset.repeat().with_options(options)
        return self._iterate(dataset.prefetch(num_ahead) if num_ahead else dataset)


class _Done(NamedTuple):
    """What is left of a layer's forward pass for the backward pass.

    Its tape, and the losses that it added.
    """

    tape: Any
    losses: list[Any]


class StepCalls(profiling.StepCalls):
    """A step of TensorFlow's; waited for by reading its result."""

    def __init__(self, model: Any, batches: ProfiledBatches, placed: Any) -> None:
        model.optimizer.build(model.trainable_variables)
        super().__init__(model, batches, placed)
        self._input = model.inputs[0]
        self._output = model.outputs[0]
        self._forward = _Forward(self.calls, self._input, model.dtype_policy)

    def build(self, upto: str) -> Callable[..., Any]:
        """Returns the step up to a phase."""

        def work(x: Any, y: Any) -> Any:
            self._capture()
            return tf.constant(0.0) if upto == "dispatch" else self._run(x, y, upto)

        def call(x: Any, y: Any) -> Any:
            return self.placed.strategy.run(work, args=(x, y))

        if self.model.run_eagerly:
            return call
        # Keras does not let AutoGraph at layers either.
        compiled: Callable[..., Any] = tf.function(
            call, jit_compile=self.model.jit_compile, autograph=False
        )
        return compiled

    def train(self, iterator: Any) -> Any:
        """Calls Keras's training function."""
        return self.model.train_function(iterator)["loss"]

    def wait(self, result: Any) -> None:
        """Waits until the device has a number, and copies it to the host.

        What was to be done before the number is done then, too.
        """
        (result[0] if isinstance(result, tuple) else result).numpy()

    def take_call(self, iterator: Any) -> Call:
        """Returns a call that takes a batch, as Keras does, and does nothing else."""

        def take(iterator: Any) -> Any:
            self._capture()
            next(iterator)
            return tf.constant(0.0)

        function = tf.function(take, autograph=False)
        return lambda: self.wait(function(iterator))

    def _capture(self) -> None:
        """Makes all variables arguments of the function that is being compiled, if one is."""
        if tf.executing_eagerly():
            return
        for variable in (*self.model.variables, *self.model.optimizer.variables):
            for copy in copies_of(variable):
                tf.compat.v1.get_default_graph().capture(copy.handle)

    def _run(self, x: Any, y: Any, upto: str) -> Any:
        model = self.model
        model._clear_losses()  # which layers added when another function was compiled
        values, done = self._forward.run(x)
        added = [loss for one in done for loss in one.losses]
        with tf.name_scope("tfbench_forward_loss"), tf.GradientTape() as tape:
            prediction = values[self._output]
            logits = getattr(
                prediction, "_keras_logits", prediction
            )  # what Keras's cross-entropies take in its place
            tape.watch([prediction, logits, *added])
            loss = model.compute_loss(x, y, prediction, training=True)
            # Keras scales the loss of 16-bit floats up, and its gradients down again when they are
            # applied.
            scaled = model.optimizer.scale_loss(loss)
        if upto == "forward":
            return loss
        weights = model.trainable_variables
        with tf.name_scope("tfbench_backward_loss"):
            sources = [prediction, logits, *added, *(weight.value for weight in weights)]
            of_output, of_logits, *of_others = tape.gradient(scaled, sources)
            if of_output is None:
                values[self._output] = logits
                of_output = of_logits
        of_added = of_others[: len(added)]
        of_weights = of_others[len(added) :]
        found = {id(weight): gradient for weight, gradient in zip(weights, of_weights, strict=True)}
        self._go_back(
            {self._output: of_output},
            values,
            done,
            dict(zip(map(id, added), of_added, strict=True)),
            found,
        )
        gradients = [found[id(weight)] for weight in weights]
        if upto == "backward":
            return loss, [gradient for gradient in gradients if gradient is not None]
        if weights:
            with tf.name_scope("tfbench_update"):
                model.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return loss

    def _go_back(
        self,
        gradients: Tensors,
        values: Tensors,
        done: Sequence[_Done],
        of_losses: dict[int, Any],
        found: dict[int, Any],
    ) -> None:
        """Goes through the layers from the last to the first.

        Adds the gradients of their weights to `found`.

        Args:
            gradients: That of the model's output; receives those of all tensors.
            values: Of all tensors.
            done: Each layer's forward pass.
            of_losses: Gradients of the losses that layers added, by id.
            found: Gradients by the id of a weight.
        """
        for index in reversed(range(len(self.calls))):
            call = self.calls[index]
            outputs = [
                *((values[tensor], gradients.get(tensor)) for tensor in call.outputs),
                *((loss, of_losses[id(loss)]) for loss in done[index].losses),
            ]
            outputs = [(value, gradient) for value, gradient in outputs if gradient is not None]
            if not outputs:
                continue
            layer = call.operation
            trained = layer.trainable_variables if isinstance(layer, keras.Layer) else []
            inputs = [tensor for tensor in dict.fromkeys(call.inputs) if tensor is not self._input]
            with tf.name_scope(f"tfbench_backward_{index}"):
                of_inputs_and_weights = done[index].tape.gradient(
                    [value for value, _ in outputs],
                    [*(values[tensor] for tensor in inputs), *(weight.value for weight in trained)],
                    output_gradients=[gradient for _, gradient in outputs],
                )
                for tensor, gradient in zip(inputs, of_inputs_and_weights, strict=False):
                    gradients[tensor] = _add(gradients.get(tensor), gradient)
                for weight, gradient in zip(
                    trained, of_inputs_and_weights[len(inputs) :], strict=True
                ):
                    found[id(weight)] = _add(found[id(weight)], gradient)


class _Forward(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Calls a model's layers one after another.

    Being a layer itself, it tells them all that this is training.
    """

    def __init__(self, calls: Sequence[graph.Call], start: Any, dtype: Any) -> None:
        super().__init__(name="profiled", dtype=dtype, autocast=False)
        # Keras would look through a list for weights.
        self._plan: Callable[[], tuple[Sequence[graph.Call], Any]] = lambda: (calls, start)
        self._keep: Callable[[Tensors, list[_Done]], None]

    def run(self, x: Any) -> tuple[Tensors, list[_Done]]:
        """Returns the values of all tensors, and what is left of each layer's forward pass."""
        kept: list[tuple[Tensors, list[_Done]]] = []
        self._keep = lambda values, done: kept.append((values, done))
        run: Any = self
        run(x, training=True)
        return kept[0]

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Calls the layers."""
        calls, start = self._plan()
        values: Tensors = {start: keras.ops.convert_to_tensor(inputs, dtype=start.dtype)}
        outputs = inputs
        done = list[_Done]()
        seen = set[int]()
        for index, call in enumerate(calls):
            args, kwargs = _fill_in((call.args, call.kwargs), values)
            if "training" in kwargs:  # Keras writes down what held when the model was built
                kwargs["training"] = training
            with tf.name_scope(f"tfbench_forward_{index}"), tf.GradientTape() as tape:
                for tensor in call.inputs:
                    if tensor is not start and values[tensor].dtype.is_floating:
                        tape.watch(values[tensor])
                outputs = call.operation(*args, **kwargs)
            losses = [loss for loss in _added_losses(call.operation) if id(loss) not in seen]
            seen |= set(map(id, losses))
            done.append(_Done(tape, losses))
            values |= zip(call.outputs, keras.tree.flatten(outputs), strict=True)
        self._keep(values, done)
        return outputs


def _added_losses(operation: Any) -> list[Any]:
    """Returns the losses that a layer and those within it added so far.

    Not those of weights, but of what it gives.
    """
    layers = operation._flatten_layers() if isinstance(operation, keras.Layer) else []
    return [loss for layer in layers for loss in layer._get_own_losses()]


def _fill_in(arguments: Any, values: Tensors) -> Any:
    """Returns arguments with the values of symbolic tensors in their places."""
    return keras.tree.map_structure(
        lambda one: values[one] if isinstance(one, keras.KerasTensor) else one, arguments
    )


def _add(sum_: Any, gradient: Any) -> Any:
    """Adds a gradient to what there is already; None is no gradient."""
    if sum_ is None or gradient is None:
        return gradient if sum_ is None else sum_
    return tf.convert_to_tensor(sum_) + tf.convert_to_tensor(gradient)
