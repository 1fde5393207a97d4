"""Importing a package without others that it would bring along."""

import importlib
import sys
from collections.abc import Iterable


def import_without(name: str, left_out: Iterable[str]) -> None:
    """Imports a package as if some others were not installed, which it must be able to do without.

    They can be imported afterwards, and those that were imported before stay as they are.

    Args:
        name: Of the package.
        left_out: Names of those that it is not to find.
    """
    hidden = [other for other in left_out if other not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: cannot be found, to the import system
    try:
        importlib.import_module(name)
    finally:
        for other in hidden:
            del sys.modules[other]
