"""The step whose layers can be told apart: it does what Keras's own does, and its operations say whose they are."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbench.backends.tensorflow import op_trace
from tfbench.backends.tensorflow.op_trace import part_of
from tfbench.backends.tensorflow.profiled_step import ProfiledStep
from tfbench.models.custom_layers.pooling import SwitchableMaxPooling2D
from tfbench.models.structure.flops import describe_calls
from tfbench.models.structure.graph import walk

BATCH = 4


def build_image_model() -> keras.Model:
    """Branches, what is used twice, losses of weights and of outputs, statistics, dropout, a gradient by hand."""
    inputs = keras.Input((8, 8, 1))
    pooled = SwitchableMaxPooling2D(2, backward="mask_multiply", name="pool")(
        keras.layers.Conv2D(3, 3, padding="same", activation="relu", name="conv")(inputs)
    )
    flat = keras.layers.Flatten(name="flat")(keras.layers.BatchNormalization(name="norm")(pooled))
    shared = keras.layers.Dense(48, activation="tanh", name="shared", kernel_regularizer=keras.regularizers.L2(0.01))
    inner = keras.layers.Dense(48, activity_regularizer=keras.regularizers.L2(0.1), name="inner")
    nested = keras.Sequential([keras.Input((48,)), inner, keras.layers.Dropout(0.3, seed=1)], name="nested")
    both = keras.layers.Concatenate(name="join")([shared(flat), shared(nested(nested(flat))) * 2.0])
    return keras.Model(inputs, keras.layers.Dense(5, name="logits")(both))


def build_sequence_model() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((6, 2)),
            keras.layers.Masking(name="mask"),
            keras.layers.LSTM(4, name="lstm"),
            keras.layers.Dense(5, name="logits"),
        ]
    )


def compiled(model: keras.Model, *, runs_eagerly: bool = False) -> keras.Model:
    ends_in_logits = model.layers[-1].activation is keras.activations.linear
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=ends_in_logits)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss, run_eagerly=runs_eagerly)
    model.optimizer.build(model.trainable_variables)
    return model


def build_softmax_model() -> keras.Model:
    return keras.Sequential([keras.Input((6, 2)), keras.layers.LSTM(4), keras.layers.Dense(5, activation="softmax")])


def batch_for(model: keras.Model) -> tuple[Any, Any]:
    generator = np.random.default_rng(3)
    x = generator.normal(size=(BATCH, *model.inputs[0].shape[1:])).astype("float32")
    x[:, -2:] = 0.0  # is masked
    return tf.constant(x), tf.constant(generator.integers(0, 5, BATCH))


@pytest.mark.parametrize("build", [build_image_model, build_sequence_model, build_softmax_model])
def test_it_changes_all_variables_as_kerass_own_step_does(build: Any) -> None:
    model = compiled(build())
    x, y = batch_for(model)
    step = ProfiledStep(model, list(walk(model)), tf.distribute.get_strategy())
    before = [variable.numpy() for variable in step.variables]
    loss = step.build("update")(x, y).numpy()
    ours = [variable.numpy() for variable in step.variables]
    for variable, value in zip(step.variables, before, strict=True):
        variable.assign(value)
    theirs = tf.function(model.train_step)((x, y))
    assert loss == pytest.approx(float(theirs["loss"]), rel=1e-6)
    for variable, our, old in zip(step.variables, ours, before, strict=True):
        np.testing.assert_allclose(our, variable.numpy(), rtol=1e-5, atol=1e-6)
        if "float" in str(old.dtype) and old.size > 1:
            assert not np.array_equal(our, old), variable.name


@pytest.mark.parametrize("runs_eagerly", [False, True])
@pytest.mark.parametrize("build", [build_sequence_model, build_softmax_model])
def test_functions_up_to_a_phase_change_no_weights_and_give_the_gradients_of_the_loss(
    build: Any, runs_eagerly: bool
) -> None:
    model = compiled(build(), runs_eagerly=runs_eagerly)
    x, y = batch_for(model)
    step = ProfiledStep(model, list(walk(model)), tf.distribute.get_strategy())
    before = [variable.numpy() for variable in step.variables]
    with tf.GradientTape() as tape:
        loss = model.compute_loss(x, y, model(x, training=True))
    expected = tape.gradient(loss, [weight.value for weight in model.trainable_variables])
    assert step.build("dispatch")(x, y).numpy() == 0.0
    assert step.build("forward")(x, y).numpy() == pytest.approx(float(loss), rel=1e-6)
    _, gradients = step.build("backward")(x, y)
    for gradient, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, wanted, rtol=1e-5, atol=1e-6)
    assert all(np.array_equal(new.numpy(), old) for new, old in zip(step.variables, before, strict=True))


def test_a_trace_tells_each_layers_forward_and_backward_operations_apart() -> None:
    model = compiled(build_image_model())
    x, y = batch_for(model)
    step = ProfiledStep(model, list(walk(model)), tf.distribute.get_strategy())
    layers = {
        (layer.name, layer.index) for layer in describe_calls(list(walk(model)), model.trainable_variables, BATCH)
    }
    update = step.build("update")
    update(x, y)
    traced = op_trace.trace(lambda: update(x, y).numpy())
    found = {part_of(operation.name)[1]: operation for operation in traced.operations}
    for name, index in layers:
        if name in ("conv", "pool", "norm", "shared", "inner", "logits"):  # the others may come to nothing
            assert f"forward/{index}" in found, name
            assert f"backward/{index}" in found, name
    assert {"forward/loss", "backward/loss", "update"} <= found.keys()
    assert "other" not in found


def test_layers_are_described_with_the_bytes_that_must_move_and_whether_gradients_go_on() -> None:
    model = compiled(
        keras.Sequential([keras.Input((6,)), keras.layers.Rescaling(2.0), keras.layers.Dense(3), keras.layers.Dense(5)])
    )
    rescaling, first, second = describe_calls(list(walk(model)), model.trainable_variables, BATCH)
    # floats of 4 bytes: inputs 4x6, weights 6x3 + 3, outputs 4x3
    assert first.forward_bytes == 4 * (24 + 21 + 12)
    assert first.backward_bytes == 4 * (24 + 12 + 21 + 21)  # no gradient of the input, one of the weights
    assert (first.flops_per_sample, first.num_parameters) == (36, 21)
    assert (first.gradient_flops_per_sample, second.gradient_flops_per_sample) == (36, 2 * 30)
    assert second.backward_bytes == 4 * (12 + 20 + 20 + 12 + 20)
    assert not rescaling.is_trained and first.is_trained
