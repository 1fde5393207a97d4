"""Frameworks that networks are trained with: a folder each.

A framework is imported once devices are hidden from it.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfbench.backends.backend import Backend


def find_name() -> str:
    """Returns the name of this process's only backend, as Keras reads it when it is imported."""
    return os.environ.get("KERAS_BACKEND") or "tensorflow"


def current() -> "Backend":
    """Returns the backend of this process.

    Imports its framework, which sees the devices that are left to it.
    """
    module = importlib.import_module(f"{__name__}.{find_name()}.backend")
    return module.BACKEND  # type: ignore[no-any-return]  # found by name


def loaded() -> "Backend | None":
    """Returns the backend of this process, to ask it about an error.

    None if it was not imported: the error is not its own.
    """
    return current() if f"{__name__}.{find_name()}.backend" in sys.modules else None
