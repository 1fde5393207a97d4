"""Frameworks that networks are trained with; a folder each, reached by name."""

import functools
import importlib
import os

from tfbench.backends.backend import Backend

_DEFAULT = "tensorflow"


@functools.cache
def load(name: str) -> Backend:
    """Returns a backend; the framework itself is imported when it is first needed.

    Args:
        name: Of its folder, as Keras names it: "tensorflow".
    """
    backend: Backend = importlib.import_module(f"{__name__}.{name}.backend").BACKEND
    return backend


def current() -> Backend:
    """Returns the backend of this process, which has but one: Keras takes it from KERAS_BACKEND as it is imported."""
    return load(os.environ.get("KERAS_BACKEND") or _DEFAULT)
