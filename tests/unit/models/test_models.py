"""Every model at its full size against a count worked out by hand, and at its smallest."""

import dataclasses
from typing import Any

import pytest

from tfbench import backends
from tfbench.errors import DeviceError, RecipeError
from tfbench.recipe import registry
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import ModelConfig, TrainingConfig
from tfbench.schema import to_plain
from tfbench.worker.compiled_model import build_compiled_model, build_model

DIGITS = registry.load("datasets", "mnist").describe(registry.load("datasets", "mnist").Config())
WAVE = registry.load("datasets", "sine").describe(registry.load("datasets", "sine").Config())
DIGIT_ROWS = dataclasses.replace(DIGITS, input_shape=(28, 28))
PHOTOS = dataclasses.replace(DIGITS, input_shape=(32, 32, 3))
LARGE_PHOTOS = dataclasses.replace(DIGITS, input_shape=(224, 224, 3))
FEATURES = dataclasses.replace(WAVE, input_shape=(1, 4), target_shape=(1,))

# (model, options, data, parameters)
SIZES = [
    # 784*1000+1000 + 1000*1000+1000 + 1000*10+10
    ("mlp", {}, DIGITS, 1_796_010),
    # 784*10+10
    ("mlp", {"hidden_units": ()}, DIGITS, 7_850),
    # 9*1*32+32 + 9*32*64+64 + 9216*128+128 + 128*10+10
    ("keras_mnist_cnn", {}, DIGITS, 1_199_882),
    # 28*100 + 100*100 + 100 + 100*10+10
    ("simple_rnn", {}, DIGITS, 13_910),
    # 4*100+100 + 100*1+1
    ("mlp", {"hidden_units": (100,)}, FEATURES, 601),
    # 4*21 + 21*21 + 21 + 21*1+1 and 4*22 + 22*22 + 22 + 22*1+1, on both sides of 601
    ("simple_rnn", {"units": 21}, FEATURES, 568),
    ("simple_rnn", {"units": 22}, FEATURES, 617),
    # 1*5+5 + 4*5*(5+5+1) + 5*1+1
    ("sine_lstm", {}, WAVE, 236),
]

SMALLEST: dict[str, tuple[dict[str, Any], DatasetSpec]] = {
    "mlp": ({"hidden_units": (1,)}, DIGITS),
    "keras_mnist_cnn": ({"filters": (1, 1), "dense_units": 1}, DIGITS),
    "simple_rnn": ({"units": 1}, DIGITS),
    "sine_lstm": ({"units": 1}, WAVE),
    "lenet5": ({"filters": (1, 1, 1), "dense_units": 1}, DIGITS),
    "resnet": ({"blocks": (1, 1, 1, 1), "first_width": 1}, PHOTOS),
    "scratch_cnn": ({"filters": 1, "dense_units": 1}, DIGITS),
    "rcnn": ({"channels": 1, "num_feedback_steps": 1}, PHOTOS),
    "cifar10_convnet": ({"filters": (1, 1, 1, 1)}, PHOTOS),
    "imagenet_alexnet": ({"filters": (1, 1, 1, 1, 1), "dense_units": 1}, LARGE_PHOTOS),
    "keras_application": ({"architecture": "MobileNetV3Small"}, PHOTOS),
    "layers": ({"layer": ({"type": "Flatten"}, {"type": "Dense", "units": 10})}, DIGITS),
}


def build(name: str, options: dict[str, Any], spec: DatasetSpec) -> Any:
    module = registry.load("models", name)
    return module.build_model(module.Config(**options), spec)


@pytest.mark.parametrize(("name", "options", "spec", "count"), SIZES)
def test_parameters_are_those_worked_out_by_hand(
    name: str, options: dict[str, Any], spec: DatasetSpec, count: int
) -> None:
    assert build(name, options, spec).count_params() == count


@pytest.mark.parametrize("name", sorted(registry.list_names("models").keys() - {"keras_file"}))  # which needs a file
def test_builds_at_its_smallest_size_and_gives_what_the_loss_expects(name: str) -> None:
    import numpy as np

    options, spec = SMALLEST[name]
    outputs = build(name, options, spec)(np.zeros((2, *spec.input_shape), "float32"))
    expected = (spec.num_classes,) if spec.num_classes else spec.target_shape
    assert outputs.shape == (2, *expected)


@pytest.mark.parametrize(
    ("name", "spec", "message"),
    [
        ("mlp", WAVE, r"model mlp: .* expected values of shape \(10, 1\), received outputs of shape \(1,\)\. Take"),
        ("sine_lstm", DIGIT_ROWS, r"model sine_lstm: .* a logit for each of 10 classes, .* of shape \(28, 1\)"),
    ],
)
def test_outputs_that_the_targets_would_be_broadcast_to_are_rejected(
    name: str, spec: DatasetSpec, message: str
) -> None:
    module = registry.load("models", name)
    config = ModelConfig(name=name, options=to_plain(module.Config()))
    with pytest.raises(RecipeError, match=message):
        build_model(config, spec)


def test_kernels_start_as_chainers_do_untruncated_and_not_alike() -> None:
    import numpy as np

    first, second = build("mlp", {"hidden_units": (784, 784)}, DIGITS).layers[1:3]
    assert not np.allclose(first.kernel.numpy(), second.kernel.numpy())
    kernel = first.kernel.numpy()
    deviation = (1 / 784) ** 0.5
    assert kernel.std() == pytest.approx(deviation, rel=0.01)
    assert np.abs(kernel).max() > 3 * deviation  # a truncated normal ends at two


@pytest.mark.parametrize("compiler", ["graph", "xla", "eager"])
def test_a_model_is_compiled_by_what_was_asked_for_and_reads_back_so(compiler: str) -> None:
    training = TrainingConfig(global_batch_size=8, epochs=1, compiler=compiler)
    model = build_compiled_model(ModelConfig(name="mlp", options={"hidden_units": (1,)}), training, DIGITS)
    assert (model.jit_compile, model.run_eagerly) == (compiler == "xla", compiler == "eager")
    assert backends.current().read_settings(model, training).compiler == compiler


def test_what_keras_does_not_compile_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keras.layers.Dense.supports_jit", False, raising=False)
    monkeypatch.setattr("keras.Model.jit_compile", property(lambda _: False, lambda *_: None))
    training = TrainingConfig(global_batch_size=8, epochs=1, compiler="xla")
    with pytest.raises(DeviceError, match=r'^training.compiler: Keras does not .* with XLA .* Use compiler = "graph"'):
        build_compiled_model(ModelConfig(name="mlp", options={"hidden_units": (1,)}), training, DIGITS)
