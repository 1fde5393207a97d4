"""What keeps a line of code readable at first sight, and a name in one place."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "tfbench"
FILES = sorted(ROOT.rglob("*.py"))


def is_packed(node: ast.AST) -> bool:
    """Says whether a statement assigns several values at once: `a, b = 1, 2`."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
        return False
    return any(isinstance(target, ast.Tuple) for target in node.targets)


def holds_another_conditional(node: ast.AST) -> bool:
    """Says whether a conditional expression has another one within."""
    if not isinstance(node, ast.IfExp):
        return False
    return any(isinstance(inner, ast.IfExp) for inner in ast.walk(node) if inner is not node)


def places(files: list[Path], is_wrong: Callable[[ast.AST], bool]) -> list[str]:
    found = list[str]()
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if is_wrong(node):
                found.append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}")
    return found


@pytest.mark.parametrize("is_wrong", [is_packed, holds_another_conditional])
def test_each_line_does_one_step(is_wrong: Callable[[ast.AST], bool]) -> None:
    assert places(FILES, is_wrong) == []


@pytest.mark.parametrize(
    ("source", "packed", "nested"),
    [
        ("a, b = 1, 2", 1, 0),
        ("a, b = divmod(7, 2)", 0, 0),
        ("for a, b in pairs: pass", 0, 0),
        ("x = 1 if a else 2", 0, 0),
        ("x = 1 if a else 2 if b else 3", 0, 1),
        ("x = f(1 if a else 2) if b else 3", 0, 1),
    ],
)
def test_what_counts_as_packed_and_as_nested(source: str, packed: int, nested: int) -> None:
    nodes = list(ast.walk(ast.parse(source)))
    assert sum(map(is_packed, nodes)) == packed
    assert sum(map(holds_another_conditional, nodes)) == nested


def test_the_names_of_tags_stand_in_one_file() -> None:
    tags = re.findall(r'= "(tfbench\.\w+)"', (ROOT / "tags.py").read_text(encoding="utf-8"))
    assert len(tags) == len(set(tags)) > 20
    literals = re.compile(rf"[\"'`](?:{'|'.join(map(re.escape, tags))})[\"'`]")
    others = [path for path in FILES if path.name != "tags.py"]
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in others}
    assert [name for name, text in texts.items() if literals.search(text)] == []
