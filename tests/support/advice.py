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
# Say what came of runs; names in them are those of errors elsewhere.
_RESULTS = (
    "comparisons/baseline_text",
    "comparisons/comparison_text",
    "comparisons/difference",
    "comparisons/fastest",
    "comparisons/html_report",
    "comparisons/machines",
    "comparisons/openness",
    "comparisons/plots",
    "comparisons/references",
    "comparisons/scaling",
    "comparisons/speeds",
    "comparisons/verdict",
    "profiles/profile_",
    "runs/console",
    "runs/header",
    "runs/layer_table",
    "runs/length",
    "runs/repeat_text",
    "runs/run_text",
    "runs/speed_warnings",
    "runs/warnings",
    "show/",
    "store/history_table",
    "sweeps/series_console",
    "sweeps/sweep_text",
)
# Parts of texts elsewhere that are notes, warnings or reasons, and no errors.
_NOTES = (
    "Nothing was measured: no run fits",
    "Not judged: two single runs",
    "prints a network, or a recipe to edit",
    "has no workers, --strategy multi_worker has",
    "makes some, or name another store",
    "more: --limit {} shows them",
    "has no end, so the file is incomplete",
    "it has no end yet",
    "fit may compile this network",
    "Another tfbench run measured at the same time",
    "sets the random seed",
    "but this data arrives as 0 to {} already",
    "the number of addresses in --coordinator",
    "that --run-timeout allows",
    "that --memory-limit allows",
)


class Advice(NamedTuple):
    """A text that is part of an error, with `{}` for what is filled in."""

    file: str
    text: str


@functools.cache
def list_advice() -> tuple[Advice, ...]:
    """Returns all of them, in the order of the source."""
    found: dict[Advice, None] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        file = str(path.relative_to(SOURCE))
        if file.startswith(_RESULTS):
            continue
        for text in _texts_in(ast.parse(path.read_text(encoding="utf-8"))):
            is_advice = " " in text.strip() and _ADVICE.search(_PLACE.sub("", text, count=1))
            if is_advice and not any(note in text for note in _NOTES):
                found[Advice(file, text)] = None
    return tuple(found)


def _texts_in(node: ast.AST) -> Iterator[str]:
    """Yields whole texts; those that are filled into another one stand for themselves, too."""
    children = list(ast.iter_child_nodes(node))
    match node:
        case ast.Expr(value=ast.Constant()) | ast.keyword(arg="help"):
            return
        case ast.FunctionDef():
            children = node.body
        case ast.JoinedStr():
            text = ""
            for part in node.values:
                text += str(part.value) if isinstance(part, ast.Constant) else "{}"
            yield text
            children = [part for part in node.values if not isinstance(part, ast.Constant)]
        case ast.Constant(value=str()):
            yield node.value
        case ast.Dict():
            children = [*node.values]
    for child in children:
        yield from _texts_in(child)
