"""1, 2, 3, 4, 5 and 8 replicas train as one does, and a first step tells so of any network; in processes of their own.

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
ARMS = (("sgd", 1, (1, 2, 3, 4, 5, 8)), ("momentum", 3, (2, 3)), ("adam", 1, (2, 3)))

SETUP = """
import dataclasses, gc, json, random, sys
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

arms, kept = json.loads(sys.argv[1]), {}
for optimizer, per_execution, counts in arms:
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
from tfbench.errors import MeasurementError
from tfbench.backends.tensorflow.backend import BACKEND
from tfbench.backends.tensorflow.replica_check import check_replicas

def build_dropping_and_normalising():
    return keras.Sequential([keras.Input(spec.input_shape), keras.layers.Conv2D(4, 3, use_bias=True),
                             keras.layers.BatchNormalization(), keras.layers.Activation("relu"),
                             keras.layers.Dropout(0.5), keras.layers.Flatten(), keras.layers.Dense(4)])

def build_drawing():
    class Noise(keras.layers.Layer):
        def call(self, inputs, training=False):
            return inputs + tf.random.normal(tf.shape(inputs), stddev=5.0)
    return keras.Sequential([keras.Input(spec.input_shape), keras.layers.Flatten(), Noise(), keras.layers.Dense(4)])

def build_exploding():
    return keras.Sequential([keras.Input(spec.input_shape), keras.layers.Flatten(),
                             keras.layers.Dense(4, kernel_initializer=keras.initializers.Constant(float("inf")))])

class Ids(keras.layers.Layer):
    def call(self, inputs):
        return keras.ops.cast(keras.ops.clip(keras.ops.abs(inputs) * 2, 0, 4), "int32")

def build_embedding():
    return keras.Sequential([keras.Input(spec.input_shape), keras.layers.Flatten(), Ids(),
                             keras.layers.Embedding(5, 4), keras.layers.GlobalAveragePooling1D(),
                             keras.layers.Dense(4)])

def build_dense():
    return keras.Sequential([keras.Input(spec.input_shape), keras.layers.Flatten(), keras.layers.Dense(4)])

def compiled(build, optimizer=None):
    model = build()
    model.compile(optimizer or keras.optimizers.Adam(0.01),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")])
    return model

class Dropping(tf.distribute.ReductionToOneDevice):
    def reduce_implementation(self, reduce_op, per_replica_value, destinations, options):
        values = per_replica_value.values
        left = type(per_replica_value)((*values[:-1], tf.zeros_like(values[-1])))
        return super().reduce_implementation(reduce_op, left, destinations, options)

    def batch_reduce_implementation(self, reduce_op, pairs, options):
        return [self.reduce_implementation(reduce_op, value, place, options) for value, place in pairs]

def placement_of(count, ops):
    return Placement(strategy="mirrored", devices=tuple(f"cpu:{i}" for i in range(count)), num_replicas=count,
                     global_batch_size=BATCH, per_replica_batch_size=BATCH // count, cross_device_ops=ops)

def check(build, count, cross_device_ops=None, name="reduction_to_one_device", plant=lambda model: None):
    keras.utils.set_random_seed(3)
    strategy = strategy_of(count)
    if cross_device_ops:
        strategy.extended._cross_device_ops = cross_device_ops
    with strategy.scope():
        model = compiled(build)
    plant(model)
    found = check_replicas(model, lambda: compiled(build), batches(), placement_of(count, name))
    try:
        BACKEND.require_as_one(found, placement_of(count, name))
    except MeasurementError as error:
        return str(error)
    return dataclasses.asdict(found)

def check_reading_at_random():
    keras.utils.set_random_seed(3)
    with strategy_of(2).scope():
        model = compiled(build_dense)
    def augment(inputs, targets):
        noise = tf.numpy_function(lambda: np.float32(np.random.normal()), [], tf.float32)
        return inputs + tf.ensure_shape(noise, ()), targets
    state = np.random.get_state()[1].tolist()
    found = check_replicas(model, lambda: compiled(build_dense), batches().map(augment).take(1), placement_of(2, ""))
    return {"compared": found.compared, "faults": found.faults, "kept": state == np.random.get_state()[1].tolist()}

def check_resumed():
    keras.utils.set_random_seed(3)
    def scaled():
        return compiled(build_dense, keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01)))
    with strategy_of(2).scope():
        model = scaled()
        model.optimizer.build(model.trainable_variables)
        model.optimizer.dynamic_scale.assign(4.0)
    before = [array.tolist() for array in arrays(model)]
    found = check_replicas(model, scaled, batches(), placement_of(2, ""))
    same = before == [array.tolist() for array in arrays(model)]
    return {"compared": found.compared, "faults": found.faults, "same": same,
            "scale": float(model.optimizer.dynamic_scale.numpy())}

