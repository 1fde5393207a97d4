"""Who may start programs: Python is started by one module, which keeps the current folder out of what is imported."""

import ast
import re
from pathlib import Path

import tfbench

PACKAGE = Path(tfbench.__file__).parent
STARTERS = {
    "children.py": "every process of Python",
    "environment.py": "git, asked so that it runs nothing that the tree names",
}
STARTS = re.compile(
    r"subprocess\.(run|Popen|call|check_call|check_output|getoutput|getstatusoutput)"
    r"|os\.(system|popen|exec\w+|spawn\w+|posix_spawn\w*|fork\w*)|(multiprocessing\.(?!Pipe)|pty\.)\w+"
)


def starts_programs(path: Path) -> bool:
    """Says whether a file calls what starts a program, or imports it in a way that would hide such a call."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and STARTS.fullmatch(ast.unparse(node.func)):
            return True
        if isinstance(node, ast.ImportFrom) and node.module in ("subprocess", "multiprocessing", "pty"):
            return True
    return False


def test_only_these_modules_start_programs() -> None:
    assert {path.name for path in PACKAGE.rglob("*.py") if starts_programs(path)} == set(STARTERS)
