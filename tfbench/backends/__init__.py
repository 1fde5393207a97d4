"""Frameworks that networks are trained with.

A folder each, imported once devices are hidden from it.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfbench.backends.backend import Backend


def find_name() -> str:
    """Returns the name of the backend of this process, which has but one.

    Keras takes it as it is imported.
    """
    return os.environ.get("KERAS_BACKEND") or "tensorflow"


def current() -> "Backend":
    """Returns the backend of this process.

    Imports its framework, which sees the devices that are left to it.
    """
    backend: Backend = importlib.import_module(f"{__name__}.{find_name()}.backend").BACKEND
    return backend


def loaded() -> "Backend | None":
    """Returns the backend of this process to ask it about an error; None.

    It was not imported, so it was not its.
    """
    return current() if f"{__name__}.{find_name()}.backend" in sys.modules else None
