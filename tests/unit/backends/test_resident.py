"""Training from samples on the device: the same steps, in the same order, as batches from the host.

In a process that trains with one back end: `KERAS_BACKEND=jax pytest FILE`.
"""

import dataclasses
import itertools
import os
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from builders import build_placement
from tfbench import backends
from tfbench.backends.resident_samples import build_finish, number_blocks
from tfbench.datasets.sources.splits import Split, Splits
from tfbench.datasets.sources.synthetic import generate_splits
from tfbench.errors import DatasetError, DeviceError
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import DistributionConfig, TrainingConfig

NAME = os.environ.get("KERAS_BACKEND", "tensorflow")
BATCH, STEPS = 16, 4  # an epoch of 50 samples, the last batch of which reaches over the end of the pass
MOST = 1 if NAME == "torch" else 3  # steps of an execution, whose last one in an epoch has one
SPEC: dict[str, Any] = {
    "input_shape": (5, 5, 1),
    "input_dtype": "uint8",
    "target_shape": (),
    "num_classes": 3,
    "train_samples": 50,
    "validation_samples": 10,
    "input_scale": 1 / 255,
    "mean": "image",
}


@pytest.fixture(scope="module")
def splits() -> Splits:
    return generate_splits(DatasetSpec(**SPEC), seed=2)


def configure(*, on_device: bool = True, **values: Any) -> TrainingConfig:
    own = {"steps_per_execution": MOST, **values}
    return TrainingConfig(backend=NAME, global_batch_size=BATCH, epochs=2, seed=3, data_on_device=on_device, **own)  # type: ignore[arg-type]


def build_model(training: TrainingConfig, kind: Any = None, *, is_small: bool = False) -> Any:
    """Builds a network whose moving statistics tell the order of its steps, and its dropout, too.

    But PyTorch's dropout draws from a generator that all of a process shares.
    """
    import keras

    keras.utils.set_random_seed(1)
    layers = keras.layers
    inputs = keras.Input((5, 5, 1))
    flat = layers.Flatten()(inputs)
    hidden = flat if is_small else layers.BatchNormalization()(layers.Dense(8, use_bias=False)(flat))
    model = (kind or keras.Model)(inputs, layers.Dense(3)(layers.Dropout(0.0 if NAME == "torch" else 0.5)(hidden)))
    model.compile(
        "sgd" if is_small else "adam",
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[] if is_small else ["accuracy"],
        steps_per_execution=training.steps_per_execution,
        jit_compile=training.compiler_used in ("xla", "inductor"),
        run_eagerly=NAME == "tensorflow" and training.compiler_used == "eager",
    )
    return model


def place(training: TrainingConfig) -> Any:
    """Returns the processor; TensorFlow's devices cannot be chosen twice in a process."""
    if NAME != "tensorflow":
        return backends.current().resolve(DistributionConfig(devices=("cpu:0",)), training)
    import tensorflow as tf

    from tfbench.backends.tensorflow.placement import ResolvedDistribution

    placement = build_placement(devices=("cpu:0",), feed="resident")
    return ResolvedDistribution(tf.distribute.get_strategy(), placement, {"/device:CPU:0": "cpu:0"})


def train(training: TrainingConfig, splits: Splits, model: Any, *, epochs: range = range(2)) -> dict[str, list[float]]:
    """Trains, with a validation after each epoch; returns what Keras tells of them."""
    backend, first_step = backends.current(), epochs.start * STEPS
    if training.data_on_device:
        placed = place(training)
        assert placed.placement.feed == "resident"
        batches = backend.build_resident_training(
            model, splits, training, placed, steps_per_epoch=STEPS, first_step=first_step
        )
    else:
        batches = backend.build_training_dataset(
            splits, global_batch_size=BATCH, seed=training.seed, first_step=first_step
        )
    history: dict[str, list[float]] = model.fit(
        batches,
        initial_epoch=epochs.start,
        epochs=epochs.stop,
        steps_per_epoch=STEPS,
        validation_data=backend.build_validation_dataset(splits, batch_size=4),
        shuffle=False,
        verbose=0,
    ).history
    return history


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


def test_what_a_step_of_ones_own_tells_besides_is_that_of_the_last_one(splits: Splits, usual: Any) -> None:
    import keras

    class OwnStep(keras.Model):  # type: ignore[misc]  # Keras has no types
        """Tells of the last batch besides the metrics."""

        def train_step(self, *given: Any) -> Any:
            largest = {"largest": keras.ops.max(given[-1][0])}
            if NAME != "jax":
                return super().train_step(*given) | largest
            told, state = super().train_step(*given)
            return told | largest, state

    training = configure()
    history = train(training, splits, build_model(training, OwnStep))
    batches = backends.current().build_training_dataset(splits, global_batch_size=BATCH, seed=3)
    largest = [float(np.max(inputs)) for inputs, _ in itertools.islice(batches, 2 * STEPS)]
    assert history.pop("largest") == pytest.approx(largest[STEPS - 1 :: STEPS])
    assert history == {name: pytest.approx(values, rel=1e-5) for name, values in usual[1].items()}


@pytest.mark.parametrize("changes", [{"stored_shape": (7, 7, 1)}, {"mirrors": True}, {"read": lambda row: row}])
def test_samples_that_are_read_or_cut_anew_in_every_epoch_are_refused(changes: dict[str, Any]) -> None:
    training, read = configure(), changes.get("read")
    splits = generate_splits(DatasetSpec(**SPEC | ({} if read else changes)), seed=2)
    splits = dataclasses.replace(splits, train=dataclasses.replace(splits.train, read=read))
    with pytest.raises(DatasetError, match=r"training\.data_on_device: needs samples that are in memory"):
        train(training, splits, build_model(training))


def test_samples_that_do_not_fit_are_refused_with_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    error: Exception
    training = configure()
    model, plain = build_model(training), generate_splits(DatasetSpec(**SPEC | {"mean": "none"}), seed=2)
    if NAME == "jax":
        import jax as library

        error, copies = (
            library.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 5 bytes."),
            "device_put",
        )
    elif NAME == "tensorflow":
        import tensorflow as library

        full = "Failed copying input tensor to GPU:0: Dst tensor is not initialized."
        error, copies = library.errors.InternalError(None, None, full), "identity"
    else:
        import torch
        from keras import ops as library

        error, copies = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 5 bytes."), "convert_to_tensor"

    def refuse(*_arguments: Any) -> Any:
        raise error

    monkeypatch.setattr(library, copies, refuse)
    with pytest.raises(
        DeviceError, match=r"^training\.data_on_device: the training samples, 0\.0 GiB, do not fit on cpu"
    ):
        train(training, plain, model)
    error = ValueError("the driver is gone")
    with pytest.raises(ValueError, match="the driver is gone"):
        train(training, plain, model)
