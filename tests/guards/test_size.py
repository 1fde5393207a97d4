"""The code of each room stays within its budget: lines that are not blank, comment or docstring."""

import ast
import collections
import io
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Who makes a room smaller lowers its budget; who adds a feature may raise it, and says why in the commit message.
# `python tests/guards/test_size.py` prints the table.
BUDGET = {
    "tests": 20240,
    "tfbench": 553,
    "tfbench/analysis": 2666,
    "tfbench/backends": 2222,
    "tfbench/cli": 1710,
    "tfbench/datasets": 1196,
    "tfbench/machine": 599,
    "tfbench/models": 1330,
    "tfbench/recipe": 954,
    "tfbench/records": 1099,
    "tfbench/report": 2469,
    "tfbench/runs": 1802,
    "tfbench/store": 402,
    "tfbench/sweeps": 1073,
    "tfbench/tracking": 1142,
    "tfbench/worker": 2159,
}
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


_WITH_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def count_lines(source: str) -> int:
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _WITH_DOCSTRINGS) and ast.get_docstring(node) is not None:
            lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def count_rooms() -> dict[str, int]:
    """Returns the lines of each folder right below tfbench/, of the files beside them, and of all tests."""
    rooms = collections.Counter[str]()
    for path in [*(ROOT / "tfbench").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]:
        first, *folders, _ = path.relative_to(ROOT).parts
        room = f"tfbench/{folders[0]}" if first == "tfbench" and folders else first
        rooms[room] += count_lines(path.read_text(encoding="utf-8"))
    return dict(sorted(rooms.items()))


def test_blank_lines_comments_and_docstrings_do_not_count() -> None:
    source = (
        '"""Text."""\n\n# comment\nx = """two\nlines"""  # comment\ndef f():\n    """More\n    text."""\n    return x\n'
    )
    assert count_lines(source) == 4


def test_no_room_grows() -> None:
    grown = {room: lines - BUDGET.get(room, 0) for room, lines in count_rooms().items()}
    assert {room: lines for room, lines in grown.items() if lines > 0} == {}


if __name__ == "__main__":
    print("\n".join(f'    "{room}": {lines},' for room, lines in count_rooms().items()))  # noqa: T201
