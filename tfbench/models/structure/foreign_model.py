"""Models that tfbench did not build itself: from a file, or from a function of the user's.

Do they fit a run?
"""

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np

from tfbench.errors import RecipeError
from tfbench.recipe.conflicts import LABELS_HINT
from tfbench.recipe.dataset_spec import DatasetSpec

_SCALES_BYTES = 0.02  # what scales bytes to some units is less


def fit_to_data(model: Any, spec: DatasetSpec, where: str) -> Any:
    """Checks that a model takes the data's samples and gives what the loss expects.

    Args:
        model: Any object that is to be a model; a Sequential without input shape gets the data's.
        spec: The data.
        where: What the model is and which key named it, for messages.

    Returns:
        The model, as it is where it comes compiled; else, where its input or output is a list or
        dictionary of one tensor, a model of that tensor.

    Raises:
        RecipeError: It does not, or its layers cannot be seen.
    """
    import keras

    if isinstance(model, keras.Sequential) and not model.built and not spec.is_structured:
        model.build((None, *spec.input_shape))
    if isinstance(model, keras.Model) and model.compiled:
        _require_batch_size(model, spec, where)
        return model
    if spec.is_structured:
        other = (
            "name a recipe that has data: tfbench run mnist_mlp --set"
            f" {where.replace(': ', '=', 1)}"
        )
        raise RecipeError(
            f"{where}: is not compiled, and the recipe has no loss for this data. Call"
            " model.compile(optimizer, loss)"
            f" {'before model.save' if where.startswith('model.file') else 'in it'}, or {other}. If"
            " targets are one-hot labels without weights, y.argmax(axis=1) makes them what the"
            " recipe's loss takes."
        )
    inputs, outputs = (getattr(model, name, None) for name in ("inputs", "outputs"))
    if not isinstance(model, keras.Model) or inputs is None or outputs is None:
        raise RecipeError(
            f"{where}: must be a keras.Sequential or a keras.Model(inputs, outputs). Received:"
            f" {type(model).__name__}. A model class of your own must come compiled, or be called:"
            " inputs = keras.Input(spec.input_shape); keras.Model(inputs, YourModel()(inputs))."
        )
    if len(inputs) != 1 or len(outputs) != 1:
        raise RecipeError(
            f"{where}: must have one input and one output, or come compiled. Received:"
            f" {len(inputs)} inputs, {len(outputs)} outputs."
        )
    wanted = spec.output_shape
    fits_input = _accepts(inputs[0].shape, spec.input_shape) or _accepts(
        (*inputs[0].shape, 1), spec.input_shape
    )
    if not fits_input or not _accepts(outputs[0].shape, wanted):
        per_class = f", a logit for each of {spec.num_classes} classes" if spec.num_classes else ""
        hint = "" if spec.num_classes else f" {LABELS_HINT}"
        raise RecipeError(
            f"{where}: must take samples of shape {spec.input_shape} and give {wanted}{per_class},"
            " as the data wants it, or come compiled with a loss of its own. Received:"
            f" {inputs[0].shape} to {outputs[0].shape}, batch size first.{hint}"
        )
    _require_batch_size(model, spec, where)
    if isinstance(model, keras.Sequential) or {type(model.input), type(model.output)} == {
        keras.KerasTensor
    }:
        return model
    return keras.Model(inputs[0], outputs[0], name=model.name)


def digest_of(path: Path) -> str:
    """Returns what a file is told by."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def require_precision(model: Any, where: str) -> None:
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


def find_second_scaling(model: Any, spec: DatasetSpec) -> str | None:
    """Returns what is wrong where a network scales bytes to 0..1 that arrive scaled, or None."""
    import keras

    if spec.input_dtype != "uint8" or spec.input_scale == 1.0:
        return None
    for layer in model._flatten_layers(include_self=False, recursive=True):
        largest = np.max(layer.scale) if isinstance(layer, keras.layers.Rescaling) else np.inf
        if abs(largest) < _SCALES_BYTES:
            return (
                f"the network's layer {layer.name} multiplies inputs by {largest:.3g}, but this"
                f" data arrives as 0 to {255 * spec.input_scale:g} already. Leave the layer out."
            )
    return None


def reason_of(error: Exception) -> str:
    """Returns what Keras complains of in one line.

    Its messages hold colours, whole configs and where it noticed.
    """
    text = re.sub(r"\x1b\[\d*m", "", str(error)).rpartition("Exception encountered: ")[2]
    if "safe_mode=False" in text:  # which nobody is to pass
        return "It holds code, and files must not run any."
    lines = [line for line in text.splitlines() if line.strip()]
    told = [
        line for line in lines if not line.startswith("Exception encountered when calling")
    ] or [""]
    return told[0].strip().partition(" Full object config:")[0][:300]


def _accepts(shape: tuple[int | None, ...], sample_shape: tuple[int, ...]) -> bool:
    """Says whether a shape with the batch size in front is that of batches of such samples."""
    fits = all(
        size in (None, wanted) for size, wanted in zip(shape[1:], sample_shape, strict=False)
    )
    return fits and len(shape) == len(sample_shape) + 1


def _require_batch_size(model: Any, spec: DatasetSpec, where: str) -> None:
    """Raises RecipeError if a network cannot take batches of the recipe's size.

    A fixed batch size must also divide the validation and test samples.
    """
    sizes = {tensor.shape[0] for tensor in getattr(model, "inputs", None) or () if tensor.shape} - {
        None
    }
    batch_size = spec.per_replica_batch_size
    if not sizes or batch_size is None:
        return
    (size,) = sizes if len(sizes) == 1 else (None,)
    if size != batch_size:
        raise RecipeError(
            f"{where}: takes batches of {size} samples only. Received: {batch_size} per replica."
            f" Use --global-batch-size {size} (per replica), or keras.Input(shape) without a batch"
            " size."
        )
    if spec.validation_samples % size or spec.test_samples % size:
        raise RecipeError(
            f"{where}: takes batches of {size} samples only, which do not divide the"
            f" {spec.validation_samples} validation samples. Use keras.Input(shape) without a batch"
            " size, or another number of samples."
        )


def register_layers() -> None:
    """Makes the layers of tfbench known to Keras."""
    # Importing a module registers its layers.
    from tfbench.models.custom_layers import convolutions, normalization, pooling  # noqa: F401


def is_own(model: Any, name: str) -> bool:
    """Says whether a model does something otherwise than Keras's models do."""
    import keras

    return getattr(getattr(model, name), "__func__", None) is not getattr(keras.Model, name)


def has_own_step(model: Any) -> bool:
    """Says whether a model's training step is its own.

    Keras's may be counted and taken apart, this one not.
    """
    import keras

    # Of its class: backends replace functions of single models.
    names = ("train_step", "make_train_function")
    return any(getattr(type(model), name) is not getattr(keras.Model, name) for name in names)


def comes_compiled(model: Any) -> bool:
    """Says whether a model in training brought its own loss and optimizer.

    Such a model came compiled.
    """
    return getattr(model, "_comes_compiled", False)


def can_evaluate(model: Any) -> bool:
    """Says whether a compiled model has a loss to be validated by.

    One whose own step computes it may have none.
    """
    return model.loss is not None or any(
        is_own(model, name) for name in ("test_step", "compute_loss")
    )
