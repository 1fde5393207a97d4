"""What holds for the whole measuring process: Keras as it is imported, and what the framework and Keras are set to."""

from tfbench import backends
from tfbench.errors import DeviceError, MeasurementError
from tfbench.machine.devices import describe_lack
from tfbench.machine.lean_import import NEEDED_BY, NOT_NEEDED, import_without, left_out
from tfbench.recipe import registry
from tfbench.recipe.sections import Recipe, TrainingConfig


def import_keras(recipe: Recipe) -> None:
    """Imports Keras, wholly where a model or a data set is code of the user's own, which may use any part of it.

    Raises:
        DeviceError: The backend of the recipe is not installed.
        MeasurementError: Keras uses another one.
    """
    backend = recipe.training.backend
    try:
        import_without("keras", () if _has_code(recipe) else set(NOT_NEEDED) - NEEDED_BY.get(backend, set()))
    except ModuleNotFoundError as error:
        if error.name != backend:
            raise
        raise DeviceError(describe_lack(backend)) from error
    import keras

    if keras.backend.backend() != backend:
        raise MeasurementError(f"Keras trains with {keras.backend.backend()}, asked for was {backend}.")


def _has_code(recipe: Recipe) -> bool:
    """Whether a part of the recipe is code of the user's own."""
    return any(registry.is_code(section.name) for section in (recipe.model, recipe.dataset))


def set_process_wide(recipe: Recipe) -> None:
    """Sets what the framework only takes before its first operation, and Keras before the first layer.

    Keras sets TensorFlow's seed, too, and imports it for that on every backend, which takes seconds and 300 MiB. On
    another one, it does as where TensorFlow is not installed, unless code or a network file of the user's may need it.
    """
    import keras

    training = recipe.training
    backends.current().set_process_wide(training)
    finds_tensorflow = _has_code(recipe) or recipe.model.name == "keras_file"
    with left_out(() if finds_tensorflow else {"tensorflow"} - {training.backend}):
        keras.utils.set_random_seed(training.seed)
    configure_keras(training)


def configure_keras(training: TrainingConfig) -> None:
    """Sets what Keras reads from a file in the user's home folder, and the precision of the layers to come."""
    import keras

    keras.config.set_floatx("float32")
    keras.config.set_epsilon(1e-7)
    keras.config.set_image_data_format("channels_last")
    keras.config.set_dtype_policy(training.precision)
