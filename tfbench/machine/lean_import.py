"""Importing a package without others that it would bring along."""

import contextlib
import gc
import importlib
import sys
from collections.abc import Iterable, Iterator

# Keras, and TensorFlow with it, imports these where they are installed, as most are with MLflow, for estimators,
# picture galleries, data frames and the checkpoints and converters of another backend, none of which tfbench's own
# models and data sets use: a third of the time of the import, and 150 MiB; of JAX, a tenth, and 110 MiB.
NOT_NEEDED = ("jax", "matplotlib", "pandas", "scipy", "sklearn")
NEEDED_BY = {"jax": {"jax", "scipy"}}  # of these, by a backend itself


def import_without(name: str, others: Iterable[str]) -> None:
    """Imports a package as if some others were not installed, which it must be able to do without.

    They can be imported afterwards, by anyone. The package itself does not look for them again: what it offers only
    with them stays off until the process ends.

    Garbage is looked for once at the end, not over and over in what has just been imported, which takes a tenth of the
    time. So what was imported is as old to the collector as ever, and a training is not stopped for it.

    Args:
        name: Of the package.
        others: Names of those that it is not to find.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        with left_out(others):
            importlib.import_module(name)
    finally:
        if was_on:
            gc.enable()
            gc.collect()


@contextlib.contextmanager
def left_out(others: Iterable[str]) -> Iterator[None]:
    """Has some packages look as if they were not installed, but for those that were imported before.

    No other thread may import anything meanwhile.

    Args:
        others: Their names.
    """
    hidden = [other for other in others if other not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: cannot be found, to the import system
    try:
        yield
    finally:
        for other in hidden:
            sys.modules.pop(other, None)
