"""The errors of tfbench that give advice, as its source has them."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[2] / "tfbench"
_ADVICE = re.compile(
    r"\b(Set|Use|Add|Leave|Choose|Name|Give|Remove|such as|for example) |: use |or use "
    r"|[ (]--[a-z]|\btfbench (list|run|show|scale|sweep|profile|devices|recover|runs)\b"
)
_PLACE = re.compile(r"--[\w-]+( \S+)?: |strategy multi_worker: ")  # where the error is
_CHANGING = ("append", "extend")
# Say what came of runs; names in them are those of errors elsewhere.
_RESULTS = (
    "comparisons/comparison_text",
    "comparisons/difference_text",
    "comparisons/fastest",
    "comparisons/html_report",
    "comparisons/machines_text",
    "comparisons/openness",
    "comparisons/plots",
    "comparisons/references_text",
    "comparisons/regression_text",
    "comparisons/scaling_text",
    "comparisons/speeds",
    "comparisons/verdict",
    "profiles/profile_",
    "runs/beginning",
    "runs/console",
    "runs/header",
    "runs/layer_table",
    "runs/length",
    "runs/repeat_text",
    "runs/run_text",
    "show/",
    "store/history_table",
    "sweeps/round_text",
    "sweeps/series_console",
    "sweeps/sweep_text",
)
_RAISED = "raise"
_RETURNED = "return"


class Advice(NamedTuple):
    """A text that is part of an error, with `{}` for what is filled in."""

    file: str
    text: str

    def is_in(self, message: str) -> bool:
        """Says whether a message that was raised has this text."""
        parts = [re.escape(part) for part in self.text.split("{}")]
        return re.search(r"[\s\S]*?".join(parts), message) is not None


class _Flow(NamedTuple):
    """An expression, and the names to which its value goes."""

    targets: frozenset[str]
    names: frozenset[str]
    texts: tuple[str, ...]


_NOWHERE = _Flow(frozenset(), frozenset(), ())
_FLOWING = (
    ast.Raise,
    ast.Return,
    ast.Yield,
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.NamedExpr,
    ast.For,
    ast.comprehension,
    ast.Call,
)


@functools.cache
def list_advice() -> tuple[Advice, ...]:
    """Returns all of them, in the order of the source.

    They are the texts whose value goes into a `raise`: in it, or by names of variables within a
    function, or by names of functions and constants.
    """
    modules = {}
    for path in sorted(SOURCE.rglob("*.py")):
        modules[path] = _scopes(ast.parse(path.read_text(encoding="utf-8")))
    reached: set[str] = set()
    num_before = -1
    while num_before < len(reached):
        num_before = len(reached)
        for scopes in modules.values():
            for name, flows in scopes:
                for flow in _raised(name, flows, reached):
                    reached |= flow.names
    found: dict[Advice, None] = {}
    for path, scopes in modules.items():
        file = str(path.relative_to(SOURCE))
        if file.startswith(_RESULTS):
            continue
        for name, flows in scopes:
            for flow in _raised(name, flows, reached):
                for text in flow.texts:
                    if " " in text.strip() and _ADVICE.search(_PLACE.sub("", text, count=1)):
                        found[Advice(file, text)] = None
    return tuple(found)


def _raised(name: str, flows: list[_Flow], reached: set[str]) -> list[_Flow]:
    """Returns what goes into a `raise`, of a function's flows, or of a module's ("")."""
    wanted = {_RAISED}
    if name in reached:
        wanted.add(_RETURNED)
    if not name:
        wanted |= reached
    num_before = -1
    found: list[_Flow] = []
    while num_before < len(found):
        num_before = len(found)
        found = [flow for flow in flows if flow.targets & wanted]
        if name:
            for flow in found:
                wanted |= flow.names
    return found


def _scopes(module: ast.Module) -> list[tuple[str, list[_Flow]]]:
    classes = [node for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    bodies = [module.body, *(node.body for node in classes)]
    scopes = [("", [_flow(node) for body in bodies for node in body])]
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef):
            flows = [_flow(inner) for inner in ast.walk(node)]
            scopes.append((node.name, [flow for flow in flows if flow.targets]))
    return scopes


def _flow(node: ast.AST) -> _Flow:
    """Returns where the value of a statement goes; nowhere, for most."""
    if not isinstance(node, _FLOWING):
        return _NOWHERE
    value = getattr(node, "value", None)
    targets: list[ast.AST] = []
    names: set[str] = set()
    match node:
        case ast.Raise():
            names = {_RAISED}
            value = node.exc
        case ast.Return() | ast.Yield():
            names = {_RETURNED}
        case ast.Assign():
            targets = [*node.targets]
        case ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr():
            targets = [node.target]
        case ast.For() | ast.comprehension():
            targets = [node.target]
            value = node.iter
        case ast.Call(func=ast.Attribute(attr=method, value=changed)) if method in _CHANGING:
            targets = [changed]
            value = node
    for target in targets:
        names |= _names_in(target)
    if not names or value is None:
        return _NOWHERE
    return _Flow(frozenset(names), frozenset(_names_in(value)), tuple(_texts_in(value)))


def _names_in(node: ast.AST) -> set[str]:
    """Returns names of variables, and of what is called."""
    names = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            names.add(inner.id)
        elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
            names.add(inner.func.attr)
        elif isinstance(inner, ast.Attribute) and inner.attr.isupper():
            names.add(inner.attr)
    return names


def _texts_in(value: ast.AST) -> Iterator[str]:
    """Yields whole texts; those that are filled into another one stand for themselves, too."""
    if isinstance(value, ast.keyword) and value.arg == "help":
        return
    children = list(ast.iter_child_nodes(value))
    if isinstance(value, ast.JoinedStr):
        text = ""
        for part in value.values:
            text += str(part.value) if isinstance(part, ast.Constant) else "{}"
        yield text
        children = [part for part in children if not isinstance(part, ast.Constant)]
    elif isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value
    elif isinstance(value, ast.Dict):
        children = [*value.values]
    for child in children:
        yield from _texts_in(child)
