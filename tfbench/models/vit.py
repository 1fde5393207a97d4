"""Vision transformer: blocks of attention and MLP over the patches of an image."""

import math
from typing import Any

from tfbench.errors import RecipeError
from tfbench.models.custom_layers.transformer import TransformerConfig, add_blocks, add_positions
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Width, schema


@schema
class Config(TransformerConfig):
    """Size of the patches and of the transformer."""

    patch_size: Width = 4
    """Side of a patch in pixels; must divide the sides of an image."""


def build_model(config: Config, spec: DatasetSpec) -> Any:
    """Builds dense layer of each patch -> positions -> blocks -> mean over the patches -> dense.

    Input shape: (batch, 32, 32, 3), float32, or other images.
    Output shape: (batch, num_classes), logits.
    Source: Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words"; the mean over the patches,
    instead of an extra class token, is that of Beyer et al. 2022, "Better plain ViT baselines for
    ImageNet-1k".

    Raises:
        RecipeError: The samples are no images, or not of whole patches.
    """
    import keras

    size = config.patch_size
    sides = spec.input_shape[:2]
    if len(spec.input_shape) != 3 or any(side % size for side in sides):
        raise RecipeError(
            f"model.patch_size: must divide the sides of an image. Received: {size} for samples of "
            f"{'x'.join(map(str, spec.input_shape))}."
        )
    inputs = keras.Input(spec.input_shape)
    x = keras.layers.Conv2D(config.width, size, strides=size, name="patches")(inputs)
    x = keras.layers.Reshape((math.prod(sides) // size**2, config.width))(x)
    x = add_blocks(add_positions(x), config, is_causal=False)
    x = keras.layers.GlobalAveragePooling1D(name="mean")(x)
    outputs = keras.layers.Dense(spec.num_outputs, name="logits")(x)
    return keras.Model(inputs, outputs, name="vit")
