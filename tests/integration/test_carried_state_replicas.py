"""State that goes on from batch to batch, on two replicas: each carries its own rows. In a process of its own.

TensorFlow takes its logical devices once a process.
"""

from typing import Any

import numpy as np
import pytest

from runs import facts_of

pytestmark = pytest.mark.slow

PROGRAM = """
import json
import keras, numpy as np, tensorflow as tf
from tfbench.backends.tensorflow import placement
from tfbench.worker.compiled_model import build_compiled_model
from tfbench.recipe.sections import DistributionConfig, ModelConfig, TrainingConfig
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench import backends
from tfbench.worker.state_reset import StateReset

ROWS, STEPS = 4, 3
training = TrainingConfig(global_batch_size=ROWS, epochs=1, loss="summed_squared_error")
# Before anything uses a device.
mirrored = placement.resolve(DistributionConfig(strategy="mirrored", devices=("cpu:0", "cpu:1")), training).strategy
spec = DatasetSpec(input_shape=(STEPS, 1), input_dtype="float32", target_shape=(STEPS, 1), num_classes=None,
                   train_samples=4 * ROWS, validation_samples=ROWS)
waves = np.random.default_rng(0).normal(size=(4 * ROWS, STEPS, 1)).astype("float32")
batches = tf.data.Dataset.from_tensor_slices((waves, -waves)).batch(ROWS)

facts = {}
for name, strategy in (("default", tf.distribute.get_strategy()), ("mirrored", mirrored)):
    keras.utils.set_random_seed(3)
    with strategy.scope():
        model = build_compiled_model(ModelConfig(name="sine_lstm", options={"stateful": True}), training, spec)
    model.fit(batches.take(3), epochs=1, shuffle=False, verbose=0)
    states = [state.numpy().tolist() for state in backends.current().carried_states(model)]
    loss = model.evaluate(batches.skip(3), verbose=0, callbacks=[StateReset()])
    facts[name] = {
        "states": states,
        "left_alone": [state.numpy().tolist() for state in backends.current().carried_states(model)] == states,
        "loss": loss,
        "weights": [keras.ops.convert_to_numpy(weight).tolist() for weight in model.weights],
    }
print("FACTS" + json.dumps(facts))
"""


@pytest.fixture(scope="module")
def facts() -> Any:
    return facts_of(PROGRAM)


def test_two_replicas_learn_what_one_device_does(facts: Any) -> None:
    for one, two in zip(facts["default"]["weights"], facts["mirrored"]["weights"], strict=True):
        np.testing.assert_allclose(two, one, atol=1e-5)
    assert facts["mirrored"]["loss"] == pytest.approx(facts["default"]["loss"], rel=1e-5)


def test_each_replica_carries_the_state_of_its_own_rows(facts: Any) -> None:
    hidden, cell = facts["default"]["states"]
    first_hidden, second_hidden, first_cell, second_cell = facts["mirrored"]["states"]
    np.testing.assert_allclose(first_hidden + second_hidden, hidden, atol=1e-5)
    np.testing.assert_allclose(first_cell + second_cell, cell, atol=1e-5)


def test_an_evaluation_leaves_the_state_of_every_replica(facts: Any) -> None:
    assert facts["default"]["left_alone"] and facts["mirrored"]["left_alone"]
