"""A step taken apart, in a process that trains with one backend.

`KERAS_BACKEND=jax pytest FILE`.
"""

import functools
import itertools
import os
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import pytest

import device_naps
import first_steps
from builders import build_placement
from tfbench import backends
from tfbench.measure.compiled_model import build_compiled_model
from tfbench.models.structure.flops import count_model, describe_calls
from tfbench.models.structure.graph import walk
from tfbench.recipe.backend_support import why_layers_merge

NAME = os.environ.get("KERAS_BACKEND", "tensorflow")
of_jax = pytest.mark.skipif(NAME != "jax", reason="of XLA's programs")
of_torch = pytest.mark.skipif(NAME != "torch", reason="of PyTorch's operations")
BATCH = 8
NUM_CLASSES = 3
PHASES = ("forward", "backward", "update")
WAYS = {
    "tensorflow": [{}, {"run_eagerly": True}],
    "jax": [{"jit_compile": True}, {"jit_compile": False}],
    "torch": [{}],
}


def generate_batches(*shape: int) -> Any:
    """Yields batches of inputs and labels, another each time.

    The last steps of a sequence are zeros.
    """
    rng = np.random.default_rng(0)
    while True:
        inputs = rng.normal(size=(BATCH, *shape)).astype(np.float32)
        inputs[:, 4:] *= len(shape) != 2
        yield inputs, rng.integers(0, NUM_CLASSES, BATCH)


def compiled(model: Any, **options: Any) -> Any:
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=model.layers[-1].activation.__name__ == "linear"
    )
    model.compile(
        keras.optimizers.Adam(0.01),
        loss,
        metrics=["accuracy"],
        **{"jit_compile": NAME == "jax"} | options,
    )
    return model


def build_model() -> Any:
    """Builds a network of images with branches, shared layers, extra losses and dropout.

    The losses are of weights and of outputs. Moving statistics and a gradient written by hand are
    in it, too.
    """
    from tfbench.models.custom_layers.pooling import SwitchableMaxPooling2D

    inputs = keras.Input((8, 8, 1))
    pooled = SwitchableMaxPooling2D(2, backward="mask_multiply", name="pool")(
        keras.layers.Conv2D(3, 3, padding="same", activation="relu", name="conv")(inputs)
    )
    flat = keras.layers.Flatten(name="flat")(keras.layers.BatchNormalization(name="norm")(pooled))
    shared = keras.layers.Dense(
        48, activation="tanh", name="shared", kernel_regularizer=keras.regularizers.L2(0.01)
    )
    inner = keras.layers.Dense(48, activity_regularizer=keras.regularizers.L2(0.1), name="inner")
    nested = keras.Sequential(
        [keras.Input((48,)), inner, keras.layers.Dropout(0.3, seed=1)], name="nested"
    )
    both = keras.layers.Concatenate(name="join")([shared(flat), shared(nested(nested(flat))) * 2.0])
    return keras.Model(inputs, keras.layers.Dense(NUM_CLASSES, name="logits")(both))


def build_dense(**options: Any) -> Any:
    layers = keras.Input((4,)), keras.layers.Dense(NUM_CLASSES)
    return compiled(keras.Sequential(layers), **options)


def build_sequence_model() -> Any:
    hidden = [keras.layers.Masking(), keras.layers.LSTM(4)]
    return keras.Sequential(
        [keras.Input((6, 2)), *hidden, keras.layers.Dense(NUM_CLASSES, activation="softmax")]
    )


def take_apart(model: Any) -> tuple[Any, Any]:
    """Returns a model's step, and the batches that it is of."""
    shape = model.inputs[0].shape[1:]
    backend = backends.current()
    dataset = generate_batches(*shape)
    placed = None  # TensorFlow alone asks for it
    if NAME == "tensorflow":
        import tensorflow as tf

        from tfbench.backends.tensorflow.placement import ResolvedDistribution

        signature = tf.TensorSpec((BATCH, *shape), tf.float32), tf.TensorSpec((BATCH,), tf.int64)
        dataset = tf.data.Dataset.from_generator(
            lambda: generate_batches(*shape), output_signature=signature
        )
        placed = ResolvedDistribution(
            build_placement(), ("/device:CPU:0",), tf.distribute.get_strategy()
        )
    batches = backend.build_batches(dataset, placed)
    return backend.build_step(model, batches, placed), batches


def train(step: Any, iterator: Any) -> float:
    """Trains one step; returns its loss."""
    found = step.train(iterator)
    return float(found if NAME == "tensorflow" else (found[0] if NAME == "jax" else found)["loss"])


def compute(step: Any, upto: str, batch: Any) -> tuple[Any, ...]:
    state = (step.take_state(),) if NAME == "jax" else ()
    found = step.build(upto)(*state, *batch)
    return found if isinstance(found, tuple) else (found,)


