"""Residual network of bottleneck blocks as in Chainer's documentation; ResNet-152 by default."""

from typing import Annotated, Any

import pydantic

from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Count, Width, schema

Blocks = Annotated[Count, pydantic.Field(le=1000)]


@schema
class Config:
    """Blocks of the four stages, width of the first one, and outputs."""

    blocks: tuple[Blocks, Blocks, Blocks, Blocks] = (3, 8, 36, 3)
    """Blocks of the four stages."""
    first_width: Width = 64
    """Channels of the first convolution and within the blocks of the first stage.

    Each stage has twice its predecessor's, and blocks give out four times what they have within.
    """
    num_outputs: Width | None = None
    """Outputs of the last layer; not set: the classes of the data set."""


def build_model(config: Config, spec: DatasetSpec) -> Any:
    """Builds conv 7x7/2 -> max 2 -> four stages of bottleneck blocks -> mean over the map -> dense.

    Input shape: (batch, 32, 32, 3), float32, or larger.
    Output shape: (batch, num_outputs), logits.
    Source: Chainer's documentation, "Convolutional Network for Visual Recognition Tasks", after He
    et al. 2015, who pool over 3x3 where this network pools over 2x2.
    """
    import keras
    from keras import layers

    from tfbench.models.custom_layers.initializers import build_initializer

    inputs = keras.Input(spec.input_shape)
    # Padded by itself: Keras's "same" would put the odd row and column of a stride of 2 on one side
    # only.
    x = layers.ZeroPadding2D(3)(inputs)
    x = _convolve(x, config.first_width, 7, stride=2, name="conv1")
    x = layers.ReLU()(x)
    # "same" covers the whole of a map of odd size, as Chainer does.
    x = layers.MaxPooling2D(2, padding="same", name="pool1")(x)
    for stage, num_blocks in enumerate(config.blocks):
        width = config.first_width * 2**stage
        for block in range(num_blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            x = _add_bottleneck(
                x, width, stride=stride, projects=block == 0, name=f"res{stage + 2}_{block + 1}"
            )
    x = layers.GlobalAveragePooling2D(name="pool5")(x)
    initializer = build_initializer("lecun_normal_untruncated")
    num_outputs = config.num_outputs or spec.num_outputs
    outputs = layers.Dense(num_outputs, kernel_initializer=initializer, name="fc6")(x)
    return keras.Model(inputs, outputs, name="resnet")


def _add_bottleneck(x: Any, width: int, *, stride: int, projects: bool, name: str) -> Any:
    """Adds 1x1 -> 3x3 -> 1x1 and the way around them, a 1x1 where size or channels change.

    The stride is the first 1x1's, as in He et al. 2015; later networks give it to the 3x3.
    """
    from keras import layers

    shortcut = x
    if projects:
        shortcut = _convolve(x, 4 * width, 1, stride=stride, name=f"{name}_projection")
    x = layers.ReLU()(_convolve(x, width, 1, stride=stride, name=f"{name}_conv1"))
    x = layers.ReLU()(_convolve(x, width, 3, name=f"{name}_conv2"))
    x = _convolve(x, 4 * width, 1, name=f"{name}_conv3")
    x = layers.Add(name=f"{name}_add")([x, shortcut])
    return layers.ReLU()(x)


def _convolve(x: Any, filters: int, size: int, *, stride: int = 1, name: str) -> Any:
    """Adds a convolution without bias and the batch normalisation after it."""
    from keras import layers

    from tfbench.models.custom_layers.initializers import build_initializer

    x = layers.Conv2D(
        filters,
        size,
        strides=stride,
        padding="same" if size == 3 else "valid",
        use_bias=False,
        kernel_initializer=build_initializer("he_normal_untruncated"),
        name=name,
    )(x)
    return layers.BatchNormalization(momentum=0.9, epsilon=2e-5, name=f"{name}_bn")(x)
