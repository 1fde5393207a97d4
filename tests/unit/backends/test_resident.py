"""Training from samples on the device: the same steps, in the same order, as batches from the host.

In a process that trains with one backend: `KERAS_BACKEND=jax pytest FILE`.
"""

import dataclasses
import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from resident_training import BATCH, NAME, SPEC, STEPS, build_model, configure, place, train
from tfbench import backends
from tfbench.backends.resident_samples import build_finish, number_blocks, too_many_named
from tfbench.datasets.sources.splits import Split, Splits
from tfbench.datasets.sources.synthetic import generate_splits
from tfbench.errors import DatasetError, DeviceError
from tfbench.recipe.dataset_spec import DatasetSpec


@pytest.fixture(scope="module")
def splits() -> Splits:
    return generate_splits(DatasetSpec(**SPEC), seed=2)


def values_of(model: Any) -> list[npt.NDArray[Any]]:
    backend = backends.current()
    return [backend.to_numpy(variable) for variable in backend.training_variables(model)]


def require_alike(
    found: list[npt.NDArray[Any]], usual: list[npt.NDArray[Any]], *, is_exact: bool = NAME != "jax"
) -> None:
    """Holds values against each other: bit for bit, but as far as XLA's loop rounds as its step does."""
    for one, other in zip(found, usual, strict=True):
        if is_exact:
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def usual(splits: Splits) -> tuple[list[npt.NDArray[Any]], dict[str, list[float]]]:
    """The values after two epochs of batches from the host, step by step, and what Keras tells of them."""
    training = configure(on_device=False, steps_per_execution=1)
    model = build_model(training)
    history = train(training, splits, model)
    return values_of(model), history


@pytest.mark.parametrize("steps_per_execution", [1] if NAME == "torch" else [3, 100])
def test_it_trains_as_batches_from_the_host_do(steps_per_execution: int, splits: Splits, usual: Any) -> None:
    training = configure(steps_per_execution=steps_per_execution)
    model = build_model(training)
    history = train(training, splits, model)
    assert int(model.optimizer.iterations) == 2 * STEPS  # the last execution of an epoch ends with it
    require_alike(values_of(model), usual[0])
    assert history == {name: pytest.approx(values, rel=1e-5) for name, values in usual[1].items()}


@pytest.mark.skipif(NAME != "tensorflow", reason="of TensorFlow's strategies and compilers")
def test_a_strategy_of_one_device_trains_the_same_and_xla_compiles_the_loop_as_a_whole(
    splits: Splits, usual: Any
) -> None:
    import tensorflow as tf

    training, strategy = configure(), tf.distribute.OneDeviceStrategy("/device:CPU:0")
    with strategy.scope():
        model = build_model(training)
    train(training, splits, model, strategy=strategy)
    require_alike(values_of(model), usual[0])
    training = configure(compiler="xla")
    model = build_model(training)
    history = train(training, splits, model)
    assert int(model.optimizer.iterations) == 2 * STEPS
    assert history["loss"] == pytest.approx(usual[1]["loss"], abs=0.5)  # XLA draws another dropout


@pytest.mark.skipif(NAME != "jax", reason="of JAX's loop")
def test_loops_have_lengths_that_are_known_as_they_are_compiled_before_the_first_step(
    splits: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    import jax
    import keras

    loop, events = jax.lax.fori_loop, list[Any]()

    def record(first: int, after: Any, *rest: Any) -> Any:
        events.append(after)
        return loop(first, after, *rest)

    monkeypatch.setattr(jax.lax, "fori_loop", record)
    training = configure()
    model = build_model(training, is_small=True)
    build = backends.current().build_resident_training
    batches = build(model, splits, training, place(training), steps_per_epoch=STEPS, first_step=0)
    callback = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: events.append("done"))
    model.fit(batches, epochs=2, steps_per_epoch=STEPS, shuffle=False, verbose=0, callbacks=[callback])
    assert sorted(events[:2]) == [1, 3]
    assert events[2:] == ["done"] * 4


