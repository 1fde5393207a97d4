"""Architectures of keras.applications as models."""

import pytest

from builders import build_spec
from outcomes import error_of
from tfbench.errors import RecipeError
from tfbench.models.keras_application import Config, build_model


def test_builds_for_the_datas_images_and_classes_and_gives_logits() -> None:
    model = build_model(Config(architecture="MobileNetV3Small"), build_spec((32, 32, 1), 7))
    assert (model.input_shape, model.output_shape) == ((None, 32, 32, 1), (None, 7))
    assert model.layers[-1].activation.__name__ == "linear"
    assert "rescaling" not in [layer.name for layer in model.layers]  # the data set scales


@pytest.mark.parametrize(
    ("architecture", "shape", "message"),
    [
        ("ResNet51", (32, 32, 3), ": keras.applications has none of this name. Did you mean"),
        (
            "VGG16",
            (28, 28, 1),
            " does not take the data's samples of shape (28, 28, 1): Input size must be",
        ),
        ("VGG16", (100, 8), " does not take the data's samples of shape (100, 8): "),
    ],
)
def test_data_that_an_architecture_does_not_take_is_named(
    architecture: str, shape: tuple[int, ...], message: str
) -> None:
    found = error_of(RecipeError, build_model, Config(architecture=architecture), build_spec(shape))
    assert found.startswith(f"model.architecture: {architecture}{message}")
