"""Models and data sets by name: a name is a file in the package, imported only when it is used.

A name with a colon, "my_package.nets:build_model" or "nets.py:build_model", is a function outside
of tfbench: `user_code` calls it, in the measuring process alone. Nothing here imports such code.
"tfds:fashion_mnist" is a data set of tensorflow-datasets, which also only that process knows.
"""

import ast
import functools
import importlib
import keyword
import re
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from tfbench.errors import UnknownNameError, did_you_mean
from tfbench.wording import shorten

Kind = Literal["models", "datasets"]
TFDS = "tfds:"
_SINGULAR = {"models": "model", "datasets": "data set"}
_OWN = {
    "models": "A network of your own: FILE.py:FUNCTION.",
    "datasets": "Data of your own: FILE.py:FUNCTION. A set of tensorflow-datasets: tfds:NAME.",
}
CODE_NOT_ALLOWED = (
    "is code from outside of tfbench, which can do whatever you can. If you trust it, allow it with"
    " --allow-code."
)


def list_names(kind: Kind) -> dict[str, str]:
    """Returns every name of a kind with the first line of its module's docstring; imports none."""
    titles = {}
    for name, path in _find_files(kind).items():
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        titles[name] = (docstring or "").partition("\n")[0]
    return titles


def load(kind: Kind, name: str) -> ModuleType:
    """Imports the module that stands for `name`.

    Raises:
        UnknownNameError: With the nearest known name.
    """
    names = _find_files(kind)
    if name not in names:
        raise UnknownNameError(
            f"unknown {_SINGULAR[kind]} '{shorten(name)}'.{did_you_mean(name, names)} Known:"
            f" {', '.join(names)}. {_OWN[kind]}"
        )
    return importlib.import_module(f"tfbench.{kind}.{name}")


def find_config(kind: Kind, name: str) -> type[Any] | None:
    """Returns the class of the options that a model or data set takes; None: those of code.

    Raises:
        UnknownNameError: With the nearest known name, or the form of a name.
    """
    if kind == "datasets" and name.startswith(TFDS):
        if not find_tfds_name(name):
            raise UnknownNameError(
                'must be written as "tfds:name", "tfds:name/config" or "tfds:name:1.0.0".'
                f" Received: {shorten(repr(name))}."
            )
        from tfbench.recipe.dataset_spec import TfdsOptions  # not for a list of names

        return TfdsOptions
    if is_code(name):
        return None
    config: type[Any] = load(kind, name).Config
    return config


def find_tfds_name(name: str) -> str | None:
    """Returns the name of a data set in tensorflow-datasets; None: it is no such data set."""
    found = re.fullmatch(rf"{TFDS}(\w+(?:/[\w.-]+)?(?::\d+\.\d+\.\d+)?)", name)
    return found[1] if found else None


def is_code(name: object) -> bool:
    """Says whether a name, if it is one, stands for a function outside of tfbench."""
    return isinstance(name, str) and ":" in name


def is_code_name(name: str) -> bool:
    """Says whether a name has the form "package.module:function" or "folder/nets.py:function"."""
    module, _, function = name.rpartition(":")
    parts = [function]
    if not module.endswith(".py"):
        parts += module.split(".")
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in parts)


# For each of thousands of recipes, looking into the folder would take longer than all else.
@functools.cache
def _find_files(kind: Kind) -> dict[str, Path]:
    files = (Path(__file__).parents[1] / kind).glob("*.py")
    return {path.stem: path for path in sorted(files) if path.stem != "__init__"}
