"""Any strategy and number of replicas trains and validates as one device.

A run whose sums leave one out fails.

In a process of its own, since TensorFlow takes its logical devices once a process: it makes eight
of them.
"""

import json
from typing import Any

import numpy as np
import pytest

import first_steps
from runs import facts_of

pytestmark = pytest.mark.slow

# Optimizer, steps_per_execution, and setups
SETUPS = (("sgd", 1, ("one_device", 1, 8)), ("momentum", 3, (3,)), ("adam", 1, (2,)))

PROGRAM = """
import json, sys
from pathlib import Path
from unittest import mock
import numpy as np
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 8)
tf.config.set_logical_device_configuration = lambda *_: None  # which `resolve` would change
import keras
sys.path.append(sys.argv[3])
import first_steps
from tfbench import backends
from tfbench.backends.tensorflow import input_pipeline, placement, replica_check
from tfbench.errors import MeasurementError
from tfbench.recipe.files import find_recipe, load_recipe
from tfbench.store.journal import Journal
from tfbench.runs.record import RunRequest
from tfbench.measure import benchmark
from tfbench.measure.breakdown import Breakdown
from tfbench.measure.compiled_model import build_compiled_model
from tfbench.measure.recorder import CarriedState
from tfbench.recipe.optimizers import AdamConfig, SgdConfig
from tfbench.recipe.sections import DistributionConfig, ModelConfig, TrainingConfig
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.runs.placement_record import Placement
from tfbench.datasets.sources.splits import Split, Splits
from tfbench.datasets.sources import synthetic

OPTIMIZERS = {"sgd": SgdConfig(learning_rate=0.1), "momentum": SgdConfig(learning_rate=0.1, momentum=0.9),
              "adam": AdamConfig(learning_rate=0.01)}
BATCH, NUM_STEPS = 120, 3
spec = DatasetSpec(input_shape=(6, 6, 1), input_dtype="float32", target_shape=(), num_classes=4,
                   train_samples=BATCH * NUM_STEPS - 40, validation_samples=BATCH + 1)  # the third batch wraps
rng = np.random.default_rng(0)
def split(count):
    return Split(inputs=rng.normal(size=(count, 6, 6, 1)).astype("float32"), targets=rng.integers(0, 4, count),
                 num_samples=count)
splits = Splits(spec=spec, train=split(spec.train_samples), validation=split(BATCH + 1), source="test")
MLP = ModelConfig(name="mlp", options={"hidden_units": (8,)})

placed = {}

def strategy_of(setup):
    strategy, indices = ("mirrored", range(setup)) if isinstance(setup, int) else (setup, [int(setup == "one_device")])
    config = DistributionConfig(strategy=strategy, devices=tuple(f"cpu:{index}" for index in indices))
    resolved = placement.resolve(config, TrainingConfig(global_batch_size=BATCH, epochs=1))
    placed[setup] = [resolved.placement.devices, resolved.placement.feed]
    return resolved.strategy

def batches():
    return input_pipeline.build_training_dataset(splits, global_batch_size=BATCH, seed=0)

def arrays(variables):
    return [np.asarray(getattr(v.value, "values", (v.value,))[0].numpy()) for v in variables]

def train(setup, optimizer, per_execution):
    strategy = strategy_of(setup)
    keras.utils.set_random_seed(3)
    training = TrainingConfig(global_batch_size=BATCH, epochs=1, optimizer=OPTIMIZERS[optimizer],
                              steps_per_execution=per_execution)
    with strategy.scope():
        model = build_compiled_model(MLP, training, spec)
    before = arrays(model.weights)
    model.fit(batches(), steps_per_epoch=NUM_STEPS, epochs=1, shuffle=False, verbose=0)
    validation = input_pipeline.build_validation_dataset(splits, batch_size=BATCH)
    logits = keras.ops.convert_to_numpy(model(splits.validation.inputs))
    seen = float(np.mean(np.argmax(logits, -1) == splits.validation.targets))
    loss, accuracy = model.evaluate(validation, verbose=0)
    after = [*arrays([*model.weights, *model.optimizer.variables]), np.array([loss, accuracy, seen])]
    return {f"{when}/{index}": array for when, of in (("before", before), ("after", after))
            for index, array in enumerate(of)}

setups, kept = json.loads(sys.argv[1]), {}
for optimizer, per_execution, counts in setups:
    for setup in ("default", *counts):
        for name, array in train(setup, optimizer, per_execution).items():
            kept[f"{optimizer}/{per_execution}/{setup}/{name}"] = array
np.savez(sys.argv[2], **kept)
facts = {"placed": dict(placed)}

def build_dense():
    return keras.Sequential([keras.Input(spec.input_shape), keras.layers.Flatten(), keras.layers.Dense(4)])

def check(count, cross_device_ops=None, build=build_dense):
    strategy = strategy_of(count)
    if cross_device_ops:
        strategy.extended._cross_device_ops = cross_device_ops
    with strategy.scope():
        model = build()
    placement = Placement(strategy="mirrored", devices=tuple(f"cpu:{i}" for i in range(count)), num_replicas=count,
                          global_batch_size=BATCH, per_replica_batch_size=BATCH // count, cross_device_ops="")
    found = replica_check.check_replicas(model, placement)
    return [found.reason, found.fault]

def exhaust(*_):
    raise tf.errors.ResourceExhaustedError(None, None, "planted")

facts["check"] = {
    "clean": check(3),
    "not built": check(2, build=lambda: keras.Sequential([keras.layers.Dense(4)])),
    "hierarchical": check(3, tf.distribute.HierarchicalCopyAllReduce()),
    "mended": check(3, tf.distribute.ReductionToOneDevice()),
}
with mock.patch.object(replica_check, "count_in_sums", exhaust):
    facts["check"]["without memory"] = check(2)

values = {"dataset.data": "synthetic", "training.global_batch_size": 96, "distribution.strategy": "mirrored",
          "distribution.devices": ["cpu:0", "cpu:1", "cpu:2"]}
request = RunRequest(run_id="a" * 32, name="planted", created=0.0,
                     recipe=load_recipe(find_recipe("mnist_hidden100_mlp"), values))
path = Path(sys.argv[2]).with_name("run.jsonl")
with (mock.patch.object(tf.distribute, "ReductionToOneDevice", tf.distribute.HierarchicalCopyAllReduce),
      mock.patch("tfbench.measure.prepared.set_process_wide")):  # which this process has done
    try:
        benchmark.run_benchmark(request, Journal(path), Breakdown(0), lambda: None)
    except MeasurementError as error:
        facts["error"] = str(error)
facts["kinds"] = [json.loads(line)["kind"] for line in path.read_text().splitlines()]

ROWS, STEPS = 4, 3
training = TrainingConfig(global_batch_size=ROWS, epochs=1, loss="summed_squared_error")
spec = DatasetSpec(input_shape=(STEPS, 1), input_dtype="float32", target_shape=(STEPS, 1), num_classes=None,
                   train_samples=4 * ROWS, validation_samples=ROWS)
waves = np.random.default_rng(0).normal(size=(4 * ROWS, STEPS, 1)).astype("float32")
batches = tf.data.Dataset.from_tensor_slices((waves, -waves)).batch(ROWS)

for name, strategy in (("default", strategy_of("default")), ("mirrored", strategy_of(2))):
    keras.utils.set_random_seed(3)
    with strategy.scope():
        model = build_compiled_model(ModelConfig(name="sine_lstm", options={"stateful": True}), training, spec)
    model.fit(batches.take(3), epochs=1, shuffle=False, verbose=0)
    states = [state.numpy().tolist() for state in backends.current().carried_states(model)]
    state = CarriedState(model)
    state.set_aside()
    loss = model.evaluate(batches.skip(3), verbose=0)
    state.put_back()
    facts[name] = {
        "states": states,
        "left_alone": [state.numpy().tolist() for state in backends.current().carried_states(model)] == states,
        "loss": loss,
        "weights": [keras.ops.convert_to_numpy(weight).tolist() for weight in model.weights],
    }
recipe = first_steps.load_small("text_gpt", "own", **{"dataset.num_samples": 80, "model.depth": 1})
described = first_steps.describe(recipe)
generated = synthetic.generate_splits(described, seed=0)
for setup in ("default", 2):
    strategy = strategy_of(setup)
    keras.utils.set_random_seed(3)
    with strategy.scope():
        model = build_compiled_model(recipe.model, recipe.training, described)
    dataset = input_pipeline.build_training_dataset(generated, global_batch_size=8, seed=0)
    history = model.fit(dataset, steps_per_epoch=1, epochs=5, shuffle=False, verbose=0).history
    facts[f"text_gpt {setup}"] = history["loss"] + history["accuracy"]
print(json.dumps(facts))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program found, and the weights that it kept."""
    path = tmp_path_factory.mktemp("weights") / "weights.npz"
    return facts_of(
        PROGRAM, json.dumps(SETUPS), str(path), first_steps.__file__.rpartition("/")[0]
    ) | {"weights": dict(np.load(path))}