def check_once(build_one):
    with strategy_of(2).scope():
        model = compiled(build_dense)
    return dataclasses.asdict(check_replicas(model, lambda: build_one(model), batches(), placement_of(2, "")))

def refuse(model):
    raise LookupError("built already")

def check_same_model():
    from unittest import mock
    from tfbench.worker import compiled_model
    with strategy_of(2).scope():
        kept = build_dense()
        training = TrainingConfig(global_batch_size=BATCH, epochs=1, optimizer=SgdConfig(learning_rate=0.1))
        with mock.patch.object(compiled_model, "build_model", lambda *_, **__: kept):
            model = build_compiled_model(MLP, training, spec)
    optimizer = model.optimizer
    def build_one():
        with mock.patch.object(compiled_model, "build_model", lambda *_, **__: kept):
            return build_compiled_model(MLP, training, spec, num_replicas=2, beside=model)
    found = dataclasses.asdict(check_replicas(model, build_one, batches(), placement_of(2, "")))
    return {**found, "same_optimizer": model.optimizer is optimizer}

def check_without_memory():
    from unittest import mock
    from tfbench.backends.tensorflow import replica_check
    def exhaust(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "planted")
    with mock.patch.object(replica_check, "count_in_sums", exhaust):
        return check_once(lambda model: compiled(build_dense))

def history(is_checked, per_execution):
    keras.utils.set_random_seed(3)
    with strategy_of(2).scope():
        model = compiled(build_dropping_and_normalising)
    model.steps_per_execution = per_execution
    if is_checked:
        check_replicas(model, lambda: compiled(build_dropping_and_normalising), batches(), placement_of(2, ""))
    drawn = [random.random(), float(np.random.random()), float(keras.random.uniform(()))]
    losses = model.fit(batches(), steps_per_epoch=3, epochs=2, shuffle=False, verbose=0).history
    return drawn, losses, b"".join(array.tobytes() for array in arrays(model))

def scale_loss_wrongly(model):
    model.optimizer.scale_loss = lambda loss: loss * 2.0

def forget_a_replica(model):
    original = model.optimizer.update_step
    def update_step(gradient, variable, learning_rate):
        if "CPU:2" not in variable.device:
            original(gradient, variable, learning_rate)
    model.optimizer.update_step = update_step

