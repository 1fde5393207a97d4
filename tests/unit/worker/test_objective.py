"""The loss as the compiled model reports it, against plain NumPy."""

import math
from typing import Any

import keras
import numpy as np
import pytest

from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import ModelConfig, TrainingConfig
from tfbench.worker import compiled_model
from tfbench.worker.objective import LogitsCrossEntropy

SPEC = DatasetSpec(
    input_shape=(3,), input_dtype="float32", target_shape=(), num_classes=10, train_samples=8, validation_samples=8
)
RNG = np.random.default_rng(0)
INPUTS, LABELS = RNG.normal(size=(8, 3)).astype(np.float32), RNG.integers(0, 10, 8)


def compiled(**values: Any) -> keras.Model:
    training = TrainingConfig(global_batch_size=8, epochs=1, **values)
    return compiled_model.build_compiled_model(ModelConfig(name="mlp", options={"hidden_units": [4]}), training, SPEC)


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
    assert model.evaluate(INPUTS, LABELS, verbose=0)[0] == pytest.approx(losses[validation_head], abs=1e-5)


@pytest.mark.parametrize("factor", [0.0, 1000.0, -1000.0])
def test_compiled_loss_of_a_double_softmax_stays_within_its_bounds_for_ten_classes(factor: float) -> None:
    model = compiled(head="double_softmax", validation_head="double_softmax")
    *rest, kernel, bias = model.get_weights()
    model.set_weights([*rest, kernel * factor, bias])
    low, high = math.log(9 + math.e) - 1, math.log(9 + math.e)
    assert (round(low, 3), round(high, 3)) == (1.461, 2.461)
    for loss in (model.evaluate(INPUTS, LABELS, verbose=0)[0], model.train_on_batch(INPUTS, LABELS)[0]):
        assert low - 1e-4 <= loss <= high + 1e-4


def test_model_with_heads_still_returns_logits_and_counts_the_same_weights() -> None:
    plain, headed = compiled(), compiled(validation_head="double_softmax")
    headed.set_weights(plain.get_weights())
    np.testing.assert_allclose(headed(INPUTS), plain(INPUTS))
    assert headed.count_params() == plain.count_params()


def test_summed_squared_error_adds_the_steps_of_a_sequence() -> None:
    from tfbench.worker.objective import SummedSquaredError

    truth = np.zeros((2, 3, 1), np.float32)
    predicted = np.array([[[1], [2], [3]], [[0], [0], [2]]], np.float32)
    assert float(SummedSquaredError()(truth, predicted)) == pytest.approx((14 + 4) / 2)


def test_logits_of_a_sequence_are_refused() -> None:
    with pytest.raises(ValueError, match=r"logits must be of shape \(batch, classes\)\. Received: \(8, 3, 10\)\."):
        LogitsCrossEntropy()(np.zeros((8, 3)), np.zeros((8, 3, 10)))
