"""The loss as the compiled model reports it, against plain NumPy."""

import dataclasses
from typing import Any

import keras
import numpy as np
import pytest

from builders import build_spec
from tfbench.errors import Notice
from tfbench.measure import compiled_model
from tfbench.measure.objective import ProbabilityCrossEntropy, gives_probabilities
from tfbench.models.structure.foreign_model import find_second_scaling
from tfbench.recipe.sections import ModelConfig, TrainingConfig

SPEC = build_spec((3,), input_dtype="float32")
RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(8, 3)).astype(np.float32)
LABELS = RNG.integers(0, 10, 8)


def compiled(**values: Any) -> keras.Model:
    training = TrainingConfig(global_batch_size=8, epochs=1, **values)
    return compiled_model.build_compiled_model(
        ModelConfig(name="mlp", options={"hidden_units": [4]}), training, SPEC
    )


def softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def cross_entropy(values: np.ndarray) -> float:
    return float(-np.log(softmax(values)[np.arange(8), LABELS]).mean())


@pytest.mark.parametrize(
    ("head", "validation_head"),
    [("logits", "logits"), ("logits", "double_softmax"), ("double_softmax", "double_softmax")],
)
def test_each_head_is_used_where_it_is_meant(head: str, validation_head: str) -> None:
    model = compiled(head=head, validation_head=validation_head)
    logits = keras.ops.convert_to_numpy(model(INPUTS))
    losses = {"logits": cross_entropy(logits), "double_softmax": cross_entropy(softmax(logits))}
    assert model.train_on_batch(INPUTS, LABELS)[0] == pytest.approx(losses[head], abs=1e-5)
    logits = keras.ops.convert_to_numpy(model(INPUTS))
    losses = {"logits": cross_entropy(logits), "double_softmax": cross_entropy(softmax(logits))}
    assert model.evaluate(INPUTS, LABELS, verbose=0)[0] == pytest.approx(
        losses[validation_head], abs=1e-5
    )


def test_summed_squared_error_adds_the_steps_of_a_sequence() -> None:
    from tfbench.measure.objective import SummedSquaredError

    truth = np.zeros((2, 3, 1), np.float32)
    predicted = np.array([[[1], [2], [3]], [[0], [0], [2]]], np.float32)
    assert float(SummedSquaredError()(truth, predicted)) == pytest.approx((14 + 4) / 2)


@keras.saving.register_keras_serializable("tests")
class Wrapped(keras.Model):
    """A model class, which hides its last operation."""

    def __init__(self, **values: Any) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(**values)

    def call(self, inputs: Any) -> Any:
        return keras.ops.cast(self.dense(inputs), "float32")


ENDS = {
    "softmax": (True, [lambda: keras.layers.Dense(2, activation="softmax")]),
    "sigmoids": (True, [lambda: keras.layers.Dense(2, activation="sigmoid")]),
    "wrapped": (True, [lambda: Wrapped(units=2, activation="softmax")]),
    "no_weights_yet": (
        True,
        [lambda: keras.layers.Dense(2, activation="softmax", kernel_initializer="zeros")],
    ),
    "logits": (False, [lambda: keras.layers.Dense(2)]),
    "positive_logits": (False, [lambda: keras.layers.Dense(2, kernel_initializer="ones")]),
    "wrapped_logits": (False, [lambda: Wrapped(units=2)]),
    "small_logits": (
        False,
        [lambda: keras.layers.Rescaling(1 / 255), lambda: keras.layers.Dense(2)],
    ),
    "zero_logits": (False, [lambda: keras.layers.Dense(2, kernel_initializer="zeros")]),
    "tokens": (
        False,
        [lambda: keras.layers.Embedding(5, 4), keras.layers.Flatten, lambda: keras.layers.Dense(2)],
    ),
}


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("end", ENDS)
def test_probabilities_are_told_from_logits_by_their_values(end: str, precision: str) -> None:
    expected, layers = ENDS[end]
    keras.config.set_dtype_policy(precision)
    try:
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((3,)), *(layer() for layer in layers)])
        before = model.get_weights()
        assert gives_probabilities(model) is expected
        assert all(
            np.array_equal(one, other)
            for one, other in zip(before, model.get_weights(), strict=True)
        )
    finally:
        keras.config.set_dtype_policy("float32")


def test_loss_of_probabilities_is_that_of_their_logits_however_small_and_divides_by_their_sum() -> (
    None
):
    logits = RNG.normal(size=(8, 10)).astype(np.float32) * 8
    found = float(ProbabilityCrossEntropy()(LABELS, softmax(logits) / 2))
    assert found == pytest.approx(cross_entropy(logits), rel=1e-5)


@pytest.mark.parametrize("head", ["logits", "double_softmax"])
def test_own_network_that_ends_in_a_softmax_gets_no_other_unless_asked_for(
    head: str, tmp_path: Any
) -> None:
    layers = [keras.layers.Dense(10, activation="softmax")]
    keras.Sequential([keras.Input((3,)), keras.Sequential(layers)]).save(tmp_path / "net.keras")
    training = TrainingConfig(global_batch_size=8, epochs=1, head=head, validation_head=head)
    own = ModelConfig(name="keras_file", options={"file": str(tmp_path / "net.keras")})
    with pytest.warns(Notice) as caught:
        model = compiled_model.build_compiled_model(own, training, SPEC)
    assert "gives probabilities" in str(caught[-1].message)
    probabilities = keras.ops.convert_to_numpy(model(INPUTS))
    logits = np.log(probabilities) if head == "logits" else probabilities
    assert model.evaluate(INPUTS, LABELS, verbose=0)[0] == pytest.approx(
        cross_entropy(logits), abs=1e-5
    )


@pytest.mark.parametrize(
    ("scale", "input_scale", "warns"),
    [
        (1 / 255, 1 / 255, True),
        ([1 / 127.5] * 3, 1 / 255, True),
        (2.0, 1 / 255, False),
        (1 / 255, 1.0, False),
    ],
)
def test_a_second_scaling_of_bytes_is_reported(scale: Any, input_scale: float, warns: bool) -> None:
    inner = keras.Sequential([keras.Input((3,)), keras.layers.Rescaling(scale)])
    model = keras.Sequential([keras.Input((3,)), inner, keras.layers.Dense(10)])
    spec = dataclasses.replace(SPEC, input_dtype="uint8", input_scale=input_scale)
    assert (find_second_scaling(model, spec) is not None) is warns
