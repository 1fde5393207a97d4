"""A published architecture, as Keras has it: any of keras.applications, with fresh weights."""

import inspect
from typing import Any

from tfbench.errors import RecipeError, did_you_mean
from tfbench.models.structure import foreign_model
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Text, schema


@schema
class Config:
    """Which architecture."""

    architecture: Text
    """Name of the function in keras.applications that builds the network, such as ResNet50."""


def build_model(config: Config, spec: DatasetSpec) -> Any:
    """Builds the architecture for the data's images and classes; nothing is downloaded.

    Inputs come as the data set scales them: an architecture's own scaling of pixels is left out
    where Keras lets it be (EfficientNetB0 to B7 scale once more; the batch normalisation after
    their first convolution makes up for it).

    Input shape: (batch, height, width, channels), float32.
    Output shape: (batch, num_classes), logits.
    Source: keras.applications, which names the paper of each.

    Raises:
        RecipeError: Keras has no such architecture, or it cannot take such inputs.
    """
    import keras

    where = f"model.architecture: {config.architecture}"
    builders = {
        name: value for name, value in vars(keras.applications).items() if inspect.isfunction(value)
    }
    build = builders.get(config.architecture)
    if build is None:
        raise RecipeError(
            f"{where}: keras.applications has none of this"
            f" name.{did_you_mean(config.architecture, builders)}"
        )
    options = {}
    if "include_preprocessing" in inspect.signature(build).parameters:
        options["include_preprocessing"] = False
    try:
        return build(
            weights=None,
            input_shape=spec.input_shape,
            classes=spec.num_outputs,
            classifier_activation=None,
            **options,
        )
    except (ValueError, IndexError) as error:
        raise RecipeError(
            f"{where} does not take the data's samples of shape {spec.input_shape}:"
            f" {foreign_model.reason_of(error)}"
        ) from error