def to_numpy(value: Any) -> npt.NDArray[Any]:
    return np.array(keras.ops.convert_to_numpy(value))


def read_all(step: Any) -> list[npt.NDArray[Any]]:
    """Returns all that a step changes, but for metrics, which are last."""
    if NAME == "jax":
        return list(map(to_numpy, itertools.chain(*step.take_state()[:-1])))
    return list(map(backends.current().to_numpy, step.variables))


def test_the_loss_and_the_gradients_of_a_step_are_those_worked_out_by_hand() -> None:
    model = build_dense()
    step, batches = take_apart(model)
    kernel, bias = model.get_weights()
    x, labels = map(np.asarray, batches.on_host[0])
    exponentials = np.exp(x @ kernel + bias)
    shares = exponentials / exponentials.sum(axis=1, keepdims=True)
    wanted = -np.log(shares[range(BATCH), labels]).mean()
    by_logits = (shares - np.eye(NUM_CLASSES)[labels]) / BATCH
    for upto in PHASES[:2]:
        loss, *rest = compute(step, upto, next(batches.cycle()))
        assert float(to_numpy(loss)) == pytest.approx(wanted, rel=1e-5)
    of_kernel, of_bias = map(to_numpy, rest[-1])
    np.testing.assert_allclose(of_kernel, x.T @ by_logits, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(of_bias, by_logits.sum(axis=0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("build", "way"), [*((build_model, way) for way in WAYS[NAME]), (build_sequence_model, {})]
)
def test_updates_are_those_of_kerass_own_step_and_are_taken_back(
    build: Any, way: dict[str, bool]
) -> None:
    step, batches = take_apart(compiled(build(), **way))
    iterators = batches.iterator(), batches.iterator()
    step.restore()  # sets PyTorch's generator, too, from which its iterators draw as they begin
    before = read_all(step)
    losses = [train(step, iterators[0]) for _ in range(3)]
    theirs = read_all(step)
    step.restore()
    for value, old in zip(read_all(step), before, strict=True):
        np.testing.assert_array_equal(value, old)
    first = float(to_numpy(compute(step, "forward", next(batches.cycle()))[0]))
    step.restore()
    update = step.call("update")
    for _ in losses:
        update()
    for ours, their, old in zip(read_all(step), theirs, before, strict=True):
        # Threads add in any order, and Adam makes more of that where gradients are tiny: 0.5 % of a
        # learning rate.
        np.testing.assert_allclose(ours, their, rtol=1e-5, atol=5e-6)
        assert old.dtype.kind != "f" or old.size == 1 or not np.array_equal(ours, old)
    assert first == pytest.approx(losses[0], rel=1e-6)
    step.restore()
    # Metrics begin anew, too.
    assert train(step, iterators[1]) == pytest.approx(losses[0], rel=1e-6)
    step.restore()
    stream = generate_batches(*step.model.inputs[0].shape[1:])
    step.model.fit(stream, steps_per_epoch=2, shuffle=False, verbose=0)


def test_a_nap_is_in_the_phase_that_takes_it_and_is_waited_for() -> None:
    step, batches = take_apart(device_naps.build_slow_model(jit_compile=NAME == "jax"))
    keras, num_steps = step.keras_call(batches.iterator(), waits=True)
    assert num_steps == 1
    calls = [("take", step.take_call(batches.iterator()), 0), ("keras", keras, 1)]
    calls += [(upto, step.call(upto), upto != "dispatch") for upto in ("dispatch", *PHASES)]
    for name, call, num in calls:
        for _ in range(2):
            before = len(device_naps.naps)
            call()
            assert len(device_naps.naps) - before == num, name


def test_batches_at_hand_are_the_first_ones_over_and_over() -> None:
    _, batches = take_apart(compiled(build_model()))
    stream = generate_batches(8, 8, 1)
    given = [x for x, _ in itertools.islice(stream, len(batches.on_host) + 2)]
    for iterator in (batches.iterator(), batches.iterator(num_ahead=2), batches.cycle()):
        for wanted in [*given[:-2], given[0]]:
            np.testing.assert_array_equal(to_numpy(next(iterator)[0]), wanted)
    # The stream of NumPy's batches goes on; a data set of TensorFlow's begins anew.
    np.testing.assert_array_equal(
        to_numpy(next(batches.pipeline())[0]), given[0 if NAME == "tensorflow" else -2]
    )


@of_jax
def test_xla_leaves_out_nothing_of_a_phase() -> None:
    size = 64
    layers = keras.layers.Dense(size), keras.layers.Dense(size)
    step, batches = take_apart(compiled(keras.Sequential([keras.Input((size,)), *layers])))

    def count_flops(upto: str) -> float:
        program = step.build(upto).lower(step.take_state(), *next(batches.cycle())).compile()
        return float(program.cost_analysis().get("flops", 0.0))

    # Two products of matrices forward, and three of the same size backward: the inputs need no
    # gradient.
    product = 2 * BATCH * size**2
    forward = count_flops("forward")
    backward = count_flops("backward")
    assert 2 * product <= forward < 2.5 * product
    assert 5 * product <= backward < 5.5 * product
    assert count_flops("update") > backward
    assert count_flops("dispatch") < size


@of_jax
@pytest.mark.parametrize("recipe", ["cifar10_vit", "text_gpt"])
def test_xla_counts_what_is_counted_of_a_transformer(recipe: str) -> None:
    import jax

    small = first_steps.load_small(
        recipe, "sgd", **{"model.width": 64, "dataset.data": "synthetic"}
    )
    spec = first_steps.describe(small)
    model = build_compiled_model(small.model, small.training, spec)
    trained = [variable.value for variable in model.trainable_variables]
    others = [variable.value for variable in model.non_trainable_variables]
    inputs = np.zeros((BATCH, *spec.input_shape), model.inputs[0].dtype)

    def compute(weights: Any) -> Any:
        return (model.stateless_call(weights, others, inputs)[0] ** 2).sum()

    counted = count_model(model)
    for function, flops in ((compute, counted.forward), (jax.grad(compute), counted.training)):
        found = jax.jit(function).lower(trained).compile().cost_analysis()["flops"]
        assert 1 < found / (BATCH * flops) < 1.3  # normalization, softmax and GELU are the rest


@pytest.mark.skipif(NAME == "jax", reason="XLA's operations have no layers")
def test_a_trace_tells_each_layers_forward_and_backward_operations_apart() -> None:
    step, _ = take_apart(compiled(build_model()))
    layers = [call.operation.name for call in step.calls]
    dense = [place for place, name in enumerate(layers) if name in ("shared", "inner", "logits")]
    assert len(dense) == 5
    # The others may come to nothing.
    expected = [*dense, *map(layers.index, ("conv", "pool", "norm"))]
    backend = backends.current()
    for upto in PHASES:
        call = step.call(upto)
        call()
        traced = backend.trace(lambda call=call: [call() for _ in range(2)] and None)
        found = {}
        for operation in traced.operations:
            found.setdefault(backend.part_of(operation.name)[1], set()).add(operation.kind)
        assert "other" not in found
        assert ("update" in found) == (upto == "update")
        for place in ("loss", *expected):
            assert f"forward/{place}" in found, layers
            assert (f"backward/{place}" in found) == (upto != "forward"), layers
        for place in dense if upto != "forward" and NAME == "torch" else ():
            assert found[f"backward/{place}"] & {"aten::mm", "aten::addmm", "aten::matmul"}


@of_torch
@pytest.mark.filterwarnings("ignore")  # of PyTorch's compiler
def test_phases_of_a_step_that_is_compiled_are_those_of_one_that_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    # Steps are captured for a compiler as they are for PyTorch's own, which takes a minute.
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    found = []
    for compiles in (False, True):
        keras.utils.set_random_seed(1)
        step, _ = take_apart(build_dense(jit_compile=compiles))
        step.call("update")()
        found.append(read_all(step))
    for own, other in zip(*found, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-6)


@pytest.mark.parametrize(
    ("backend", "compiler", "reason"),
    [
        ("tensorflow", "graph", ""),
        (
            "tensorflow",
            "xla",
            'XLA makes one program of all layers (compiler = "xla"): none can be',
        ),
        ("tensorflow", "eager", 'no operation has the name of its layer (compiler = "eager")'),
        ("jax", "eager", "none can be timed apart. --backend tensorflow shows them"),
        ("torch", "eager", ""),
        ("torch", "inductor", "--set training.compiler=eager shows them as PyTorch computes them"),
    ],
)
def test_says_why_layers_cannot_be_told_apart(backend: Any, compiler: Any, reason: str) -> None:
    told = why_layers_merge(backend, compiler)
    assert reason in told and bool(reason) == bool(told)


def test_layers_are_described_with_the_bytes_that_must_move_and_whether_gradients_go_on() -> None:
    layers = keras.layers.Rescaling(2.0), keras.layers.Dense(3), keras.layers.Dense(5)
    model = keras.Sequential([keras.Input((6,)), *layers])
    rescaling, first, second = describe_calls(list(walk(model)), model.trainable_variables, 4)
    # floats of 4 bytes: inputs 4x6, weights 6x3 + 3, outputs 4x3
    assert first.forward_bytes == 4 * (24 + 21 + 12)
    # no gradient of the input, one of the weights
    assert first.backward_bytes == 4 * (24 + 12 + 21 + 21)
    assert (first.flops_per_sample, first.num_parameters) == (36, 21)
    assert (first.gradient_flops_per_sample, second.gradient_flops_per_sample) == (36, 2 * 30)
    assert second.backward_bytes == 4 * (12 + 20 + 20 + 12 + 20)
    assert not rescaling.is_trained and first.is_trained
