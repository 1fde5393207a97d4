"""A step taken apart on JAX and PyTorch, in a process that trains with one of them: `KERAS_BACKEND=jax pytest FILE`."""

import functools
import itertools
import os
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import device_naps
from tfbench import backends

NAME = os.environ.get("KERAS_BACKEND", "tensorflow")
pytestmark = pytest.mark.skipif(NAME == "tensorflow", reason="the process trains with TensorFlow")
of_jax = pytest.mark.skipif(NAME != "jax", reason="of XLA's programs")
of_torch = pytest.mark.skipif(NAME != "torch", reason="of PyTorch's operations")
BATCH, NUM_CLASSES = 8, 3
PHASES = ("forward", "backward", "update")


def generate_batches(num_features: int = device_naps.NUM_FEATURES) -> Any:
    """Yields batches of inputs and labels, another each time."""
    rng = np.random.default_rng(0)
    while True:
        yield rng.normal(size=(BATCH, num_features)).astype(np.float32), rng.integers(0, NUM_CLASSES, BATCH)


def compiled(model: Any, **options: Any) -> Any:
    import keras

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"], **{"jit_compile": NAME == "jax"} | options)
    return model


def build_model() -> Any:
    """Builds a network with all that training changes: weights, statistics of batches, states of generators."""
    import keras

    shared = keras.layers.Dense(6, activation="tanh", kernel_regularizer="l2", name="shared")
    inputs = keras.Input((6,))
    nested = keras.Sequential([keras.Input((6,)), keras.layers.Dense(6, name="inner"), keras.layers.Dropout(0.5)])
    hidden = keras.layers.BatchNormalization(name="norm")(nested(shared(inputs)))
    return keras.Model(inputs, keras.layers.Dense(NUM_CLASSES, name="logits")(shared(hidden) * 2.0))


def take_apart(model: Any, num_features: int = device_naps.NUM_FEATURES) -> tuple[Any, Any]:
    """Returns a model's step, and the batches that it is of."""
    backend = backends.current()
    placed: Any = None  # neither asks for it
    batches = backend.build_batches(generate_batches(num_features), placed)
    return backend.build_step(model, batches, placed), batches


def train(step: Any, iterator: Any) -> float:
    """Trains one step; returns its loss."""
    found = step.train(iterator)
    return float((found[0] if NAME == "jax" else found)["loss"])


def compute(step: Any, upto: str, batch: Any) -> Any:
    state = (step.take_state(),) if NAME == "jax" else ()
    return step.build(upto)(*state, *batch)


def to_numpy(value: Any) -> npt.NDArray[Any]:
    import keras

    return np.array(keras.ops.convert_to_numpy(value))


def read_all(step: Any) -> list[npt.NDArray[Any]]:
    """Returns all that a step changes, but for metrics, which are last."""
    held = itertools.chain(*step.take_state()[:-1]) if NAME == "jax" else (one.value for one in step.variables)
    return list(map(to_numpy, held))


def test_the_loss_and_the_gradients_of_a_step_are_those_worked_out_by_hand() -> None:
    import keras

    model = compiled(keras.Sequential([keras.Input((4,)), keras.layers.Dense(NUM_CLASSES)]))
    step, batches = take_apart(model)
    kernel, bias = model.get_weights()
    x, labels = batches.on_host[0]
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


@pytest.mark.parametrize("compiles", [True, False] if NAME == "jax" else [False])
def test_updates_are_those_of_kerass_own_step_and_are_taken_back(compiles: bool) -> None:
    step, batches = take_apart(compiled(build_model(), jit_compile=compiles), 6)
    first_iterator, second_iterator = batches.iterator(), batches.iterator()
    step.restore()  # sets PyTorch's generator, too, from which its iterators draw as they begin
    before = read_all(step)
    losses = [train(step, first_iterator) for _ in range(3)]
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
        np.testing.assert_allclose(ours, their, rtol=1e-5, atol=1e-6)
        assert old.dtype.kind != "f" or old.size == 1 or not np.array_equal(ours, old)
    assert first == pytest.approx(losses[0], rel=1e-6)
    step.restore()
    assert train(step, second_iterator) == pytest.approx(losses[0], rel=1e-6)  # and metrics begin anew
    step.restore()
    step.model.fit(generate_batches(6), steps_per_epoch=2, shuffle=False, verbose=0)


