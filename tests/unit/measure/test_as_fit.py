"""A network of the user's trains as `fit` trains it, or is rejected with advice that works."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from builders import build_recipe, build_spec
from following import forget_modules
from tfbench import backends
from tfbench.datasets.sources.splits import Splits
from tfbench.datasets.sources.user_arrays import splits_of_arrays
from tfbench.errors import Notice, RecipeError
from tfbench.measure import compiled_model, data, own_training
from tfbench.models.structure import foreign_model
from tfbench.recipe.sections import DatasetConfig, ModelConfig, TrainingConfig

SPEC = build_spec((4,), 3, input_dtype="float32")
COMPILED = """
import keras

def build_model():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, {arguments})
    return model
"""
INITIALIZERS = ("GlorotUniform", "HeNormal", "Orthogonal", "RandomNormal")

pytestmark = pytest.mark.usefixtures("in_tmp_path")


@pytest.fixture(autouse=True)
def seed() -> Iterator[None]:
    keras.utils.set_random_seed(0)
    yield
    keras.utils.set_random_seed(0)


def build(
    code: str, given: tuple[str, ...] = (), splits: Splits | None = None, **values: Any
) -> Any:
    """Builds a network from code, for a recipe of which keys were given."""
    file = Path("nets.py").absolute()
    file.write_text(code, encoding="utf-8")
    name = f"{file}:build_model"
    recipe = build_recipe(model={"name": name}, training=values)
    try:
        return compiled_model.build_compiled_model(
            recipe.model,
            recipe.training,
            splits.spec if splits else SPEC,
            allows_code=True,
            splits=splits,
            given=given,
        )
    finally:
        forget_modules(file.parent)


@pytest.mark.parametrize(
    "argument, value", [("jit_compile", True), ("run_eagerly", True), ("steps_per_execution", 7)]
)
def test_what_compile_was_given_is_rejected_with_advice_that_works_either_way(
    argument: str, value: Any
) -> None:
    code = COMPILED.format(arguments=f"{argument}={value}")
    with pytest.raises(RecipeError, match=f"{argument}={value}") as raised:
        build(code)
    advice = re.findall(r"--set training\.(\w+)=(\w+)", str(raised.value))
    assert len(advice) == 2
    found = []
    for key, text in advice:
        chosen = int(text) if text.isdigit() else text
        model = build(code, given=(f"training.{key}",), **{key: chosen})
        found.append(getattr(model, argument))
    assert found[0] == value
    assert found[1] != value


@pytest.mark.advice("does one step per call on backend {}. Use --set")
def test_several_steps_a_call_are_rejected_where_keras_does_one_with_advice_that_works() -> None:
    model = build(COMPILED.format(arguments="steps_per_execution=4"), steps_per_execution=4)
    training = TrainingConfig(backend="torch", global_batch_size=8, epochs=1)
    with pytest.raises(RecipeError, match=r"--set training\.steps_per_execution=1, or another"):
        own_training.set_execution(model, training, {}, "nets.py:build_model", ())
    given = ("training.steps_per_execution",)
    own_training.set_execution(model, training, {}, "nets.py:build_model", given)


def test_the_run_says_where_fit_would_choose_xla_by_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from keras.src.trainers.trainer import Trainer

    code = COMPILED.format(arguments="")
    assert build(code).jit_compile is False
    monkeypatch.setattr(Trainer, "_resolve_auto_jit_compile", lambda _: True)
    with pytest.warns(Notice, match=r"--set training\.compiler=xla changes it"):
        assert build(code).jit_compile is False
    model = build(code, given=("training.compiler",), compiler="xla")
    assert model.jit_compile is True


@pytest.mark.parametrize("initializer", INITIALIZERS)
@pytest.mark.parametrize("options", ["", "seed=1"])
def test_a_network_of_the_users_has_the_weights_that_it_was_built_with(
    initializer: str, options: str
) -> None:
    kind = f"keras.initializers.{initializer}({options})"
    code = f"""
import keras

def build_model():
    dense = keras.layers.Dense(3, kernel_initializer={kind})
    model = keras.Sequential([keras.Input((4,)), dense])
    model.compile("sgd", "mse")
    return model
"""
    found = build(code).get_weights()
    keras.utils.set_random_seed(0)
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    expected = namespace["build_model"]().get_weights()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


ALONE = """
import keras