def test_another_compiler_is_given_the_same_step(splits: Splits, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    if NAME == "torch":  # its compiler takes a minute; what it makes of a step is not asked here
        monkeypatch.setattr("torch.compile", lambda step: given.append(step.__module__) or step)
    found = []
    for compiler in (None, "inductor" if NAME == "torch" else "eager"):
        training = configure(compiler=compiler)
        model = build_model(training, is_small=True)
        train(training, splits, model)
        found.append(values_of(model))
    require_alike(*found, is_exact=NAME == "torch")
    assert given[:1] == (["tfbench.backends.torch.resident"] if NAME == "torch" else [])


def test_a_run_that_is_gone_on_with_is_the_one_that_never_stopped(splits: Splits, usual: Any) -> None:
    training, backend = configure(), backends.current()
    first, rest = build_model(training), build_model(training)
    train(training, splits, first, epochs=range(1))
    rest.optimizer.build(rest.trainable_variables)
    for variable, value in zip(backend.training_variables(rest), values_of(first), strict=True):
        variable.assign(value)
    train(training, splits, rest, epochs=range(1, 2))
    require_alike(values_of(rest), usual[0])


@pytest.mark.parametrize("pool", [50, 20])
@pytest.mark.parametrize("first_step", [0, STEPS])
def test_samples_come_in_the_order_of_batches_from_the_host(first_step: int, pool: int) -> None:
    import keras

    splits = generate_splits(DatasetSpec(**SPEC), seed=2)
    inputs, targets = splits.train.inputs[:pool], splits.train.targets[:pool]
    split = Split(inputs=inputs, targets=targets, num_samples=50)
    splits = Splits(spec=splits.spec, train=split, validation=split, source="test", mean=splits.mean)
    finish = build_finish(splits)
    blocks = number_blocks(splits, configure(), most=3, steps_per_epoch=STEPS, first_step=first_step)
    taken = list(itertools.islice(blocks, 4))
    assert [rows.shape for rows in taken] == [(3, BATCH), (1, BATCH), (3, BATCH), (1, BATCH)]
    stream = backends.current().build_training_dataset(splits, global_batch_size=BATCH, seed=3, first_step=first_step)
    for rows, (inputs, targets) in zip(np.concatenate(taken), stream, strict=False):
        finished = finish(keras.ops.convert_to_tensor(split.inputs[rows]))
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(finished), inputs)
        np.testing.assert_array_equal(split.targets[rows], targets)


@pytest.mark.parametrize("changes", [{"stored_shape": (7, 7, 1)}, {"mirrors": True}, {"read": lambda row: row}])
def test_samples_that_are_read_or_cut_anew_in_every_epoch_are_rejected(changes: dict[str, Any]) -> None:
    training, read = configure(), changes.get("read")
    splits = generate_splits(DatasetSpec(**SPEC | ({} if read else changes)), seed=2)
    splits = dataclasses.replace(splits, train=dataclasses.replace(splits.train, read=read))
    with pytest.raises(DatasetError, match=r"training\.data_on_device: needs samples that are in memory"):
        train(training, splits, build_model(training))


def no_memory() -> Exception:
    """Builds the error by which the framework says that samples do not fit on the device."""
    if NAME == "jax":
        import jax

        return jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 5 bytes.")
    if NAME == "torch":
        import torch

        return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 5 bytes.")
    import tensorflow as tf

    return tf.errors.InternalError(None, None, "Failed copying input tensor: Dst tensor is not initialized.")


def test_samples_that_do_not_fit_are_rejected_with_their_size(splits: Splits) -> None:
    told = r"^training\.data_on_device: the training samples, 0\.0 GiB, do not fit on cpu:0"
    for error, kind, message in ((no_memory(), DeviceError, told), (ValueError("gone"), ValueError, "^gone$")):
        with pytest.raises(kind, match=message), too_many_named(splits.train, place(configure())):
            raise error
