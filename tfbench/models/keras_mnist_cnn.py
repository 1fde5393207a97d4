"""Two convolutions, dropout and a dense layer: the network of Keras's mnist_cnn example."""

from typing import Any

from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Fraction, Width, schema


@schema
class Config:
    """Filters of the convolutions, units of the dense layer and dropout rates."""

    filters: tuple[Width, Width] = (32, 64)
    """Filters of the two convolutions."""
    dense_units: Width = 128
    """Units of the dense layer."""
    dropout_rates: tuple[Fraction, Fraction] = (0.25, 0.5)
    """Rates of the two dropouts."""


def build_model(config: Config, spec: DatasetSpec) -> Any:
    """Builds conv 3x3 -> conv 3x3 -> max pool 2 -> dropout -> dense -> dropout -> dense.

    It has 1,199,882 parameters.

    Input shape: (batch, 28, 28, 1), float32.
    Output shape: (batch, num_classes), logits (the original ends in a softmax; the loss applies it
    here).
    Source: keras-team/keras, examples/mnist_cnn.py.
    """
    import keras
    from keras import layers

    first, second = config.filters
    return keras.Sequential(
        [
            keras.Input(spec.input_shape),
            layers.Conv2D(first, 3, activation="relu"),
            layers.Conv2D(second, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(config.dropout_rates[0]),
            layers.Flatten(),
            layers.Dense(config.dense_units, activation="relu"),
            layers.Dropout(config.dropout_rates[1]),
            layers.Dense(spec.num_outputs),
        ],
        name="keras_mnist_cnn",
    )
