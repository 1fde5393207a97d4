"""The layers that Keras lacks, in one small network.

The same step under every strategy, with XLA and without, and the same outputs once saved and
loaded.

TensorFlow takes its logical devices once a process, so one child does all there is to compare.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runs import facts_of

pytestmark = pytest.mark.slow

CHILD = """
import json, re, sys
from pathlib import Path
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
tf.config.set_soft_device_placement(False)

import keras
from tensorflow.python.eager import context
from tfbench.models.custom_layers.convolutions import LocallyConnected2D, RecurrentConvolution2D
from tfbench.models.custom_layers.normalization import LocalResponseNormalization
from tfbench.models.custom_layers.pooling import CeilMaxPooling2D, ChannelMax, SwitchableMaxPooling2D

folder = Path(sys.argv[1])
rng = np.random.default_rng(1)
inputs, targets = rng.normal(size=(8, 65, 66, 2)).astype("float32"), rng.integers(0, 3, 8)
kept, facts = {}, {}

def build(jit_compile, policy="float32"):
    keras.utils.set_random_seed(3)
    keras.config.set_dtype_policy(policy)
    model = keras.Sequential([
        keras.Input(inputs.shape[1:]),
        RecurrentConvolution2D(8, num_feedback_steps=2, normalization="lrn", name="rcl"),
        CeilMaxPooling2D(3, 2, name="ceil_over"),
        LocalResponseNormalization(3, 1.0, 0.1, 0.75),
        CeilMaxPooling2D(3, 2, name="ceil"),
        SwitchableMaxPooling2D(2, "index_scatter", name="scatter"),
        SwitchableMaxPooling2D(2, "mask_multiply", name="mask"),
        LocallyConnected2D(6, 3, activation="tanh", name="local"),
        SwitchableMaxPooling2D(2, "printed_scatter", name="printed"),
        ChannelMax(),
        keras.layers.Dense(3, dtype="float32"),
    ])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, jit_compile=jit_compile)
    return model

two = tf.distribute.MirroredStrategy(
    ["/device:CPU:0", "/device:CPU:1"], cross_device_ops=tf.distribute.HierarchicalCopyAllReduce()
)
for name, strategy, jit_compile in (
    ("default", tf.distribute.get_strategy(), False),
    ("default_jit", tf.distribute.get_strategy(), True),
    ("two", two, False),
):
    with strategy.scope():
        model = build(jit_compile)
    kept |= {f"{name}/before/{i}": w for i, w in enumerate(model.get_weights())}
    batches = tf.data.Dataset.from_tensors((inputs, targets)).repeat()
    model.fit(batches, steps_per_epoch=1, epochs=1, shuffle=False, verbose=0)
    kept |= {f"{name}/after/{i}": w for i, w in enumerate(model.get_weights())}

for policy in ("mixed_float16", "mixed_bfloat16"):
    model = build(False, policy)
    model.fit(inputs, targets, batch_size=8, shuffle=False, verbose=0)
    facts[policy] = [layer.compute_dtype for layer in model.layers[:-1]]
    facts[policy + "_output"] = str(model.layers[-2].output.dtype)
    kept |= {f"{policy}/after/{i}": w for i, w in enumerate(model.get_weights())}

model = build(False)
kept["outputs"] = model.predict(inputs, verbose=0)
model.save(folder / "model.keras")
loaded = keras.models.load_model(folder / "model.keras")
kept["outputs_loaded"] = loaded.predict(inputs, verbose=0)
facts["configs"] = [[layer.get_config() for layer in m.layers] for m in (model, loaded)]

for recomputes in (True, False):
    layer = RecurrentConvolution2D(8, num_feedback_steps=3, recomputes_feed_forward=recomputes)
    x = tf.constant(rng.normal(size=(2, 8, 8, 8)).astype("float32"))
    layer(x)
    context.enable_run_metadata()
    plain = tf.function(layer)(x)
    functions = context.export_run_metadata().function_graphs
    context.disable_run_metadata()
    compiled = tf.function(layer, jit_compile=True)
    kept |= {f"rcl_{recomputes}": plain.numpy(), f"rcl_{recomputes}_jit": compiled(x).numpy()}
    text = compiled.experimental_get_compiler_ir(x)(stage="optimized_hlo")
    facts[f"convolutions_{recomputes}"] = [
        # Conv2D, _FusedConv2D, or where oneDNN takes over _MklNativeConv2D and the like
        sum(node.op.endswith("Conv2D") for f in functions for g in f.partition_graphs for node in g.node),
        len(re.findall(r" convolution\\(", text)),
    ]
np.savez(folder / "kept.npz", **kept)
print(json.dumps(facts))
"""

Facts = tuple[dict[str, Any], dict[str, Any]]


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    folder = tmp_path_factory.mktemp("layers")
    facts = facts_of(
        CHILD, str(folder), XLA_FLAGS="--xla_backend_optimization_level=0"
    )  # compiles twice as fast
    return facts, dict(np.load(Path(folder) / "kept.npz"))


@pytest.mark.parametrize("setup", ["default_jit", "two"])
def test_one_step_through_every_layer_gives_the_weights_of_a_single_device(
    child: Facts, setup: str
) -> None:
    _, kept = child
    num_weights = 8  # two kernels and two biases of the recurrent convolution, two local, two dense
    for index in range(num_weights):
        before = kept[f"default/before/{index}"]
        after = kept[f"default/after/{index}"]
        np.testing.assert_array_equal(kept[f"{setup}/before/{index}"], before)
        np.testing.assert_allclose(kept[f"{setup}/after/{index}"], after, rtol=0, atol=1e-5)
        assert np.abs(after - before).max() > 1e-4  # the step moved what is compared
    assert f"default/before/{num_weights}" not in kept


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_layers_compute_in_the_type_of_the_policy_and_move_alike(child: Facts, policy: str) -> None:
    facts, kept = child
    dtype = policy.removeprefix("mixed_")
    assert set(facts[policy]) == {dtype}
    assert facts[f"{policy}_output"] == dtype
    for index in range(8):
        expected = kept[f"default/after/{index}"]
        assert kept[f"{policy}/after/{index}"].dtype == np.float32
        np.testing.assert_allclose(kept[f"{policy}/after/{index}"], expected, rtol=0, atol=0.02)


def test_a_network_of_these_layers_is_the_same_once_saved_and_loaded(child: Facts) -> None:
    facts, kept = child
    np.testing.assert_array_equal(kept["outputs_loaded"], kept["outputs"])
    original, loaded = facts["configs"]
    assert loaded == original


def test_the_feed_forward_convolution_really_runs_at_every_step(child: Facts) -> None:
    facts, kept = child
    assert facts["convolutions_True"] == [7, 7]  # as TensorFlow ran it, as XLA compiled it
    assert facts["convolutions_False"] == [4, 4]
    for recomputes in (True, False):
        np.testing.assert_allclose(
            kept[f"rcl_{recomputes}_jit"], kept[f"rcl_{recomputes}"], rtol=1e-4, atol=1e-5
        )