def test_a_nap_is_in_the_phase_that_takes_it_and_is_waited_for() -> None:
    step, batches = take_apart(device_naps.build_slow_model(jit_compile=NAME == "jax"))
    keras, num_steps = step.keras_call(batches.iterator(), waits=True)
    assert num_steps == 1
    for call, num in ((step.call("dispatch"), 0), (step.take_call(batches.iterator()), 0), (keras, 1)):
        before = len(device_naps.naps)
        call()
        assert len(device_naps.naps) - before == num
    for upto in PHASES:
        call = step.call(upto)
        for _ in range(2):
            before = len(device_naps.naps)
            call()
            assert len(device_naps.naps) - before == 1, upto


def test_batches_at_hand_are_the_first_ones_over_and_over_and_the_pipeline_goes_on() -> None:
    _, batches = take_apart(compiled(build_model()), 6)
    given = [x for x, _ in itertools.islice(generate_batches(6), len(batches.on_host) + 2)]
    for iterator in (batches.iterator(), batches.iterator(num_ahead=2), batches.cycle()):
        for wanted in [*given[:-2], given[0]]:
            np.testing.assert_array_equal(to_numpy(next(iterator)[0]), wanted)
    np.testing.assert_array_equal(to_numpy(next(batches.pipeline())[0]), given[-2])


@of_jax
def test_xla_leaves_out_nothing_of_a_phase() -> None:
    import keras

    size = 64
    model = keras.Sequential([keras.Input((size,)), keras.layers.Dense(size), keras.layers.Dense(size)])
    step, batches = take_apart(compiled(model), size)

    def count_flops(upto: str) -> float:
        program = step.build(upto).lower(step.take_state(), *next(batches.cycle())).compile()
        return float(program.cost_analysis().get("flops", 0.0))

    # Two products of matrices forward, and three of the same size backward: the inputs need no gradient.
    product = 2 * BATCH * size**2
    forward, backward = count_flops("forward"), count_flops("backward")
    assert 2 * product <= forward < 2.5 * product
    assert 5 * product <= backward < 5.5 * product
    assert count_flops("update") > backward
    assert count_flops("dispatch") < size


@of_torch
def test_a_trace_tells_each_layers_forward_and_backward_operations_apart() -> None:
    step, _ = take_apart(compiled(build_model()), 6)
    layers = {index: call.operation.name for index, call in enumerate(step.calls)}
    backend = backends.current()
    for upto in PHASES:
        call = step.call(upto)
        call()
        traced = backend.trace(lambda call=call: [call() for _ in range(2)] and None)
        found: dict[str, set[str]] = {}
        for operation in traced.operations:
            found.setdefault(backend.part_of(operation.name)[1], set()).add(operation.kind)
        assert "other" not in found
        assert ("update" in found) == (upto == "update")
        assert "forward/loss" in found
        assert ("backward/loss" in found) == (upto != "forward")
        for index, name in layers.items():
            if name in ("shared", "inner", "norm", "logits"):
                assert f"forward/{index}" in found, name
                assert (f"backward/{index}" in found) == (upto != "forward"), name
        dense = [index for index, name in layers.items() if name in ("shared", "inner", "logits")]
        assert len(dense) == 4
        for index in dense if upto != "forward" else ():
            assert found[f"backward/{index}"] & {"aten::mm", "aten::addmm", "aten::matmul"}


@of_torch
@pytest.mark.filterwarnings("ignore")  # of PyTorch's compiler
def test_phases_of_a_step_that_is_compiled_are_those_of_one_that_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    import keras
    import torch

    # Steps are captured for a compiler as they are for PyTorch's own, which takes a minute.
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    found = []
    for compiles in (False, True):
        keras.utils.set_random_seed(1)
        model = compiled(keras.Sequential([keras.Input((4,)), keras.layers.Dense(NUM_CLASSES)]), jit_compile=compiles)
        step, _ = take_apart(model)
        step.call("update")()
        found.append(read_all(step))
    for own, other in zip(*found, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-6)
