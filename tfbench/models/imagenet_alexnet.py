"""ImageNet network of cuda-convnet2, AlexNet in one tower, with about 75 million parameters."""

from typing import Any, Literal

from tfbench.errors import RecipeError
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Fraction, Width, schema

# Rows and columns of zeros before and after an image of this size. 259 = 62 x 4 + 11 gives a first
# map of 63, and 227 = 54 x 4 + 11 one of 55; cuda-convnet2 lets the last window hang over the edge,
# which zeros after it stand for.
_IMAGES = {"63_padded": (224, (17, 18)), "63_uncropped": (256, (0, 3)), "55_cropped": (224, (0, 3))}
# cuda-convnet2 divides its scale of 1e-4 by the size, and calls the bias minDiv.
_RESPONSE: dict[str, Any] = {"size": 5, "bias": 2.0, "alpha": 2e-5, "beta": 0.75}


@schema
class Config:
    """Size of the first map, filters, units of the dense layers, and the rate of their dropout."""

    first_map: Literal["63_padded", "63_uncropped", "55_cropped"] = "63_padded"
    """Size of the first map.

    The slides' table has images of 224x224 and a first map of 63x63, which do not go together in
    cuda-convnet2. "63_padded" widens the image with zeros, so that every number of the table holds;
    "63_uncropped" takes images of 256x256; "55_cropped" is what cuda-convnet2 makes of 224x224
    (61,100,840 parameters).
    """
    filters: tuple[Width, Width, Width, Width, Width] = (64, 192, 384, 256, 256)
    """Filters of the five convolutions."""
    dense_units: Width = 4096
    """Units of each of the two hidden dense layers."""
    dropout_rate: Fraction = 0.5
    """Rate of the dropout of the dense layers."""


def build_model(config: Config, spec: DatasetSpec) -> Any:
    """Builds five convolutions, two of them with response normalisation, and three dense layers.

    Of its 74,732,328 parameters, 74,721,984 are the slides' weights and 10,344 biases. Where no
    ReLU follows a convolution at once, it follows the pooling.

    Input shape: (batch, 224, 224, 3), or (batch, 256, 256, 3) with "63_uncropped", float32.
    Output shape: (batch, num_classes), logits.
    Source: slides "CUDA ConvNet and Deep Learning with MultiGPU" (Cross Compass, 2014-09-05); order
    of the layers, normalisation and initial values from cuda-convnet2's
    layers/layers-imagenet-1gpu.cfg and layer.py.

    Raises:
        RecipeError: The data set's images have another size than `first_map` needs.
    """
    import keras

    from tfbench.models.custom_layers.normalization import LocalResponseNormalization

    size, padding = _IMAGES[config.first_map]
    sides = spec.input_shape[:2]
    if sides != (size, size):
        raise RecipeError(
            f'model.first_map: "{config.first_map}" needs images of {size}x{size}. '
            f"Received: {'x'.join(map(str, sides))}. Change it, or the size that"
            " [dataset] asks for."
        )
    conv1, conv2, conv3, conv4, conv5 = config.filters
    units = config.dense_units
    num_classes = spec.num_outputs
    return keras.Sequential(
        [
            keras.Input(spec.input_shape),
            keras.layers.ZeroPadding2D((padding, padding)),
            keras.layers.Conv2D(conv1, 11, strides=4, name="conv1", **_start(0.01)),
            LocalResponseNormalization(**_RESPONSE, name="rnorm1"),
            # All maps that are pooled have odd sizes, so that cuda-convnet2's rounding up makes no
            # difference.
            keras.layers.MaxPooling2D(3, 2, name="pool1"),
            keras.layers.ReLU(),
            keras.layers.Conv2D(
                conv2, 5, padding="same", name="conv2", activation="relu", **_start(0.01, bias=1.0)
            ),
            LocalResponseNormalization(**_RESPONSE, name="rnorm2"),
            keras.layers.MaxPooling2D(3, 2, name="pool2"),
            keras.layers.Conv2D(
                conv3, 3, padding="same", name="conv3", activation="relu", **_start(0.03)
            ),
            keras.layers.Conv2D(
                conv4, 3, padding="same", name="conv4", activation="relu", **_start(0.03, bias=1.0)
            ),
            keras.layers.Conv2D(conv5, 3, padding="same", name="conv5", **_start(0.03, bias=1.0)),
            keras.layers.MaxPooling2D(3, 2, name="pool3"),
            keras.layers.ReLU(),
            keras.layers.Flatten(),
            keras.layers.Dense(
                units, name=f"fc{units}a", activation="relu", **_start(0.01, bias=1.0)
            ),
            keras.layers.Dropout(config.dropout_rate, name="dropout1"),
            keras.layers.Dense(
                units, name=f"fc{units}b", activation="relu", **_start(0.01, bias=1.0)
            ),
            keras.layers.Dropout(config.dropout_rate, name="dropout2"),
            keras.layers.Dense(num_classes, name=f"fc{num_classes}", **_start(0.01, bias=-7.0)),
        ],
        name="imagenet_alexnet",
    )


def _start(deviation: float, *, bias: float = 0.0) -> dict[str, Any]:
    import keras

    return {
        "kernel_initializer": keras.initializers.RandomNormal(stddev=deviation),
        "bias_initializer": keras.initializers.Constant(bias),
    }
