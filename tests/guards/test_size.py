"""The code of each room stays near its budget.

Nodes of the syntax tree, so that folding lines gains nothing.
"""

import ast
import collections
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORPUS = "corpus"  # of programs as users write them: its size does not count
SLACK = 1.03  # times the budget: a fix with its test needs no edit here

# Who makes a room smaller lowers its budget; who adds a feature may raise it, and says why in the
# commit message. `python tests/guards/test_size.py` prints the table.
BUDGET = {
    "benchmarks": 14748,
    "tests": 162279,
    "tfbench": 3708,
    "tfbench/backends": 14825,
    "tfbench/cli": 10796,
    "tfbench/comparisons": 24305,
    "tfbench/datasets": 11248,
    "tfbench/machine": 4411,
    "tfbench/measure": 16106,
    "tfbench/models": 9727,
    "tfbench/profiles": 4606,
    "tfbench/recipe": 6186,
    "tfbench/runs": 25166,
    "tfbench/show": 4383,
    "tfbench/store": 8443,
    "tfbench/sweeps": 12799,
    "tfbench/tracking": 7563,
}
_NO_CODE = (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)


def is_docstring(node: ast.AST) -> bool:
    """Says whether a node is a bare string: a docstring or a text below a field."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def count_nodes(source: str) -> int:
    """Counts statements, expressions and their parts.

    Neither docstrings nor what only marks an operator.
    """
    num_nodes = 0
    for node in ast.walk(ast.parse(source)):
        if is_docstring(node):
            num_nodes -= 1  # the constant within it counts one
        elif not isinstance(node, _NO_CODE):
            num_nodes += 1
    return num_nodes


def room_of(path: Path) -> str:
    """Returns a file's folder right below tfbench/, or else its top-level folder."""
    first, *folders, _ = path.relative_to(ROOT).parts
    if first == "tfbench" and folders:
        return f"{first}/{folders[0]}"
    return first


def count_rooms() -> dict[str, int]:
    """Returns the number of nodes of each room."""
    rooms = collections.Counter[str]()
    for top in ("benchmarks", "tests", "tfbench"):
        for path in (ROOT / top).rglob("*.py"):
            if CORPUS in path.parts:
                continue
            rooms[room_of(path)] += count_nodes(path.read_text(encoding="utf-8"))
    return dict(sorted(rooms.items()))


def test_docstrings_comments_and_operators_do_not_count() -> None:
    bare = "x = 1 + 2\ndef f():\n    return x\n"
    told = '"""Text."""\n# comment\nx = 1 - 2\ndef f():\n    """More."""\n    return x  # reason\n'
    assert count_nodes(bare) == count_nodes(told) == 10


def test_folding_code_into_fewer_lines_gains_nothing() -> None:
    assert count_nodes("a = 1; b = 2") == count_nodes("a = 1\nb = 2")
    assert count_nodes("a, b = 1, 2") > count_nodes("a = 1\nb = 2")


def test_no_room_grows_by_more_than_the_slack() -> None:
    grown = {
        room: f"{num_nodes} nodes, budget {BUDGET.get(room, 0)}"
        for room, num_nodes in count_rooms().items()
        if num_nodes > BUDGET.get(room, 0) * SLACK
    }
    assert grown == {}


if __name__ == "__main__":
    for room, num_nodes in count_rooms().items():
        print(f'    "{room}": {num_nodes},')  # noqa: T201