facts = {
    "clean": check(build_dropping_and_normalising, 3),
    "drawing": check(build_drawing, 2),
    "exploding": check(build_exploding, 2),
    "hierarchical": check(build_dense, 3, tf.distribute.HierarchicalCopyAllReduce(),
                          "hierarchical_copy"),
    "dropping": check(build_dense, 4, Dropping()),
    "dropping_unseen": check(build_drawing, 4, Dropping()),
    "scaled": check(build_dense, 2, plant=scale_loss_wrongly),
    "forgotten": check(build_dense, 3, plant=forget_a_replica),
    "embedding": check(build_embedding, 2),
    "at_random": check_reading_at_random(),
    "resumed": check_resumed(),
    "once": check_once(refuse),
    "same_model": check_same_model(),
    "without_memory": check_without_memory(),
    "as_without": history(False, 3) == history(True, 3),
}
print("FACTS" + json.dumps(facts))
"""
)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("weights") / "weights.npz"
    facts_of(TRAIN, json.dumps(ARMS), str(path))
    return dict(np.load(path))


@pytest.mark.parametrize(
    ("optimizer", "per_execution", "count"), [(*arm, count) for *arm, counts in ARMS for count in counts]
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


@pytest.fixture(scope="module")
def facts() -> Any:
    return facts_of(CHECK)


def test_a_first_step_with_dropout_and_statistics_of_its_batch_is_compared_whole(facts: Any) -> None:
    check = facts["clean"]
    assert (check["num_replicas"], check["compared"]) == (3, ["sums", "gradients"])
    assert check["deviation"] < 1e-4 < check["tolerance"]
    assert check["weight"] and not check["reason"]


def test_only_sums_are_compared_of_a_network_that_draws_numbers_of_its_own(facts: Any) -> None:
    assert facts["drawing"]["compared"] == ["sums"]
    assert facts["drawing"]["deviation"] is None
    assert "from one computation to the next: the network draws random numbers" in facts["drawing"]["reason"]


def test_only_sums_are_compared_where_gradients_are_not_finite(facts: Any) -> None:
    assert facts["exploding"]["compared"] == ["sums"]
    assert facts["exploding"]["reason"] == "the gradients of the first step are not finite"


def test_a_library_that_leaves_a_replica_out_is_named(facts: Any) -> None:
    message = facts["hierarchical"]
    assert message.startswith(
        "mirrored on cpu:0, cpu:1, cpu:2 with cross_device_ops = hierarchical_copy does not train as one replica does: "
        "its sums over 3 replicas count cpu:2 0 times instead of once; "
        "the gradients of the first step differ by up to 0."
    )
    assert "Nothing was measured. Use distribution.cross_device_ops = " in message


def test_a_cross_device_operation_that_drops_a_replica_is_named(facts: Any) -> None:
    assert "count cpu:3 0 times instead of once; the gradients of the first step differ" in facts["dropping"]
    assert "Use another number of replicas, or another version of TensorFlow" in facts["dropping"]
    assert "count cpu:3 0 times instead of once. Nothing was measured." in facts["dropping_unseen"]


def test_a_loss_that_is_scaled_wrongly_is_named(facts: Any) -> None:
    assert "does not train as one replica does: the gradients of the first step differ by up to" in facts["scaled"]


def test_a_replica_that_is_not_updated_is_named(facts: Any) -> None:
    assert (
        "does not train as one replica does: its replicas hold other weights after the first update"
        in facts["forgotten"]
    )


def test_training_after_the_check_is_bit_by_bit_what_it_is_without(facts: Any) -> None:
    assert facts["as_without"] is True


def test_sparse_gradients_are_compared(facts: Any) -> None:
    assert (facts["embedding"]["compared"], facts["embedding"]["reason"]) == (["sums", "gradients"], "")


def test_samples_that_are_read_with_random_changes_are_no_fault(facts: Any) -> None:
    assert facts["at_random"] == {"compared": ["sums", "gradients"], "faults": [], "kept": True}


def test_an_optimizer_that_a_snapshot_was_given_to_is_left_as_it_is(facts: Any) -> None:
    whole = ["sums", "gradients"]
    assert facts["resumed"] == {"compared": whole, "faults": [], "same": True, "scale": 4.0}


def test_only_sums_are_compared_of_a_model_whose_code_builds_it_once(facts: Any) -> None:
    for name, error in (
        ("once", "LookupError: built already"),
        (
            "same_model",
            "RecipeError: model.name: mlp returns the same weights twice. Expected: new ones at every call.",
        ),
    ):
        check = facts[name]
        assert (check["compared"], check["faults"]) == (["sums"], [])
        assert check["reason"] == f"the model could not be built again for one replica: {error}"
    assert facts["same_model"]["same_optimizer"]


def test_a_sum_that_memory_does_not_suffice_for_ends_no_run(facts: Any) -> None:
    check = facts["without_memory"]
    assert (check["compared"], check["faults"]) == ([], [])
    assert check["reason"] == "there was not enough memory for one more replica"


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
    assert "count cpu:2 0 times instead of once" in " ".join((finished.stdout + finished.stderr).split())
    journal = journal_of(tmp_path / "mlruns")
    (exit_record,) = of_kind(journal, "exit")
    assert exit_record["status"] == "FAILED"
    assert exit_record["reason"].startswith("MeasurementError: mirrored on cpu:0, cpu:1, cpu:2 with cross_device_ops")
    (check_record,) = of_kind(journal, "replica_check")
    assert len(check_record["replica_check"]["faults"]) == 2
    assert not of_kind(journal, "started") and not of_kind(journal, "spans")
