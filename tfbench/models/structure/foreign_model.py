"""Models from a file, or from a function of the user's: whether they fit a run."""

import contextlib
import functools
import hashlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np

from tfbench.errors import RecipeError
from tfbench.recipe.conflicts import LABELS_HINT
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import Precision

Shape = tuple[int | None, ...]
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
        place = "before model.save" if where.startswith("model.file") else "in it"
        setting = where.replace(": ", "=", 1)
        if where.startswith("model.name"):
            setting += " --allow-code"
        raise RecipeError(
            f"{where}: is not compiled, and the recipe has no loss for this data. Call"
            f" model.compile(optimizer, loss) {place}, or name a recipe that has data: tfbench run"
            f" mnist_mlp --set {setting}. If targets are one-hot labels without weights,"
            " y.argmax(axis=1) makes them what the recipe's loss takes."
        )
    inputs = getattr(model, "inputs", None)
    outputs = getattr(model, "outputs", None)
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
    _require_shapes(inputs[0].shape, outputs[0].shape, spec, where)
    _require_batch_size(model, spec, where)
    if isinstance(model, keras.Sequential):
        return model
    if type(model.input) is type(model.output) is keras.KerasTensor:
        return model
    return keras.Model(inputs[0], outputs[0], name=model.name)


def _require_shapes(inputs: Shape, outputs: Shape, spec: DatasetSpec, where: str) -> None:
    """Raises RecipeError if a network does not take the data's samples, or gives something else."""
    takes_samples = _accepts(inputs, spec.input_shape) or _accepts((*inputs, 1), spec.input_shape)
    if takes_samples and _accepts(outputs, spec.output_shape):
        return
    per_class = ""
    hint = f" {LABELS_HINT}"
    if spec.num_classes:
        per_class = f", a logit for each of {spec.num_classes} classes"
        hint = ""
    raise RecipeError(
        f"{where}: must take samples of shape {spec.input_shape} and give {spec.output_shape}"
        f"{per_class}, as the data wants it, or come compiled with a loss of its own. Received:"
        f" {inputs} to {outputs}, batch size first.{hint}"
    )


def digest_of(path: Path) -> str:
    """Returns what identifies the contents of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def require_precision(model: Any, where: str) -> None:
    """Checks that layers which brought their precision along have the run's.

    Raises:
        RecipeError: No layer with weights has it.
    """
    import keras

    of_run = keras.config.dtype_policy().name
    layers = model._flatten_layers(include_self=False, recursive=True)
    # A quantized layer, "int8_from_float32", computes with others in the precision behind it.
    names = [layer.dtype_policy.name for layer in layers if layer.weights]
    of_layers = sorted({name.rpartition("_from_")[2] for name in names})
    if not of_layers or of_run in of_layers:
        return
    possible = [name for name in of_layers if name in get_args(Precision)]
    remedy = f"Build them in {of_run}: keras.config.set_dtype_policy."
    if possible:
        remedy = f"Use --set training.precision={possible[0]}."
    raise RecipeError(
        f"{where}: its layers compute in {', '.join(of_layers)}, the run in {of_run}. {remedy}"
    )


def find_second_scaling(model: Any, spec: DatasetSpec) -> str | None:
    """Returns what is wrong where a network scales bytes to 0..1 that arrive scaled, or None."""
    import keras

    if spec.input_dtype != "uint8" or spec.input_scale == 1.0:
        return None
    for layer in model._flatten_layers(include_self=False, recursive=True):
        if not isinstance(layer, keras.layers.Rescaling):
            continue
        scale = np.max(layer.scale)
        if abs(scale) < _SCALES_BYTES:
            return (
                f"the network's layer {layer.name} multiplies inputs by {scale:.3g}, but this"
                f" data arrives as 0 to {255 * spec.input_scale:g} already. Leave the layer out."
            )
    return None


def reason_of(error: Exception) -> str:
    """Returns what Keras complains of in one line.

    Its messages hold colours, whole configs and where it noticed.
    """
    without_colours = re.sub(r"\x1b\[\d*m", "", str(error))
    text = without_colours.rpartition("Exception encountered: ")[2]
    if "safe_mode=False" in text:  # which nobody is to pass
        return "It holds code, and files must not run any."
    function = re.search(r"Could not locate function '([^'\n]{1,100})'", text)
    if function:
        return f"It calls the function {function[1]}, which neither the file nor this Keras holds."
    for line in text.splitlines():
        if line.strip() and not line.startswith("Exception encountered when calling"):
            reason = line.strip().partition(" Full object config:")[0]
            return reason[:300]
    return ""


def _accepts(shape: Shape, sample_shape: tuple[int, ...]) -> bool:
    """Says whether a shape with the batch size in front is that of batches of such samples."""
    if len(shape) != len(sample_shape) + 1:
        return False
    pairs = zip(shape[1:], sample_shape, strict=True)
    return all(size in (None, of_sample) for size, of_sample in pairs)


def _require_batch_size(model: Any, spec: DatasetSpec, where: str) -> None:
    """Raises RecipeError if a network cannot take batches of the recipe's size.

    A fixed batch size must also divide the validation and test samples.
    """
    inputs = getattr(model, "inputs", None) or ()
    sizes = {tensor.shape[0] for tensor in inputs if tensor.shape}
    sizes.discard(None)
    batch_size = spec.per_replica_batch_size
    if not sizes or batch_size is None:
        return
    if len(sizes) > 1:
        received = ", ".join(map(str, sorted(sizes)))
        raise RecipeError(f"{where}: inputs must have one batch size. Received: {received}.")
    size = sizes.pop()
    if size != batch_size:
        raise RecipeError(
            f"{where}: takes batches of {size} samples only. Received: {batch_size} per replica."
            f" Use --global-batch-size {size * spec.num_replicas}, or keras.Input(shape) without a"
            " batch size."
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
    """Says whether a model's training step is its own, which may not be counted and taken apart."""
    import keras

    # Of its class: backends replace functions of single models.
    names = ("train_step", "make_train_function")
    return any(getattr(type(model), name) is not getattr(keras.Model, name) for name in names)


