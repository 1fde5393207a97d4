"""Models and data sets by name: a name is a file in the package, imported only when it is used."""

import ast
import importlib
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Literal

from tfbench.errors import UnknownNameError, did_you_mean

Kind = Literal["models", "datasets"]
_SINGULAR = {"models": "model", "datasets": "data set"}


def list_names(kind: Kind) -> dict[str, str]:
    """Returns every name of a kind with the first line of its module's docstring; imports none of them."""
    folder = Path(__file__).parent / kind
    modules = sorted(m.name for m in pkgutil.iter_modules([str(folder)]) if not m.ispkg and not m.name.startswith("_"))
    return {name: _first_line(folder / f"{name}.py") for name in modules}


def load(kind: Kind, name: str) -> ModuleType:
    """Imports the module that stands for `name`.

    Raises:
        UnknownNameError: With the nearest known name.
    """
    known = list_names(kind)
    if name not in known:
        raise UnknownNameError(
            f"unknown {_SINGULAR[kind]} '{name}'.{did_you_mean(name, known)} Known: {', '.join(known)}."
        )
    return importlib.import_module(f"tfbench.{kind}.{name}")


def _first_line(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    return (docstring or "").partition("\n")[0]
