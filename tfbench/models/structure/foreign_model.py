"""Models that tfbench did not build itself: from a file, or from a function of the user's. Do they fit a run?"""

import re
from typing import TYPE_CHECKING, Any

from tfbench.errors import RecipeError
from tfbench.recipe.dataset_spec import DatasetSpec

if TYPE_CHECKING:
    import keras

_SCALES_BYTES = 0.02  # what scales bytes to some units is less


def fit_to_data(model: Any, spec: DatasetSpec, where: str) -> "keras.Model":
    """Checks that a model takes the data's samples and gives what the loss expects.

    Args:
        model: Any object that is to be a model; a Sequential without input shape gets the data's.
        spec: The data.
        where: What the model is and which key named it, for messages.

    Returns:
        The model; where its input or output is a list or dictionary of one tensor, a model of that tensor.

    Raises:
        RecipeError: It does not, or its layers cannot be seen.
    """
    import keras

    if isinstance(model, keras.Sequential) and not model.built:
        model.build((None, *spec.input_shape))
    inputs, outputs = (getattr(model, name, None) for name in ("inputs", "outputs"))
    if not isinstance(model, keras.Model) or inputs is None or outputs is None:
        raise RecipeError(
            f"{where}: must be a keras.Sequential or a keras.Model(inputs, outputs). Received: {type(model).__name__}. "
            "A model class of your own is one once it is called: inputs = keras.Input(spec.input_shape); "
            "keras.Model(inputs, YourModel()(inputs))."
        )
    if len(inputs) != 1 or len(outputs) != 1:
        raise RecipeError(
            f"{where}: must have one input and one output. Received: {len(inputs)} inputs, {len(outputs)} outputs."
        )
    wanted = spec.target_shape if spec.num_classes is None else (spec.num_classes,)
    if not _accepts(inputs[0].shape, spec.input_shape) or not _accepts(outputs[0].shape, wanted):
        per_class = f", a logit for each of {spec.num_classes} classes" if spec.num_classes else ""
        raise RecipeError(
            f"{where}: must take samples of shape {spec.input_shape} and give {wanted}{per_class}, in batches of any "
            f"size, as the data wants it. Received: {inputs[0].shape} to {outputs[0].shape}, batch size first."
        )
    if isinstance(model, keras.Sequential) or {type(model.input), type(model.output)} == {keras.KerasTensor}:
        return model
    return keras.Model(inputs[0], outputs[0], name=model.name)


def require_precision(model: "keras.Model", where: str) -> None:
    """Checks that layers which brought their precision along have the run's.

    Raises:
        RecipeError: No layer with weights has it.
    """
    import keras

    wanted = keras.config.dtype_policy().name
    layers = model._flatten_layers(include_self=False, recursive=True)
    found = sorted({layer.dtype_policy.name for layer in layers if layer.weights})
    if found and wanted not in found:
        raise RecipeError(
            f"{where}: its layers compute in {', '.join(found)}, the run in {wanted}. "
            f'Set training.precision = "{found[0]}".'
        )


def find_second_scaling(model: "keras.Model", spec: DatasetSpec) -> str | None:
    """Returns what is wrong where a network scales bytes to 0..1 that arrive scaled, or None."""
    import keras

    if spec.input_dtype != "uint8" or spec.input_scale == 1.0:
        return None
    for layer in model._flatten_layers(include_self=False, recursive=True):
        if isinstance(layer, keras.layers.Rescaling) and abs(_largest(layer.scale)) < _SCALES_BYTES:
            return (
                f"the network's layer {layer.name} multiplies inputs by {_largest(layer.scale):.3g}, but this data "
                f"arrives as 0 to {255 * spec.input_scale:g} already. Leave the layer out."
            )
    return None


def _largest(scale: Any) -> float:
    """Returns a number, or the largest of a list of them."""
    return float(max(scale) if isinstance(scale, list | tuple) else scale)


def reason_of(error: Exception) -> str:
    """Returns what Keras complains of in one line; its messages hold colours, whole configs and where it noticed."""
    text = re.sub(r"\x1b\[\d*m", "", str(error)).rpartition("Exception encountered: ")[2]
    lines = [line for line in text.splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith("Exception encountered when calling")] or [""]
    return told[0].strip().partition(" Full object config:")[0][:300]


def _accepts(shape: tuple[int | None, ...], sample_shape: tuple[int, ...]) -> bool:
    """Says whether a shape with the batch size in front is that of batches of any size of such samples."""
    fits = all(size in (None, wanted) for size, wanted in zip(shape[1:], sample_shape, strict=False))
    return fits and shape[0] is None and len(shape) == len(sample_shape) + 1
