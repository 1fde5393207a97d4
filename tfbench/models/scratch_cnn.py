"""Small convolutional network, first written from scratch with CuPy.

The gradient of its pooling can be chosen.
"""

from typing import Any, Literal

from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import PositiveNumber, Width, schema


@schema
class Config:
    """Sizes, how weights start, and how the pooling's gradient is computed."""

    filters: Width = 10
    """Filters of the convolution."""
    dense_units: Width = 100
    """Units of the first dense layer."""
    weight_width: PositiveNumber = 0.05
    """Deviation that weights and biases start with."""
    pooling_backward: Literal["mask_multiply", "index_scatter", "printed_scatter"] = "mask_multiply"
    """How the gradient of the max pooling is computed.

    "mask_multiply" multiplies the gradient by a mask of where the maxima were (each of several
    equal ones gets all of it), "index_scatter" writes it to the index of the first maximum, and
    "printed_scatter" is what the article's first version does, which is wrong: all four cells of a
    window get the gradient.
    """


def build_model(config: Config, spec: DatasetSpec) -> Any:
    """Builds conv 3x3 -> max 2 -> dense -> dense; 197,210 parameters.

    Input shape: (batch, 28, 28, 1), float32.
    Output shape: (batch, num_classes), logits (the original ends in a softmax; the loss applies it
    here).
    Source: article "Deep Learning Gaiden: GPU programming" with CuPy. That biases start like the
    weights is known from a later copy of its library.
    """
    import keras

    from tfbench.models.custom_layers.pooling import SwitchableMaxPooling2D

    def start() -> dict[str, Any]:
        keys = ("kernel_initializer", "bias_initializer")
        return {key: keras.initializers.RandomNormal(stddev=config.weight_width) for key in keys}

    return keras.Sequential(
        [
            keras.Input(spec.input_shape),
            keras.layers.Conv2D(
                config.filters, 3, padding="same", activation="relu", name="conv", **start()
            ),
            SwitchableMaxPooling2D(2, backward=config.pooling_backward, name="pool"),
            keras.layers.Flatten(),
            keras.layers.Dense(config.dense_units, activation="relu", name="middle", **start()),
            keras.layers.Dense(spec.num_outputs, name="output", **start()),
        ],
        name="scratch_cnn",
    )