@pytest.mark.parametrize(
    ("optimizer", "per_execution", "setup"),
    [(*setup, one) for *setup, others in SETUPS for one in others],
)
def test_any_strategy_and_number_of_replicas_trains_and_validates_as_one_device_does(
    found: dict[str, Any], optimizer: str, per_execution: int, setup: Any
) -> None:
    weights = found["weights"]
    key = f"{optimizer}/{per_execution}"
    before = [name for name in weights if name.startswith(f"{key}/default/before/")]
    assert len(before) == 4
    for name in before:
        np.testing.assert_array_equal(weights[name.replace("default", str(setup))], weights[name])
        assert (
            np.abs(weights[name.replace("before", "after")] - weights[name]).max() > 1e-4
        )  # the steps moved it
    after = [name for name in weights if name.startswith(f"{key}/default/after/")]
    assert len(after) >= 7
    for name in after:
        other = name.replace("default", str(setup))
        np.testing.assert_allclose(weights[other], weights[name], rtol=1e-4, atol=2e-5)
    _, accuracy, seen = weights[other]  # of the validation, whose last batch is of one sample
    assert accuracy == pytest.approx(seen, abs=1e-6)


def test_a_strategy_is_on_the_devices_asked_for_and_one_replica_is_fed_alike(
    found: dict[str, Any],
) -> None:
    one = {
        "default": [["cpu:0"], "direct"],
        "one_device": [["cpu:1"], "direct"],
        "1": [["cpu:0"], "direct"],
    }
    several = {str(num): [[f"cpu:{index}" for index in range(num)], "split"] for num in (2, 3, 8)}
    assert found["placed"] == one | several


