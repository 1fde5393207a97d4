"""What holds for the whole measuring process: how Keras is imported, and all settings."""

import contextlib
import gc
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from tfbench import backends
from tfbench.errors import DeviceError, MeasurementError
from tfbench.machine.frameworks import describe_lack
from tfbench.recipe.backend_support import BackendName
from tfbench.recipe.sections import Recipe, TrainingConfig

# Keras and TensorFlow import these for estimators, pictures, data frames and another backend's
# checkpoints, which only a user's code needs: a second, and 150 MiB.
_UNNEEDED = ("cv2", "jax", "matplotlib", "pandas", "scipy", "sklearn")
_NEEDED_BY = {"jax": ("jax", "scipy")}


@contextlib.contextmanager
def hidden(names: Iterable[str]) -> Iterator[None]:
    """Hides packages from imports in the block, except those that are imported already."""
    modules: dict[str, Any] = sys.modules
    new = [name for name in names if name not in modules]
    modules.update(dict.fromkeys(new))
    try:
        yield
    finally:
        for name in new:
            modules.pop(name, None)


def list_unneeded(backend: BackendName, *, is_users: bool) -> list[str]:
    """Returns the packages that are not needed to train with a backend.

    Args:
        backend: Its name.
        is_users: Whether the network or the data is the user's own.
    """
    if is_users:
        return []
    needed = _NEEDED_BY.get(backend, ())
    return [name for name in _UNNEEDED if name not in needed]


def import_keras(backend: BackendName, unneeded: Iterable[str] = ()) -> None:
    """Imports Keras with a backend.

    The garbage collector does not search what is imported: not meanwhile, which takes a second, nor
    later.

    Args:
        backend: Its name.
        unneeded: Packages that are not imported with it.

    Raises:
        DeviceError: The backend is not installed.
        MeasurementError: Keras uses another one.
    """
    gc.disable()
    try:
        with hidden(unneeded):
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
    """Sets what must be set before the first operation or Keras layer.

    Keras sets TensorFlow's seed, too, and imports it for that on every backend, which takes seconds
    and 300 MiB. So TensorFlow is hidden from it on other backends, unless the user's code or
    network file may need it.
    """
    import keras

    training = recipe.training
    backends.current().set_process_wide(training)
    with hidden([] if recipe.is_users else ["tensorflow"]):
        keras.utils.set_random_seed(training.seed)
    configure_keras(training)


def configure_keras(training: TrainingConfig) -> None:
    """Sets Keras's configuration and the precision of the layers to come.

    Keras would read its configuration from a file in the user's home folder.
    """
    import keras

    keras.config.set_floatx("float32")
    keras.config.set_epsilon(1e-7)
    keras.config.set_image_data_format("channels_last")
    keras.config.set_dtype_policy(training.precision)
