"""Multilayer perceptron: fully connected layers of any number and width."""

from typing import Any, Literal

from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Width, schema


@schema
class Config:
    """The hidden layers, and how weights start."""

    hidden_units: tuple[Width, ...] = (1000, 1000)
    """Widths of the hidden layers, in order."""
    activation: Literal["relu", "tanh", "sigmoid"] = "relu"
    """Activation of the hidden layers."""
    kernel_initializer: Literal["lecun_normal_untruncated", "glorot_uniform"] = (
        "lecun_normal_untruncated"
    )
    """How kernels start; biases start at 0."""


def build_model(config: Config, spec: DatasetSpec) -> Any:
    """Builds the network.

    Input shape: (batch, ...), float32; flattened. Output shape: (batch, num_classes), logits.
    Source: the default of two hidden layers of 1000 ReLU units is the network of Chainer's
    train_mnist example.
    """
    import keras

    from tfbench.models.custom_layers.initializers import build_initializer

    initializer = build_initializer(config.kernel_initializer)

    def dense(units: int, activation: str | None) -> Any:
        return keras.layers.Dense(
            units, activation=activation, kernel_initializer=initializer.clone()
        )

    hidden = [dense(units, config.activation) for units in config.hidden_units]
    return keras.Sequential(
        [
            keras.Input(spec.input_shape),
            keras.layers.Flatten(),
            *hidden,
            dense(spec.num_outputs, None),
        ],
        name="mlp",
    )
