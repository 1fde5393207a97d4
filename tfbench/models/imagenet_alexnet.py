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
    from keras import layers

    from tfbench.models.custom_layers.normalization import LocalResponseNormalization

    size, padding = _IMAGES[config.first_map]
    sides = spec.input_shape[:2]
    if sides != (size, size):
        raise RecipeError(
            f'model.first_map: "{config.first_map}" needs images of {size}x{size}. '
            f"Received: {'x'.join(map(str, sides))}. Change it, or the size that"
            " [dataset] asks for."
        )

    def start(deviation: float, bias: float) -> dict[str, Any]:
        return {
            "kernel_initializer": keras.initializers.RandomNormal(stddev=deviation),
            "bias_initializer": keras.initializers.Constant(bias),
        }

    def conv(number: int, size: int, deviation: float, bias: float = 0.0, **options: Any) -> Any:
        filters = config.filters[number - 1]
        how = start(deviation, bias) | options
        return layers.Conv2D(filters, size, name=f"conv{number}", **how)

    def dense(units: int, name: str, bias: float, **options: Any) -> Any:
        return layers.Dense(units, name=f"fc{units}{name}", **start(0.01, bias), **options)

    units = config.dense_units
    rectified: dict[str, Any] = {"activation": "relu"}
    inner = rectified | {"padding": "same"}
    return keras.Sequential(
        [
            keras.Input(spec.input_shape),
            layers.ZeroPadding2D((padding, padding)),
            conv(1, 11, 0.01, strides=4),
            LocalResponseNormalization(**_RESPONSE, name="rnorm1"),
            # All maps that are pooled have odd sizes, so that cuda-convnet2's rounding up makes no
            # difference.
            layers.MaxPooling2D(3, 2, name="pool1"),
            layers.ReLU(),
            conv(2, 5, 0.01, bias=1.0, **inner),
            LocalResponseNormalization(**_RESPONSE, name="rnorm2"),
            layers.MaxPooling2D(3, 2, name="pool2"),
            conv(3, 3, 0.03, **inner),
            conv(4, 3, 0.03, bias=1.0, **inner),
            conv(5, 3, 0.03, bias=1.0, padding="same"),
            layers.MaxPooling2D(3, 2, name="pool3"),
            layers.ReLU(),
            layers.Flatten(),
            dense(units, "a", bias=1.0, **rectified),
            layers.Dropout(config.dropout_rate, name="dropout1"),
            dense(units, "b", bias=1.0, **rectified),
            layers.Dropout(config.dropout_rate, name="dropout2"),
            dense(spec.num_outputs, "", bias=-7.0),
        ],
        name="imagenet_alexnet",
    )
