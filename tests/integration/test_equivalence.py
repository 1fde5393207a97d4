"""The same step, the same data and the same validation, whatever the strategy; each setup in a process of its own.

TensorFlow takes its logical devices once a process, so every setup is a child that does all there is to compare.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runs import facts_of

pytestmark = pytest.mark.slow

NUM_TRAIN, NUM_VALIDATION, BATCH = 20, 9, 8  # a pass wraps inside its third batch; the last validation batch is of 1

SETUP = """
import json, sys
import numpy as np
from tfbench.backends.tensorflow import placement, input_pipeline
from tfbench.recipe.sections import DistributionConfig, TrainingConfig
from tfbench.recipe.optimizers import SgdConfig
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.datasets.sources.splits import Split, Splits

setup = json.loads(sys.argv[1])
training = TrainingConfig(
    global_batch_size=setup["batch"], epochs=1, optimizer=SgdConfig(learning_rate=0.1), seed=setup["seed"]
)
resolved = placement.resolve(DistributionConfig(strategy=setup["strategy"], devices=tuple(setup["devices"])), training)

import keras

def make_split(rng, count, shape):
    return Split(inputs=rng.integers(0, 256, (count, *shape), np.uint8), targets=rng.integers(0, 10, count),
                 num_samples=count)

def arrays(model):
    return [np.asarray(weight.value.numpy() if not hasattr(weight.value, "values") else weight.value.values[0].numpy())
            for weight in model.weights]

def build_cnn(spec):
    layers = [keras.Input(spec.input_shape), keras.layers.Conv2D(4, 3, activation="relu"),
              keras.layers.MaxPooling2D(), keras.layers.Flatten(), keras.layers.Dense(10)]
    model = keras.Sequential(layers)
    model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")], jit_compile=False)
    return model

spec = DatasetSpec(input_shape=(12, 12, 1), input_dtype="uint8", target_shape=(), num_classes=10, input_scale=1 / 255,
                   train_samples=setup["num_train"], validation_samples=setup["num_validation"])
rng = np.random.default_rng(1)
splits = Splits(spec=spec, train=make_split(rng, setup["num_train"], spec.input_shape),
                validation=make_split(rng, setup["num_validation"], spec.input_shape), source="test")
keras.utils.set_random_seed(3)
with resolved.strategy.scope():
    model = build_cnn(spec)
kept = {f"before_{i}": array for i, array in enumerate(arrays(model))}
batches = input_pipeline.build_training_dataset(splits, global_batch_size=setup["batch"], seed=training.seed)
model.fit(batches, steps_per_epoch=3, epochs=1, shuffle=False, verbose=0)
kept |= {f"after_{i}": array for i, array in enumerate(arrays(model))}
validation = input_pipeline.build_validation_dataset(splits, batch_size=setup["batch"])
logits = keras.ops.convert_to_numpy(model(splits.validation.inputs.astype("float32") / 255))
facts = {"placement": list(resolved.placement.devices), "feed": resolved.placement.feed,
         "validation": model.evaluate(validation, verbose=0, return_dict=True),
         "accuracy": float(np.mean(np.argmax(logits, -1) == splits.validation.targets))}
np.savez(setup["output"], **kept)
print("FACTS" + json.dumps(facts))
"""


PLACEMENTS = {
    "default": ("default", []),
    "one_device": ("one_device", ["cpu:1"]),
    "two": ("mirrored", ["cpu:0", "cpu:1"]),
    "four": ("mirrored", ["cpu:0", "cpu:1", "cpu:2", "cpu:3"]),
}


class Setup:
    """What one strategy made of the same input."""

    def __init__(self, output: Path, strategy: str, devices: list[str]) -> None:
        setup = {"strategy": strategy, "devices": devices, "output": str(output), "batch": BATCH, "seed": 5}
        setup |= {"num_train": NUM_TRAIN, "num_validation": NUM_VALIDATION}
        self.facts: dict[str, Any] = facts_of(SETUP, json.dumps(setup))
        self.weights = dict(np.load(output))


@pytest.fixture(scope="module")
def setups(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Setup]:
    folder = tmp_path_factory.mktemp("setups")
    with ThreadPoolExecutor(max_workers=2) as pool:
        futures = {name: pool.submit(Setup, folder / f"{name}.npz", *args) for name, args in PLACEMENTS.items()}
        return {name: future.result() for name, future in futures.items()}


@pytest.mark.parametrize("name", ["one_device", "two", "four"])
def test_steps_give_the_weights_of_a_single_device(setups: dict[str, Setup], name: str) -> None:
    single, other = setups["default"].weights, setups[name].weights
    keys = [key for key in single if key.startswith("after")]
    assert len(keys) >= 4
    for key in keys:
        before = key.replace("after", "before")
        np.testing.assert_array_equal(other[before], single[before])
        np.testing.assert_allclose(other[key], single[key], rtol=0, atol=1e-5)
        assert np.abs(single[key] - single[before]).max() > 1e-4  # the steps moved what is compared


@pytest.mark.parametrize("name", ["one_device", "two", "four"])
def test_validation_counts_every_sample_once_in_a_last_batch_of_one(setups: dict[str, Setup], name: str) -> None:
    single, other = setups["default"].facts, setups[name].facts
    assert NUM_VALIDATION % BATCH == 1
    assert other["validation"] == pytest.approx(single["validation"], abs=1e-5)
    assert other["validation"]["accuracy"] == pytest.approx(other["accuracy"], abs=1e-6)


def test_a_setup_ran_where_it_was_told_to_and_one_replica_is_fed_alike(setups: dict[str, Setup]) -> None:
    feeds = {"default": "direct", "one_device": "direct", "two": "split", "four": "split"}
    assert {name: (setup.facts["placement"], setup.facts["feed"]) for name, setup in setups.items()} == {
        name: (devices or ["cpu:0"], feeds[name]) for name, (_, devices) in PLACEMENTS.items()
    }
