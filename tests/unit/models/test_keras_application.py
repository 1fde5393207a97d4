"""Architectures of keras.applications as models."""

import inspect
import typing

import pytest

from tfbench.errors import RecipeError
from tfbench.models.keras_application import Architecture, Config, build_model
from tfbench.recipe.dataset_spec import DatasetSpec


def data(*shape: int) -> DatasetSpec:
    return DatasetSpec(input_shape=shape, num_classes=7, train_samples=10, validation_samples=10)


def test_every_architecture_of_the_installed_keras_is_known() -> None:
    import keras

    functions = {name for name, value in vars(keras.applications).items() if inspect.isfunction(value)}
    assert set(typing.get_args(Architecture)) == functions


def test_builds_for_the_datas_images_and_classes_and_gives_logits() -> None:
    model = build_model(Config(architecture="MobileNetV3Small"), data(32, 32, 1))
    assert (model.input_shape, model.output_shape) == ((None, 32, 32, 1), (None, 7))
    assert model.layers[-1].activation.__name__ == "linear"
    assert "rescaling" not in [layer.name for layer in model.layers]  # the data set scales


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            data(28, 28, 1),
            "model.architecture: VGG16 does not take the data's images of shape (28, 28, 1): "
            "Input size must be at least 32x32; Received: input_shape=(28, 28, 1)",
        ),
        (data(100, 8), "VGG16 needs images, (height, width, channels), with classes. Received: data of shape (100, 8)"),
    ],
)
def test_data_that_an_architecture_does_not_take_is_named(spec: DatasetSpec, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        build_model(Config(architecture="VGG16"), spec)
    assert message in str(caught.value)
