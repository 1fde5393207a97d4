"""Importing a package without others that it would bring along."""

import importlib
import sys
from collections.abc import Iterable

# Keras, and TensorFlow with it, imports these where they are installed, as they are with MLflow, for estimators,
# picture galleries and data frames, none of which tfbench's own models and data sets use: a third of the time of the
# import, and 150 MiB.
NOT_NEEDED = ("matplotlib", "pandas", "scipy", "sklearn")
NEEDED_BY = {"jax": {"scipy"}}  # of these, by a back end itself


def import_without(name: str, left_out: Iterable[str]) -> None:
    """Imports a package as if some others were not installed, which it must be able to do without.

    They can be imported afterwards, by anyone, and those that were imported before stay as they are. The package itself
    does not look for them again: what it offers only with them stays off until the process ends. No other thread may
    import anything meanwhile.

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
            sys.modules.pop(other, None)