def is_built(model: Any) -> bool:
    """Says whether a model has all of its weights, apart from those that its first step makes."""
    layers = model._flatten_layers(include_self=False)
    return bool(model.weights) and all(layer.built for layer in layers)


def comes_compiled(model: Any) -> bool:
    """Says whether a model in training came compiled, with its own loss and optimizer."""
    return getattr(model, "_comes_compiled", False)


@contextlib.contextmanager
def compilers_noted() -> Iterator[None]:
    """Notes of each model that is compiled in the block whether Keras chose its compiler.

    Keras keeps what it chose, and not that it did.
    """
    from keras.src.trainers.trainer import Trainer

    compile_model = Trainer.compile
    signature = inspect.signature(compile_model)

    def compile_and_note(model: Any, *arguments: Any, **options: Any) -> None:
        compile_model(model, *arguments, **options)
        given = signature.bind(model, *arguments, **options).arguments
        model._chose_compiler_itself = given.get("jit_compile", "auto") == "auto"

    Trainer.compile = compile_and_note
    try:
        yield
    finally:
        Trainer.compile = compile_model


def chose_compiler_itself(model: Any) -> bool:
    """Says whether a model was compiled with `jit_compile="auto"`, as is Keras's default.

    A file holds what Keras chose where it was saved, and not whether it did.
    """
    return getattr(model, "_chose_compiler_itself", True)


def hand_over_as_fit(model: Any, arrays: tuple[Any, ...]) -> None:
    """Has steps of its own get samples without targets as `fit(x)` hands them over: not in a tuple.

    Args:
        model: Compiled.
        arrays: Of the data, as a batch holds them.
    """
    if len(arrays) != 1 or isinstance(arrays[0], tuple):
        return
    for name in ("train_step", "test_step"):
        if is_own(model, name):
            setattr(model, name, functools.partial(_call_without_tuple, getattr(model, name)))


def _call_without_tuple(step: Callable[..., Any], *arguments: Any) -> Any:
    *state, batch = arguments
    if isinstance(batch, tuple) and len(batch) == 1:  # of tfbench's making
        (batch,) = batch
    return step(*state, batch)


def can_evaluate(model: Any) -> bool:
    """Says whether a compiled model has a loss to validate by, given or in a step of its own."""
    if model.loss is not None:
        return True
    return is_own(model, "test_step") or is_own(model, "compute_loss")
