"""LeNet-5 as in Chainer's documentation: three sigmoid convolutions and two dense layers."""

from typing import Any, Literal

from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Width, schema


@schema
class Config:
    """Filters, units of the first dense layer, activation and kernel initializer."""

    filters: tuple[Width, Width, Width] = (6, 16, 120)
    """Filters of the three convolutions."""
    dense_units: Width = 84
    """Units of the first dense layer."""
    activation: Literal["sigmoid", "relu", "tanh"] = "sigmoid"
    """Activation of the hidden layers."""
    kernel_initializer: Literal["lecun_normal_untruncated", "glorot_uniform"] = (
        "lecun_normal_untruncated"
    )
    """How kernels start."""


def build_model(config: Config, spec: DatasetSpec) -> Any:
    """Builds conv 5x5 -> max 2 -> conv 5x5 -> max 2 -> conv 4x4 -> dense -> dense.

    It has 74,966 parameters on CIFAR-10. No layer pads. The last convolution is 4x4, not the 5x5 of
    LeCun et al. 1998, so that it leaves one value a filter of a 28x28 image and 2x2 of a 32x32 one.

    Input shape: (batch, 32, 32, 3) or (batch, 28, 28, 1), float32.
    Output shape: (batch, num_classes), logits (the original returns their softmax when it does not
    train: a recipe's `validation_head`).
    Source: Chainer's documentation, "Convolutional Network for Visual Recognition Tasks"; Qiita
    article on CPU and GPU speed with Chainer (user AtomJamesScott).
    """
    import keras

    from tfbench.models.custom_layers.initializers import build_initializer

    initializer = build_initializer(config.kernel_initializer)

    def conv(filters: int, size: int, name: str) -> Any:
        return keras.layers.Conv2D(
            filters,
            size,
            activation=config.activation,
            kernel_initializer=initializer.clone(),
            name=name,
        )

    first, second, third = config.filters
    return keras.Sequential(
        [
            keras.Input(spec.input_shape),
            conv(first, 5, "conv1"),
            keras.layers.MaxPooling2D(2, name="pool1"),
            conv(second, 5, "conv2"),
            keras.layers.MaxPooling2D(2, name="pool2"),
            conv(third, 4, "conv3"),
            keras.layers.Flatten(),
            keras.layers.Dense(
                config.dense_units,
                activation=config.activation,
                kernel_initializer=initializer.clone(),
                name="fc4",
            ),
            keras.layers.Dense(
                spec.num_outputs, kernel_initializer=initializer.clone(), name="fc5"
            ),
        ],
        name="lenet5",
    )