class Encoder(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(4)
        self.received = []

    def build(self, shape):
        self.dense.build(shape)
        self.built = True

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        self.received.append(data)
        return {"loss": keras.ops.mean(self(data))}

    test_step = train_step

def build_model():
    model = Encoder()
    model.build((None, 4))
    model.compile("sgd")
    return model
"""


def test_steps_of_ones_own_get_samples_without_targets_as_fit_hands_them_over() -> None:
    samples = np.ones((8, 4), "float32")
    splits = splits_of_arrays(((samples,), (samples,)), source="", where="")
    model = build(ALONE, splits=splits)
    batch = splits.train.arrays
    model.train_step(batch)
    model.test_step(batch)
    for received in model.received:
        assert received.shape == (8, 4)


def test_keras_own_steps_and_batches_with_targets_are_handed_over_as_they_are() -> None:
    samples = np.ones((8, 4), "float32")
    splits = splits_of_arrays(((samples, samples), (samples, samples)), source="", where="")
    model = build(ALONE.replace("keras.ops.mean(self(data))", "1.0"), splits=splits)
    model.train_step(splits.train.arrays)
    assert [array.shape for array in model.received[0]] == [(8, 4), (8, 4)]


X = np.zeros((6, 4), "float32")
ONE_HOT = np.eye(3, dtype="int64")[[0, 1, 2, 0, 1, 2]]


@pytest.mark.parametrize(
    "arrays, input_shape, target_shape",
    [
        ((X, ONE_HOT), (4,), (3,)),
        ((X, np.zeros(6), np.ones(6)), (4,), ()),
        (({"a": X, "b": X[:, :1]}, np.zeros(6)), {"a": (4,), "b": (1,)}, ()),
        (((X, X[:, :2]), {"y": np.zeros((6, 2))}), ((4,), (2,)), {"y": (2,)}),
        ((X,), (4,), ()),
    ],
)
def test_the_description_of_any_data_says_its_shapes(
    arrays: Any, input_shape: Any, target_shape: Any
) -> None:
    spec = splits_of_arrays((arrays, arrays), source="", where="").spec
    assert (spec.input_shape, spec.target_shape) == (input_shape, target_shape)


@pytest.mark.parametrize(
    ("first_lines", "signature", "advice"),
    [
        ("", "build_model(spec)", r"takes spec.*Add load_data\(\)"),
        # Only the import shows the data, which is not passed over.
        ("from samples import *\n", "build_model()", r"--set dataset\.name=.*/nets\.py:load_data"),
    ],
)
def test_a_network_without_data_that_needs_some_or_brings_some_is_rejected(
    first_lines: str, signature: str, advice: str
) -> None:
    Path("samples.py").write_text("def load_data(): ...\n", encoding="utf-8")
    file = Path("nets.py").absolute()
    code = COMPILED.format(arguments="").replace("build_model()", signature)
    file.write_text(first_lines + code, encoding="utf-8")
    model = ModelConfig(name=f"{file}:build_model")
    with pytest.raises(RecipeError, match=advice):
        data.make_splits(DatasetConfig(name="network"), model, allows_code=True)
    forget_modules(file.parent)


def test_gradients_are_not_accumulated_over_replicas_of_tensorflow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    optimizer = "keras.optimizers.SGD(gradient_accumulation_steps=2)"
    code = COMPILED.format(arguments="").replace('"sgd"', optimizer)
    assert build(code).optimizer.gradient_accumulation_steps == 2
    monkeypatch.setattr(backends.current(), "count_replicas", lambda: 2)
    with pytest.raises(RecipeError, match="accumulates gradients over 2 steps"):
        build(code)


def test_a_quantized_network_computes_in_the_precision_behind_it() -> None:
    lines = [
        "    model.layers[0].quantize('int8')",
        "    model.layers[0].enable_lora(2)",
        "    model.compile",
    ]
    build(COMPILED.format(arguments="").replace("    model.compile", "\n".join(lines)))


def test_what_a_file_or_an_import_compiled_is_told_apart_from_what_was_asked_for() -> None:
    """Keras keeps what it chose as if somebody had asked for it."""
    at_import = COMPILED.format(arguments="").replace("build_model()", "make()")
    at_import += "\nmodel = make()\n\ndef build_model():\n    return model\n"
    model = build(at_import)
    assert foreign_model.chose_compiler_itself(model)
    model.save("net.keras")
    loaded = keras.saving.load_model("net.keras")
    assert foreign_model.chose_compiler_itself(loaded)
    asked = build(COMPILED.format(arguments="jit_compile=False"))
    assert not foreign_model.chose_compiler_itself(asked)


def test_a_network_in_another_precision_is_rejected_with_advice_that_works() -> None:
    code = COMPILED.format(arguments="").replace("Dense(3)", "Dense(3, dtype='mixed_bfloat16')")
    with pytest.raises(RecipeError, match=r"Use --set training\.precision=mixed_bfloat16"):
        build(code)
    code = code.replace("mixed_bfloat16", "float64")
    with pytest.raises(RecipeError, match=r"Build them in float32"):
        build(code)


OWN_FIT = """
import keras

class Own(keras.Sequential):
    def fit(self, x, {arguments}):
        return super().fit(x, {handed_on})

def build_model():
    model = Own([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model
"""


def test_a_fit_of_its_own_that_takes_too_little_is_rejected_with_advice_that_works() -> None:
    narrow = OWN_FIT.format(arguments="epochs=1", handed_on="epochs=epochs")
    with pytest.raises(RecipeError, match=r"'validation_data'\. Let it take \*\*arguments"):
        build(narrow)
    assert build(OWN_FIT.format(arguments="**arguments", handed_on="**arguments")).compiled
