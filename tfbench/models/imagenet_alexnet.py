"""ImageNet network of cuda-convnet2, AlexNet in one tower, with about 75 million parameters."""

from typing import TYPE_CHECKING, Any, Literal

from tfbench.errors import RecipeError
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Fraction, Width, schema

if TYPE_CHECKING:
    import keras

# Rows and columns of zeros before and after an image of this size. 259 = 62 x 4 + 11 gives a first map of 63, and
# 227 = 54 x 4 + 11 one of 55; cuda-convnet2 lets the last window hang over the edge, which zeros after it stand for.
_IMAGES = {"63_padded": (224, (17, 18)), "63_uncropped": (256, (0, 3)), "55_cropped": (224, (0, 3))}


@schema
class Config:
    """Size of the first map, filters, units of the dense layers, and the rate of their dropout."""

    first_map: Literal["63_padded", "63_uncropped", "55_cropped"] = "63_padded"
    """Size of the first map. The slides' table has images of 224x224 and a first map of 63x63, which do not go together
    in cuda-convnet2. "63_padded" widens the image with zeros, so that every number of the table holds; "63_uncropped"
    takes images of 256x256; "55_cropped" is what cuda-convnet2 makes of 224x224 (61,100,840 parameters)."""
    filters: tuple[Width, Width, Width, Width, Width] = (64, 192, 384, 256, 256)
    """Filters of the five convolutions."""
    dense_units: Width = 4096
    """Units of each of the two hidden dense layers."""
    dropout_rate: Fraction = 0.5
    """Rate of the dropout of the dense layers."""


def build_model(config: Config, spec: DatasetSpec) -> "keras.Model":
    """Builds five convolutions, two of them with response normalisation, and three dense layers; 74,732,328 parameters.

    Of these, 74,721,984 are the slides' weights and 10,344 biases. Where no ReLU follows a convolution at once, it
    follows the pooling.

    Input shape: (batch, 224, 224, 3), or (batch, 256, 256, 3) with "63_uncropped", float32.
    Output shape: (batch, num_classes), logits.
    Source: slides "CUDA ConvNet and Deep Learning with MultiGPU" (Cross Compass, 2014-09-05); order of the layers,
        normalisation and initial values from cuda-convnet2's layers/layers-imagenet-1gpu.cfg and layer.py.

    Raises:
        RecipeError: The data set's images have another size than `first_map` needs.
    """
    import keras

    size, padding = _IMAGES[config.first_map]
    if spec.input_shape[:2] != (size, size):
        raise RecipeError(
            f'model.first_map: "{config.first_map}" needs images of {size}x{size}. '
            f"Received: {'x'.join(map(str, spec.input_shape[:2]))}. Change it, or the size that [dataset] asks for."
        )
    conv1, conv2, conv3, conv4, conv5 = config.filters
    num_classes = spec.num_classes or 1
    return keras.Sequential(
        [
            keras.Input(spec.input_shape),
            keras.layers.ZeroPadding2D((padding, padding)),
            _conv(conv1, 11, strides=4, padding="valid", deviation=0.01, name="conv1"),
            _normalize("rnorm1"),
            # All maps that are pooled have odd sizes, so that cuda-convnet2's rounding up makes no difference.
            keras.layers.MaxPooling2D(3, 2, name="pool1"),
            keras.layers.ReLU(),
            _conv(conv2, 5, deviation=0.01, bias=1.0, activation="relu", name="conv2"),
            _normalize("rnorm2"),
            keras.layers.MaxPooling2D(3, 2, name="pool2"),
            _conv(conv3, 3, deviation=0.03, activation="relu", name="conv3"),
            _conv(conv4, 3, deviation=0.03, bias=1.0, activation="relu", name="conv4"),
            _conv(conv5, 3, deviation=0.03, bias=1.0, name="conv5"),
            keras.layers.MaxPooling2D(3, 2, name="pool3"),
            keras.layers.ReLU(),
            keras.layers.Flatten(),
            _dense(config.dense_units, bias=1.0, activation="relu", name=f"fc{config.dense_units}a"),
            keras.layers.Dropout(config.dropout_rate, name="dropout1"),
            _dense(config.dense_units, bias=1.0, activation="relu", name=f"fc{config.dense_units}b"),
            keras.layers.Dropout(config.dropout_rate, name="dropout2"),
            _dense(num_classes, bias=-7.0, name=f"fc{num_classes}"),
        ],
        name="imagenet_alexnet",
    )


def _conv(filters: int, size: int, *, deviation: float, bias: float = 0.0, **arguments: Any) -> "keras.layers.Layer":
    import keras

    return keras.layers.Conv2D(
        filters,
        size,
        kernel_initializer=keras.initializers.RandomNormal(stddev=deviation),
        bias_initializer=keras.initializers.Constant(bias),
        **{"padding": "same"} | arguments,
    )


def _dense(units: int, *, bias: float, **arguments: Any) -> "keras.layers.Layer":
    import keras

    return keras.layers.Dense(
        units,
        kernel_initializer=keras.initializers.RandomNormal(stddev=0.01),
        bias_initializer=keras.initializers.Constant(bias),
        **arguments,
    )


def _normalize(name: str) -> "keras.layers.Layer":
    from tfbench.models.layers.local_response_normalization import LocalResponseNormalization

    # cuda-convnet2 divides its scale of 1e-4 by the size, and calls the bias minDiv.
    return LocalResponseNormalization(size=5, bias=2.0, alpha=2e-5, beta=0.75, name=name)
