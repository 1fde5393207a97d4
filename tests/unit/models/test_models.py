"""A model as it is built and compiled for a run: what fits the data, and what was asked for."""

import dataclasses
import itertools

import numpy as np
import pytest

from builders import describe_data
from kinds import Fields
from tfbench import backends
from tfbench.errors import DeviceError, RecipeError
from tfbench.measure import compiled_model, initial_weights
from tfbench.measure.compiled_model import build_compiled_model, build_model, count_values
from tfbench.recipe import registry
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import ModelConfig, TrainingConfig
from tfbench.schema import to_plain

DIGITS = describe_data("mnist")
WAVE = describe_data("sine")
TEXT = describe_data("text")
PHOTOS = dataclasses.replace(DIGITS, input_shape=(32, 32, 3))
DIGIT_ROWS = dataclasses.replace(DIGITS, input_shape=(28, 28))


@pytest.mark.parametrize(
    ("name", "options", "spec", "message"),
    [
        ("mlp", {}, WAVE, r"model mlp: .* values of shape \(10, 1\), .* outputs of shape \(1,\)"),
        ("resnet", {"num_outputs": 9}, PHOTOS, r"model resnet: .* of 10 classes, .* shape \(9,\)"),
        ("mlp", {}, TEXT, r"model mlp: .* each of 256 classes at each position, .* \(256,\)"),
        ("gpt", {}, PHOTOS, r"needs tokens, and a label for each .* Use --set dataset\.name=text"),
        ("vit", {"patch_size": 5}, PHOTOS, r"must divide .* Received: 5 for samples of 32x32x3\."),
        ("sine_lstm", {}, DIGIT_ROWS, r"model sine_lstm: .* each of 10 classes, .* \(28, 1\)"),
    ],
)
def test_outputs_that_the_targets_would_be_broadcast_to_are_rejected(
    name: str, options: Fields, spec: DatasetSpec, message: str
) -> None:
    module = registry.load("models", name)
    config = ModelConfig(name=name, options=to_plain(module.Config(**options)))
    with pytest.raises(RecipeError, match=message):
        build_model(config, spec)


def perceptron(*hidden_units: int) -> ModelConfig:
    return ModelConfig(name="mlp", options={"hidden_units": hidden_units})


def test_kernels_start_as_chainers_do_untruncated_and_not_alike() -> None:
    model = build_model(perceptron(784, 784), DIGITS)
    first, second = (layer.kernel.numpy() for layer in model.layers[1:3])
    assert not np.allclose(first, second)
    deviation = (1 / 784) ** 0.5
    assert first.std() == pytest.approx(deviation, rel=0.01)
    assert np.abs(first).max() > 3 * deviation  # a truncated normal ends at two


@pytest.mark.parametrize("hidden_units", [(10**6, 10**6), (2000,) * 200])
def test_weights_that_no_memory_holds_are_rejected_before_they_are_drawn(
    hidden_units: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initial_weights, "_UNCOUNTED_BYTES", 2**22)
    monkeypatch.setattr(initial_weights, "_generator", None)  # draws nothing
    sizes = [784, *hidden_units, 10]
    num_weights = sum((before + 1) * after for before, after in itertools.pairwise(sizes))
    told = f"^model mlp: its weights take {4 * num_weights / 2**30:,.1f} GiB, and this .* 2.0 GiB"
    with pytest.raises(RecipeError, match=told):
        build_model(perceptron(*hidden_units), DIGITS, limit_bytes=2**31)


def test_counting_the_weights_before_changes_none_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import keras

    config = ModelConfig(name="keras_mnist_cnn", options={})
    counts = []
    count = compiled_model._count_weight_bytes
    monkeypatch.setattr(
        compiled_model, "_count_weight_bytes", lambda *given: counts.append(count(*given))
    )
    built = []
    for uncounted_bytes in (2**40, 1000):
        monkeypatch.setattr(initial_weights, "_UNCOUNTED_BYTES", uncounted_bytes)
        keras.utils.clear_session()
        keras.utils.set_random_seed(1)
        built.append(build_model(config, DIGITS, limit_bytes=2**40))
    usual, counted = built
    assert counts == [4 * count_values(usual.weights)]
    assert [weight.path for weight in usual.weights] == [weight.path for weight in counted.weights]
    for one, other in zip(usual.get_weights(), counted.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("compiler", ["graph", "xla", "eager"])
def test_a_model_is_compiled_by_what_was_asked_for_and_reads_back_so(compiler: str) -> None:
    training = TrainingConfig(global_batch_size=8, epochs=1, compiler=compiler)
    model = build_compiled_model(perceptron(1), training, DIGITS)
    assert (model.jit_compile, model.run_eagerly) == (compiler == "xla", compiler == "eager")
    assert backends.current().read_settings(model, training).compiler == compiler


def test_what_keras_does_not_compile_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keras.layers.Dense.supports_jit", False, raising=False)
    monkeypatch.setattr("keras.Model.jit_compile", property(lambda _: False, lambda *_: None))
    training = TrainingConfig(global_batch_size=8, epochs=1, compiler="xla")
    told = r"^training.compiler: Keras does not .* with XLA .* Use --set training\.compiler=graph"
    with pytest.raises(DeviceError, match=told):
        build_compiled_model(perceptron(1), training, DIGITS)
