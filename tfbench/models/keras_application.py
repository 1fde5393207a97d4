"""A published architecture, as Keras has it: any of keras.applications, with fresh weights."""

import inspect
from typing import TYPE_CHECKING, Literal

from tfbench.errors import RecipeError
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import schema

if TYPE_CHECKING:
    import keras

# Written out, so that a recipe is checked without Keras; a test compares it with the installed Keras.
_NAMES = """
ConvNeXtBase ConvNeXtLarge ConvNeXtSmall ConvNeXtTiny ConvNeXtXLarge DenseNet121 DenseNet169 DenseNet201
EfficientNetB0 EfficientNetB1 EfficientNetB2 EfficientNetB3 EfficientNetB4 EfficientNetB5 EfficientNetB6
EfficientNetB7 EfficientNetV2B0 EfficientNetV2B1 EfficientNetV2B2 EfficientNetV2B3 EfficientNetV2L
EfficientNetV2M EfficientNetV2S InceptionResNetV2 InceptionV3 MobileNet MobileNetV2 MobileNetV3Large
MobileNetV3Small NASNetLarge NASNetMobile ResNet50 ResNet101 ResNet152 ResNet50V2 ResNet101V2 ResNet152V2
VGG16 VGG19 Xception
"""
if TYPE_CHECKING:
    Architecture = str
else:
    Architecture = Literal[tuple(_NAMES.split())]


@schema
class Config:
    """Which architecture."""

    architecture: Architecture
    """Name of the function in keras.applications that builds the network."""


def build_model(config: Config, spec: DatasetSpec) -> "keras.Model":
    """Builds the architecture for the data's images and classes; nothing is downloaded.

    Inputs come as the data set scales them: an architecture's own scaling of pixels is left out where Keras lets it
    be (EfficientNetB0 to B7 scale once more; the batch normalisation after their first convolution makes up for it).

    Input shape: (batch, height, width, channels), float32.
    Output shape: (batch, num_classes), logits.
    Source: keras.applications, which names the paper of each.

    Raises:
        RecipeError: The architecture cannot take such inputs.
    """
    import keras

    from tfbench.models.structure import foreign_model

    where = f"model.architecture: {config.architecture}"
    if len(spec.input_shape) != 3 or spec.num_classes is None:
        kind = "no classes" if spec.num_classes is None else f"{spec.num_classes} classes"
        raise RecipeError(
            f"{where} needs images, (height, width, channels), with classes. "
            f"Received: data of shape {spec.input_shape} with {kind}."
        )
    build = getattr(keras.applications, config.architecture)
    without_scaling = {"include_preprocessing": False}
    try:
        return build(
            weights=None,
            input_shape=spec.input_shape,
            classes=spec.num_classes,
            classifier_activation=None,
            **(without_scaling if without_scaling.keys() <= inspect.signature(build).parameters.keys() else {}),
        )
    except ValueError as error:
        raise RecipeError(
            f"{where} does not take the data's images of shape {spec.input_shape}: {foreign_model.reason_of(error)}"
        ) from error