def test_each_of_two_replicas_carries_the_state_of_its_own_rows_which_an_evaluation_leaves(
    found: dict[str, Any],
) -> None:
    for one, two in zip(found["default"]["weights"], found["mirrored"]["weights"], strict=True):
        np.testing.assert_allclose(two, one, atol=1e-5)
    assert found["mirrored"]["loss"] == pytest.approx(found["default"]["loss"], rel=1e-5)
    hidden, cell = found["default"]["states"]
    first_hidden, second_hidden, first_cell, second_cell = found["mirrored"]["states"]
    np.testing.assert_allclose(first_hidden + second_hidden, hidden, atol=1e-5)
    np.testing.assert_allclose(first_cell + second_cell, cell, atol=1e-5)
    assert found["default"]["left_alone"] and found["mirrored"]["left_alone"]


def test_a_transformer_over_two_replicas_trains_as_on_one_device(found: dict[str, Any]) -> None:
    assert found["text_gpt 2"] == pytest.approx(found["text_gpt default"], rel=1e-5)
    assert len(set(found["text_gpt default"][:5])) == 5


MEND = "Use --set distribution.cross_device_ops=reduction_to_one_device"


@pytest.mark.advice("instead of once. Use {}")
def test_a_replica_that_is_not_in_the_sums_is_named(found: dict[str, Any]) -> None:
    assert found["check"] == {
        "clean": ["", ""],
        "not built": ["", ""],
        "hierarchical": [
            "",
            f"its sums over 3 replicas count cpu:2 0 times instead of once. {MEND}",
        ],
        "mended": ["", ""],
        "without memory": ["there was not enough memory for sums of the gradients' sizes", ""],
    }


def test_a_run_whose_replicas_do_not_train_as_one_fails_with_the_reason_and_measures_nothing(
    found: dict[str, Any],
) -> None:
    assert found["error"].startswith("mirrored on cpu:0, cpu:1, cpu:2 with cross_device_ops = ")
    assert (
        "does not train as one replica does: its sums over 3 replicas count cpu:2 0 times"
        in found["error"]
    )
    assert [kind for kind in found["kinds"] if kind != "stage"][-2:] == ["ready", "replica_check"]
