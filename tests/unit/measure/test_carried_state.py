"""The LSTM whose state goes on from batch to batch, against an LSTM in NumPy."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from builders import build_recipe, build_spec, describe_data
from kinds import Fields
from outcomes import error_of
from tfbench.backends.tensorflow.input_pipeline import build_training_dataset
from tfbench.datasets.sources.splits import Split, Splits
from tfbench.errors import RecipeError
from tfbench.measure import training
from tfbench.measure.compiled_model import build_compiled_model
from tfbench.measure.recorder import build_callbacks
from tfbench.recipe import registry
from tfbench.recipe.sections import ModelConfig, TrainingConfig

Array = npt.NDArray[np.float32]

ROWS = 4
STEPS = 3
UNITS = 5
SPEC = build_spec((STEPS, 1), None)


def build_model(**options: Any) -> Any:
    config = TrainingConfig(global_batch_size=ROWS, epochs=1, loss="summed_squared_error")
    return build_compiled_model(
        ModelConfig(name="sine_lstm", options={"stateful": True} | options), config, SPEC
    )


def make_waves(length: int, seed: int = 0) -> Array:
    """Returns one random sequence a row: (rows, length, 1)."""
    return np.random.default_rng(seed).normal(size=(ROWS, length, 1)).astype(np.float32)


def run_numpy(model: Any, inputs: Array) -> Any:
    """Computes a model's outputs and last state from its weights, step by step, from zero."""
    dense, bias, kernel, recurrent, lstm_bias, head, head_bias = (
        weight.numpy() for weight in model.weights
    )
    hidden = cell = np.zeros((ROWS, UNITS), np.float32)
    outputs = []
    for step in range(inputs.shape[1]):
        gates = (inputs[:, step] @ dense + bias) @ kernel + hidden @ recurrent + lstm_bias
        enter, forget, candidate, leave = np.split(gates, 4, axis=1)
        cell = _sigmoid(forget) * cell + _sigmoid(enter) * np.tanh(candidate)
        hidden = _sigmoid(leave) * np.tanh(cell)
        outputs.append(hidden @ head + head_bias)
    return np.stack(outputs, axis=1), hidden, cell


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)), np.float32)


def states_of(model: Any) -> list[Array]:
    return [state.numpy() for state in model.layers[1].states]


def test_two_batches_with_state_are_one_sequence_of_twice_the_length() -> None:
    model = build_model()
    waves = make_waves(2 * STEPS)
    halves = [model(waves[:, :STEPS]).numpy(), model(waves[:, STEPS:]).numpy()]
    expected, hidden, cell = run_numpy(model, waves)
    np.testing.assert_allclose(np.concatenate(halves, axis=1), expected, atol=1e-6)
    np.testing.assert_allclose(states_of(model), [hidden, cell], atol=1e-6)


def validate(model: Any, waves: Array, targets: Array) -> float:
    """Evaluates as `model.fit` validates: it tells its callbacks."""
    readings = SimpleNamespace(model=model, validation=None, steps_per_epoch=1)
    return model.evaluate(waves, targets, ROWS, verbose=0, callbacks=build_callbacks(readings))


def evaluate(model: Any, waves: Array, targets: Array) -> float:
    """Evaluates as after a training."""
    import tensorflow as tf

    batches = tf.data.Dataset.from_tensors((waves, targets))
    prepared = SimpleNamespace(model=model, build_evaluation_batches=lambda split: batches)
    return training.evaluate(prepared, "test")["loss"]


@pytest.mark.parametrize("compute_loss", [validate, evaluate])
def test_an_evaluation_starts_from_zero_and_leaves_the_state_of_the_training(
    compute_loss: Any,
) -> None:
    model = build_model()
    waves = make_waves(STEPS)
    targets = make_waves(STEPS, seed=1)
    model(make_waves(STEPS, seed=2))
    before = states_of(model)
    loss = compute_loss(model, waves, targets)
    outputs, _, _ = run_numpy(model, waves)
    assert loss == pytest.approx(
        np.mean(np.sum(np.square(outputs - targets), axis=(1, 2))), rel=1e-5
    )
    np.testing.assert_array_equal(states_of(model), before)
    assert np.abs(before).min() > 0


@pytest.mark.parametrize("resets_state", [False, True])
def test_an_epoch_starts_from_zero_only_if_that_is_asked_for(resets_state: bool) -> None:
    model = build_model()
    model(make_waves(STEPS))
    before = states_of(model)
    clock = SimpleNamespace(begin_epoch=lambda epoch: None)
    readings = SimpleNamespace(
        model=model, resets_state=resets_state, clock=clock, steps_per_epoch=1
    )
    build_callbacks(readings).on_epoch_begin(1)
    np.testing.assert_array_equal(
        states_of(model), np.zeros_like(before) if resets_state else before
    )


