"""How the package is laid out, and who may start programs, read from the source.

Import-linter and ruff say who may import what. Python is started by one module, which keeps the
current folder out of what is imported.
"""

import ast
import re
from pathlib import Path

import tfbench

PACKAGE = Path(tfbench.__file__).parent
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    .removesuffix("__init__")
    .removesuffix("."): path
    for path in PACKAGE.rglob("*.py")
}


def test_the_root_holds_the_ground_alone() -> None:
    assert {path.name for path in PACKAGE.glob("*.py")} <= {
        "__init__.py", "__main__.py", "api.py", "errors.py", "metrics.py", "schema.py", "tags.py", "wording.py",
    }  # fmt: skip


def test_no_file_is_long() -> None:
    lengths = {
        name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in MODULES.items()
    }
    assert {name: length for name, length in lengths.items() if length > 400} == {}


STARTERS = {
    "children.py": "every process of Python",
    "environment.py": "git, asked so that it runs nothing that the tree names",
    "forks.py": "itself",
    "ranks.py": "Slurm, asked which nodes its list names",
}
STARTS = re.compile(
    r"subprocess\.(run|Popen|call|check_call|check_output|getoutput|getstatusoutput)"
    r"|os\.(system|popen|exec\w+|spawn\w+|posix_spawn\w*|fork\w*)|(multiprocessing\.(?!Pipe)|pty\.)\w+"
)


def starts_programs(path: Path) -> bool:
    """Says whether a file starts programs, or imports in a way that may hide it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and STARTS.fullmatch(ast.unparse(node.func)):
            return True
        if isinstance(node, ast.ImportFrom) and node.module in (
            "subprocess",
            "multiprocessing",
            "pty",
        ):
            return True
    return False


def test_only_these_modules_start_programs() -> None:
    assert {path.name for path in PACKAGE.rglob("*.py") if starts_programs(path)} == set(STARTERS)
