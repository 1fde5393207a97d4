"""What holds for the whole measuring process: Keras as it is imported, and what the framework and Keras are set to."""

import gc
import sys
from typing import Any

from tfbench import backends
from tfbench.errors import DeviceError, MeasurementError
from tfbench.machine.devices import describe_lack
from tfbench.recipe import registry
from tfbench.recipe.backend_support import BackendName
from tfbench.recipe.sections import Recipe, TrainingConfig


def import_keras(backend: BackendName) -> None:
    """Imports Keras with a backend.

    Garbage is not looked for in what is imported, neither meanwhile, which takes a second, nor later.

    Raises:
        DeviceError: The backend is not installed.
        MeasurementError: Keras uses another one.
    """
    gc.disable()
    try:
        import keras
    except ModuleNotFoundError as error:
        if error.name != backend:
            raise
        raise DeviceError(describe_lack(backend)) from error
    finally:
        gc.freeze()
        gc.enable()
    if keras.backend.backend() != backend:
        raise MeasurementError(f"Keras trains with {keras.backend.backend()} instead of {backend}.")


def set_process_wide(recipe: Recipe) -> None:
    """Sets what the framework only takes before its first operation, and Keras before the first layer.

    Keras sets TensorFlow's seed, too, and imports it for that on every backend, which takes seconds and 300 MiB. On
    another one, it does as where TensorFlow is not installed, unless code or a network file of the user's may need it.
    """
    import keras

    training = recipe.training
    backends.current().set_process_wide(training)
    has_code = any(registry.is_code(section.name) for section in (recipe.model, recipe.dataset))
    may_need = has_code or recipe.model.name == "keras_file" or "tensorflow" in sys.modules
    hidden: dict[str, Any] = {} if may_need else {"tensorflow": None}  # cannot be found, to the import system
    sys.modules.update(hidden)
    try:
        keras.utils.set_random_seed(training.seed)
    finally:
        for name in hidden:
            del sys.modules[name]
    configure_keras(training)


def configure_keras(training: TrainingConfig) -> None:
    """Sets what Keras reads from a file in the user's home folder, and the precision of the layers to come."""
    import keras

    keras.config.set_floatx("float32")
    keras.config.set_epsilon(1e-7)
    keras.config.set_image_data_format("channels_last")
    keras.config.set_dtype_policy(training.precision)