def test_a_checkpoint_holds_the_state(tmp_path: Path) -> None:
    from tfbench import backends
    from tfbench.measure import checkpoints

    model = build_model()
    model(make_waves(STEPS))
    before = states_of(model)
    path = checkpoints.write_checkpoint(
        tmp_path, epoch=1, variables=backends.current().training_variables(model), kept=1
    )
    model(make_waves(STEPS, seed=1))
    assert np.abs(np.array(states_of(model)) - before).max() > 1e-3
    checkpoints.restore_checkpoint(path, backends.current().training_variables(model))
    np.testing.assert_array_equal(states_of(model), before)


def batches_of(
    count: int, *, first_step: int = 0, batch_size: int = 10, **options: Any
) -> list[Array]:
    """Returns the inputs of the first training batches, without their last axis."""
    sine = registry.load("datasets", "sine")
    splits = sine.load_splits(sine.Config(**options), None)
    stream = build_training_dataset(
        splits, global_batch_size=batch_size, seed=3, first_step=first_step
    )
    return [inputs.numpy()[..., 0] for inputs, _ in stream.take(count)]


@pytest.mark.parametrize(
    ("num_rows", "length", "train_samples"), [(10, 10, 80), (8, 7, 640), (3, 5, 48)]
)
def test_consecutive_rows_go_on_where_they_ended_over_the_ends_of_epochs(
    num_rows: int, length: int, train_samples: int
) -> None:
    options = {"order": "consecutive", "num_rows": num_rows, "sequence_length": length}
    assert describe_data("sine", **options).train_samples == train_samples
    count = train_samples // num_rows + 3  # over the end of an epoch
    rows = np.concatenate(batches_of(count, batch_size=num_rows, **options), axis=1)
    wave = (0.8 * np.sin(2 * np.linspace(0, 6 * np.pi, 100)))[:80]
    for row, values in enumerate(rows):
        points = (row * 80 // num_rows + np.arange(count * length)) % 80
        np.testing.assert_allclose(values, wave[points], atol=1e-6)


def test_random_starts_are_drawn_with_replacement_and_anew_in_every_epoch() -> None:
    spec = describe_data("sine", order="random_starts")
    assert (spec.drawn, spec.train_samples) == (True, 80)
    numbers = np.arange(80, dtype=np.float32)[:, None]  # samples that are their own number
    split = Split(inputs=numbers, targets=numbers, num_samples=80)
    splits = Splits(spec=spec, train=split, validation=split, source="test")

    def draw(count: int, first_step: int = 0) -> list[int]:
        stream = build_training_dataset(splits, global_batch_size=10, seed=3, first_step=first_step)
        return [
            int(number) for inputs, _ in stream.take(count) for number in inputs.numpy().ravel()
        ]

    drawn = draw(16)
    first = drawn[:80]
    second = drawn[80:160]
    assert (
        len(set(first)) < 80 and len(set(second)) < 80
    )  # 80 of 80 without a repetition: once in 10^34
    assert first != second
    assert draw(3, first_step=13) == drawn[130:160]


@pytest.mark.parametrize(
    ("model", "dataset", "training", "problem"),
    [
        (
            {},
            {},
            {"global_batch_size": 16, "evaluates_training": True},
            "training.global_batch_size: must divide the 10 and 80 samples of sine",
        ),
        (
            {},
            {},
            {"global_batch_size": 5, "validation_batch_size": 10},
            (
                "training.validation_batch_size: must be the global_batch_size, 5, since a stateful"
                " model is built for one size of batch. Received: 10. Leave it out."
            ),
        ),
        (
            {},
            {"order": "consecutive"},
            {"global_batch_size": 5},
            "global_batch_size: must be 10, the dataset.num_rows",
        ),
        (
            {"stateful": False, "reset_state": "epoch"},
            {},
            {},
            'reset_state = "epoch" needs stateful = true',
        ),
    ],
)
def test_what_does_not_go_with_a_carried_state_is_rejected(
    model: Fields, dataset: Fields, training: Fields, problem: str
) -> None:
    assert problem in error_of(
        RecipeError,
        build_recipe,
        model={"name": "sine_lstm", "stateful": True} | model,
        dataset={"name": "sine"} | dataset,
        training={"global_batch_size": 10, "loss": "summed_squared_error"} | training,
    )
