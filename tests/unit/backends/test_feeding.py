"""Whether batches take the same way to the device under every strategy of one replica."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbench.backends.tensorflow.placement import feed_alike
from tfbench.backends.tensorflow.step_calls import iterate

NAMES = ("default", "one_device", "mirrored")


def build_strategy(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Builds a strategy of one replica on the processor; TensorFlow's own default is put back after the test."""
    if name == "default":
        default = tf.distribute.get_strategy()
        monkeypatch.setattr(default, "experimental_distribute_dataset", default.experimental_distribute_dataset)
        return default
    return (
        tf.distribute.OneDeviceStrategy("/cpu:0")
        if name == "one_device"
        else tf.distribute.MirroredStrategy(["/cpu:0"])
    )


def make_batches(num_samples: int = 50) -> Any:
    inputs = np.random.default_rng(0).normal(size=(num_samples, 4)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((inputs, np.arange(num_samples) % 3))


@pytest.mark.parametrize("name", NAMES)
def test_on_a_processor_a_batch_is_taken_from_the_pipeline_itself(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = build_strategy(name, monkeypatch)
    assert feed_alike(strategy, ["/device:CPU:0"]) == "direct"
    batches = make_batches().batch(8)
    assert strategy.experimental_distribute_dataset(batches) is batches
    assert type(iterate(batches, strategy)) is type(iter(batches))


def test_several_replicas_are_fed_by_tensorflow() -> None:
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    own = strategy.experimental_distribute_dataset
    assert feed_alike(strategy, ["/device:GPU:0", "/device:GPU:1"]) == "split"
    assert strategy.experimental_distribute_dataset == own


def train(strategy: Any, steps_per_execution: int) -> dict[str, list[float]]:
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dropout(0.5)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss, metrics=["accuracy"], steps_per_execution=steps_per_execution, jit_compile=False)
    batches = make_batches().repeat().batch(8, drop_remainder=True).prefetch(4)
    validation = make_batches().batch(16).prefetch(4)  # the last one short
    history = model.fit(
        batches, steps_per_epoch=6, epochs=2, validation_data=validation, shuffle=False, verbose=0
    ).history
    return {**history, "predictions": model.predict(validation, verbose=0).tolist()}


@pytest.mark.slow
@pytest.mark.parametrize("steps_per_execution", [1, 3])
def test_all_paths_train_validate_and_predict_alike(steps_per_execution: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = train(tf.distribute.get_strategy(), steps_per_execution)
    assert len(plain["predictions"]) == 50
    for name in NAMES:
        strategy = build_strategy(name, monkeypatch)
        feed_alike(strategy, ["/device:CPU:0"])
        assert train(strategy, steps_per_execution) == plain
    # The path of a GPU, to the processor, where Keras knows of no strategy.
    default = build_strategy("default", monkeypatch)
    default.experimental_distribute_dataset = tf.distribute.OneDeviceStrategy("/cpu:0").experimental_distribute_dataset
    assert train(default, steps_per_execution) == plain
