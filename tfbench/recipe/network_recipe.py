"""The recipe of a network that is named alone: "net.keras", or "nets.py:build_model"."""

import ast
import os.path
from pathlib import Path
from typing import Any

from tfbench.recipe import registry

_LOADERS = ("load_data", "load_splits")


def is_network(name: str) -> bool:
    """Says whether what is named is a network, not a recipe."""
    return name.endswith(".keras") or (registry.is_code(name) and registry.is_code_name(name))


def build_tables(name: str) -> dict[str, Any]:
    """Returns the tables of a recipe that trains a network as it was compiled.

    Its data is what a function `load_data` in the same file returns; without one, random samples in the shapes of the
    network's inputs.
    """
    is_code = registry.is_code(name)
    loader = _find_loader(Path(name.rpartition(":")[0])) if is_code else ""
    return {
        "recipe": {"title": os.path.basename(name), "source": "a network named on the command line"},  # noqa: PTH119
        "model": {"name": name} if is_code else {"file": name},
        "dataset": {"name": f"{name.rpartition(':')[0]}:{loader}" if loader else "network"},
        "training": {"global_batch_size": 32, "epochs": 5},
    }


def _find_loader(file: Path) -> str:
    """Returns the name of the function in a file that loads data; it is read, not imported."""
    if file.suffix != ".py":
        file = Path(*str(file).split(".")).with_suffix(".py")
    try:
        body = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError):  # whoever builds the network says what is wrong
        return ""
    names = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    return next((name for name in _LOADERS if name in names), "")
