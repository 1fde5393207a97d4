"""1, 2, 3, 4, 5 and 8 replicas train as one does, and a run whose sums leave one out fails; in processes of their own.

TensorFlow takes its logical devices once a process, so each child makes eight of them and uses as many as it needs.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runs import facts_of, journal_of, of_kind, run

pytestmark = pytest.mark.slow

# Optimizer, steps_per_execution, numbers of replicas; few of these where each replica keeps something of the optimizer
SETUPS = (("sgd", 1, (1, 2, 3, 4, 5, 8)), ("momentum", 3, (2, 3)), ("adam", 1, (2, 3)))

SETUP = """
import json, sys
import numpy as np
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 8)
tf.config.set_soft_device_placement(False)
import keras
from tfbench.backends.tensorflow import placement, input_pipeline
from tfbench.worker.compiled_model import build_compiled_model
from tfbench.recipe.optimizers import AdamConfig, SgdConfig
from tfbench.recipe.sections import DistributionConfig, ModelConfig, TrainingConfig
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.records.placement import Placement
from tfbench.datasets.sources.splits import Split, Splits

OPTIMIZERS = {"sgd": SgdConfig(learning_rate=0.1), "momentum": SgdConfig(learning_rate=0.1, momentum=0.9),
              "adam": AdamConfig(learning_rate=0.01)}
BATCH, NUM_STEPS = 120, 3
spec = DatasetSpec(input_shape=(6, 6, 1), input_dtype="float32", target_shape=(), num_classes=4,
                   train_samples=BATCH * NUM_STEPS, validation_samples=BATCH)
rng = np.random.default_rng(0)
split = Split(inputs=rng.normal(size=(BATCH * NUM_STEPS, 6, 6, 1)).astype("float32"),
              targets=rng.integers(0, 4, BATCH * NUM_STEPS), num_samples=BATCH * NUM_STEPS)
splits = Splits(spec=spec, train=split, validation=split, source="test")
MLP = ModelConfig(name="mlp", options={"hidden_units": (8,)})

def strategy_of(count, cross_device_ops="auto"):
    config = DistributionConfig(strategy="mirrored", cross_device_ops=cross_device_ops)
    return placement._build_strategy(config, [f"/device:CPU:{index}" for index in range(count)])[0]

def batches():
    return input_pipeline.build_training_dataset(splits, global_batch_size=BATCH, seed=0)

def arrays(model):
    variables = [*model.weights, *model.optimizer.variables]
    return [np.asarray(getattr(v.value, "values", (v.value,))[0].numpy()) for v in variables]
"""

TRAIN = (
    SETUP
    + """
def train(strategy, optimizer, per_execution):
    keras.utils.set_random_seed(3)
    training = TrainingConfig(global_batch_size=BATCH, epochs=1, optimizer=OPTIMIZERS[optimizer],
                              steps_per_execution=per_execution)
    with strategy.scope():
        model = build_compiled_model(MLP, training, spec)
    model.fit(batches(), steps_per_epoch=NUM_STEPS, epochs=1, shuffle=False, verbose=0)
    return arrays(model)

setups, kept = json.loads(sys.argv[1]), {}
for optimizer, per_execution, counts in setups:
    for count in (0, *counts):
        strategy = strategy_of(count) if count else tf.distribute.get_strategy()
        for index, array in enumerate(train(strategy, optimizer, per_execution)):
            kept[f"{optimizer}/{per_execution}/{count}/{index}"] = array
np.savez(sys.argv[2], **kept)
"""
)

CHECK = (
    SETUP
    + """
from unittest import mock
from tfbench.backends.tensorflow import replica_check

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

facts = {
    "clean": check(3),
    "not built": check(2, build=lambda: keras.Sequential([keras.layers.Dense(4)])),
    "hierarchical": check(3, tf.distribute.HierarchicalCopyAllReduce()),
}
with mock.patch.object(replica_check, "count_in_sums", exhaust):
    facts["without memory"] = check(2)
print("FACTS" + json.dumps(facts))
"""
)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("weights") / "weights.npz"
    facts_of(TRAIN, json.dumps(SETUPS), str(path))
    return dict(np.load(path))


@pytest.mark.parametrize(
    ("optimizer", "per_execution", "count"), [(*setup, count) for *setup, counts in SETUPS for count in counts]
)
def test_any_number_of_replicas_trains_as_one_does(
    weights: dict[str, Any], optimizer: str, per_execution: int, count: int
) -> None:
    key = f"{optimizer}/{per_execution}"
    single = [name for name in weights if name.startswith(f"{key}/0/")]
    assert len(single) >= 6
    for name in single:
        other = name.replace(f"{key}/0/", f"{key}/{count}/")
        np.testing.assert_allclose(weights[other], weights[name], rtol=1e-4, atol=2e-5)


MEND = 'Use distribution.cross_device_ops = "reduction_to_one_device"'


def test_a_replica_that_is_not_in_the_sums_is_named() -> None:
    assert facts_of(CHECK) == {
        "clean": ["", ""],
        "not built": ["", ""],
        "hierarchical": ["", f"its sums over 3 replicas count cpu:2 0 times instead of once. {MEND}"],
        "without memory": ["there was not enough memory for sums of the gradients' sizes", ""],
    }


PLANTED = """
import keras, tensorflow as tf

def build_model(spec):
    if tf.distribute.get_strategy().num_replicas_in_sync > 1:
        tf.distribute.get_strategy().extended._cross_device_ops = tf.distribute.HierarchicalCopyAllReduce()
    return keras.Sequential([keras.Input(spec.input_shape), keras.layers.Flatten(), keras.layers.Dense(10)])
"""


def test_a_run_whose_replicas_do_not_train_as_one_fails_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(PLANTED)
    finished = run(
        *("run", "mnist_hidden100_mlp", "--set", "model.name=planted:build_model", "--allow-code"),
        *("--data", "synthetic", "--steps", "5", "--set", "training.global_batch_size=96"),
        *("--strategy", "mirrored", "--devices", "cpu:0,cpu:1,cpu:2", "--no-mlflow"),
        cwd=tmp_path,
    )
    assert finished.exit_code == 1
    shown = " ".join((finished.stdout + finished.stderr).split())
    assert "does not train as one replica does: its sums over 3 replicas count cpu:2 0 times instead of once" in shown
    journal = journal_of(tmp_path / "mlruns")
    (exit_record,) = of_kind(journal, "exit")
    assert exit_record["status"] == "FAILED"
    assert exit_record["reason"].startswith("MeasurementError: mirrored on cpu:0, cpu:1, cpu:2 with cross_device_ops")
    (check_record,) = of_kind(journal, "replica_check")
    assert "count cpu:2 0 times" in check_record["replica_check"]["fault"]
    assert not of_kind(journal, "started") and not of_kind(journal, "spans")
