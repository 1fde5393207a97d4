"""CIFAR-10 network of cuda-convnet.

It has two convolutions, two locally connected layers and one dense layer.
"""

from typing import Any

from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Width, schema

# That the kernels start with, from conv1 to the dense layer.
_DEVIATIONS = (1e-4, 0.01, 0.04, 0.04, 0.01)


@schema
class Config:
    """Filters, and the size of a kernel."""

    filters: tuple[Width, Width, Width, Width] = (64, 64, 32, 32)
    """Filters of conv1, conv2, local3 and local4."""
    conv2_kernel: Width = 3
    """Height and width of conv2's kernel: the slides' table has 3, which its sums confirm.

    Cuda-convnet's layers-conv-local-13pct.cfg has 5.
    """


def build_model(config: Config, spec: DatasetSpec) -> Any:
    """Builds conv 5x5 -> max 3/2 -> conv 3x3 -> max 3/2 -> local 3x3 -> local 3x3 -> dense.

    Of its 1,050,954 parameters, 1,048,512 are the slides' weights and 2,442 biases, one per
    position and filter in the local layers.

    Input shape: (batch, 24, 24, 3), float32, a crop of the 32x32 image.
    Output shape: (batch, num_classes), logits.
    Source: slides "CUDA ConvNet and Deep Learning with MultiGPU" (Cross Compass, 2014-09-05);
    deviations and paddings from cuda-convnet's layers-conv-local-13pct.cfg and layer parameters.
    """
    import keras

    from tfbench.models.custom_layers.convolutions import LocallyConnected2D
    from tfbench.models.custom_layers.pooling import CeilMaxPooling2D

    conv1, conv2, local3, local4 = config.filters
    normal = [keras.initializers.RandomNormal(stddev=deviation) for deviation in _DEVIATIONS]
    as_in_all: dict[str, Any] = {"padding": "same", "activation": "relu"}
    num_classes = spec.num_outputs
    return keras.Sequential(
        [
            keras.Input(spec.input_shape),
            keras.layers.Conv2D(conv1, 5, kernel_initializer=normal[0], name="conv1", **as_in_all),
            CeilMaxPooling2D(3, 2, name="pool1"),
            keras.layers.Conv2D(
                conv2, config.conv2_kernel, kernel_initializer=normal[1], name="conv2", **as_in_all
            ),
            CeilMaxPooling2D(3, 2, name="pool2"),
            LocallyConnected2D(local3, 3, "relu", normal[2], name="local3"),
            LocallyConnected2D(local4, 3, "relu", normal[3], name="local4"),
            keras.layers.Flatten(),
            keras.layers.Dense(num_classes, kernel_initializer=normal[4], name=f"fc{num_classes}"),
        ],
        name="cifar10_convnet",
    )
