"""What a profile takes apart: batches at hand, and a compiled model's step as functions.

The step does what Keras's own does, but with a gradient tape per layer in place of one for all.
Each layer's operations then carry its number, forward and backward, and its gradient's operations
are found under its own scope, whoever wrote that gradient.
"""

from collections.abc import Sequence
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

        distribute = placed.strategy.experimental_distribute_dataset
        super().__init__(dataset, put=put, iterate=lambda batches: iter(distribute(batches)))

    def iterator(self, *, num_ahead: int = 0) -> Any:
        """Returns an iterator over the batches at hand, on the host."""
        dataset = tf.data.Dataset.from_tensors(self.on_host[0])
        for batch in self.on_host[1:]:
            dataset = dataset.concatenate(tf.data.Dataset.from_tensors(batch))
        options = tf.data.Options()
        options.autotune.enabled = False
        dataset = dataset.repeat().with_options(options)
        if num_ahead:
            dataset = dataset.prefetch(num_ahead)
        return self._iterate(dataset)


class _Done(NamedTuple):
    """What the backward pass needs of a layer's forward pass."""

    tape: Any
    losses: list[Any]  # that the layer added


class StepCalls(profiling.StepCalls):
    """A step of TensorFlow's; waited for by reading its result."""

    def __init__(self, model: Any, batches: ProfiledBatches, placed: Any) -> None:
        model.optimizer.build(model.trainable_variables)
        super().__init__(model, batches, placed)
        self._input = model.inputs[0]
        self._output = model.outputs[0]
        self._forward = _Forward(self.calls, self._input, model.dtype_policy)

    def build(self, upto: str) -> Any:
        """Returns the step up to a phase."""

        def work(x: Any, y: Any) -> Any:
            self._capture()
            return tf.constant(0.0) if upto == "dispatch" else self._run(x, y, upto)

        def call(x: Any, y: Any) -> Any:
            return self.placed.strategy.run(work, args=(x, y))

        if self.model.run_eagerly:
            return call
        # Keras does not let AutoGraph at layers either.
        return tf.function(call, jit_compile=self.model.jit_compile, autograph=False)

    def train(self, iterator: Any) -> Any:
        """Calls Keras's training function."""
        return self.model.train_function(iterator)["loss"]

    def wait(self, result: Any) -> None:
        """Waits until the device has a number, and all before it, and copies it to the host."""
        if isinstance(result, tuple):
            result = result[0]
        result.numpy()

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
        model._clear_losses()  # of layers, from when another function was compiled
        values, done = self._forward.run(x)
        added = list[Any]()
        for layer_done in done:
            added += layer_done.losses
        with tf.name_scope("tfbench_forward_loss"), tf.GradientTape() as tape:
            prediction = values[self._output]
            # Keras's cross-entropies take these in its place.
            logits = getattr(prediction, "_keras_logits", prediction)
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
        # Gradients of losses that layers added, and of weights, by id.
        by_id = dict(zip(map(id, [*added, *weights]), of_others, strict=True))
        self._go_back({self._output: of_output}, values, done, by_id)
        gradients = [by_id[id(weight)] for weight in weights]
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
        by_id: dict[int, Any],
    ) -> None:
        """Goes through the layers from the last to the first, and adds up their gradients.

        Args:
            gradients: That of the model's output; receives those of all tensors.
            values: Of all tensors.
            done: Each layer's forward pass.
            by_id: Gradients of losses that layers added, and of weights; the latter are added to.
        """
        for index in reversed(range(len(self.calls))):
            call = self.calls[index]
            tape, losses = done[index]
            outputs = [(values[tensor], gradients.get(tensor)) for tensor in call.outputs]
            outputs += [(loss, by_id[id(loss)]) for loss in losses]
            outputs = [(value, gradient) for value, gradient in outputs if gradient is not None]
            if not outputs:
                continue
            layer = call.operation
            weights = layer.trainable_variables if isinstance(layer, keras.Layer) else []
            inputs = [tensor for tensor in dict.fromkeys(call.inputs) if tensor is not self._input]
            sources = [values[tensor] for tensor in inputs]
            sources += [weight.value for weight in weights]
            with tf.name_scope(f"tfbench_backward_{index}"):
                computed = tape.gradient(
                    [value for value, _ in outputs],
                    sources,
                    output_gradients=[gradient for _, gradient in outputs],
                )
                for tensor, gradient in zip(inputs, computed, strict=False):
                    gradients[tensor] = _add(gradients.get(tensor), gradient)
                for weight, gradient in zip(weights, computed[len(inputs) :], strict=True):
                    by_id[id(weight)] = _add(by_id[id(weight)], gradient)


class _Forward(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Calls a model's layers one after another; as a layer, it passes `training` on to them."""

    def __init__(self, calls: Sequence[graph.Call], start: Any, dtype: Any) -> None:
        super().__init__(name="profiled", dtype=dtype, autocast=False)
        # Functions, since Keras would look through a list for weights.
        self._plan: Any = lambda: (calls, start)
        self._results: Any = None

    def run(self, x: Any) -> tuple[Tensors, list[_Done]]:
        """Returns the values of all tensors, and what the backward pass needs of each layer."""
        values: Tensors = {}
        done = list[_Done]()
        self._results = lambda: (values, done)
        self(x, training=True)
        return values, done

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Calls the layers."""
        calls, start = self._plan()
        values, done = self._results()
        values[start] = keras.ops.convert_to_tensor(inputs, dtype=start.dtype)
        outputs = inputs
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
            values.update(zip(call.outputs, keras.tree.flatten(outputs), strict=True))
        return outputs


def _added_losses(operation: Any) -> list[Any]:
    """Returns the losses of outputs, not of weights, that a layer and those within it added."""
    losses = list[Any]()
    if isinstance(operation, keras.Layer):
        for layer in operation._flatten_layers():
            losses += layer._get_own_losses()
    return losses


def _fill_in(arguments: Any, values: Tensors) -> Any:
    """Returns arguments with the values of symbolic tensors in their places."""

    def fill_in(argument: Any) -> Any:
        return values[argument] if isinstance(argument, keras.KerasTensor) else argument

    return keras.tree.map_structure(fill_in, arguments)


def _add(sum_: Any, gradient: Any) -> Any:
    """Adds a gradient to what there is already; None is no gradient."""
    if sum_ is None:
        return gradient
    if gradient is None:
        return sum_
    return tf.convert_to_tensor(sum_) + tf.convert_to_tensor(gradient)
