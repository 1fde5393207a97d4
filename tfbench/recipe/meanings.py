"""What the keys of a recipe, and exit codes, mean: the texts that stand below them in their classes."""

import ast
import functools
import inspect
import sys
from collections.abc import Iterator


def read_meanings(cls: type) -> dict[str, str]:
    """Returns the text below each field of a class, in one line; fields without one are left out.

    Python itself keeps no such text, so that it is read from the source.
    """
    meanings: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("tfbench."):
            meanings |= _read_module(base.__module__).get(base.__qualname__, {})
    return meanings


@functools.cache
def _read_module(name: str) -> dict[str, dict[str, str]]:
    """Returns the texts of every class of a module."""
    tree = ast.parse(inspect.getsource(sys.modules[name]))
    return {node.name: dict(_find_texts(node)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _find_texts(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in zip(node.body, node.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, " ".join(text.split())
