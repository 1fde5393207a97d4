"""Who may import what from outside of tfbench and start programs, read from the source.

Import-linter holds its rooms apart. Python is started by one module, which keeps the current folder
out of what is imported.
"""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfbench

PACKAGE = Path(tfbench.__file__).parent
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    .removesuffix("__init__")
    .removesuffix("."): path
    for path in PACKAGE.rglob("*.py")
}
FRAMEWORKS = ("tensorflow", "keras", "tensorflow_datasets", "jax", "torch")


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def find_imports(path: Path, *, only_at_import: bool = False) -> Iterator[str]:
    """Yields what a file imports, in its functions too or only at once.

    What is for type checkers alone excepted.
    """

    def visit(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if only_at_import and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{path}: relative import"
            yield node.module
        for child in ast.iter_child_nodes(node):
            yield from visit(child)

    yield from visit(parse(path))


def importers_of(*packages: str, only_at_import: bool = False) -> set[str]:
    return {
        module
        for module, path in MODULES.items()
        if any(
            name.split(".")[0] in packages
            for name in find_imports(path, only_at_import=only_at_import)
        )
    }


# Those who may import some packages, by how their names begin.
ALLOWED = {
    FRAMEWORKS: ("backends.", "measure.", "models.", "datasets."),
    ("tensorflow", "tensorflow_datasets"): ("backends.tensorflow.", "datasets."),
    ("jax",): ("backends.jax.",),
    ("torch",): ("backends.torch.",),
    ("mlflow",): (
        "tracking.database",
        "tracking.mlflow_calls",
        "tracking.mlflow_tracker",
        "tracking.server",
    ),
    ("rich",): ("runs.console", "sweeps.series_console"),
    # The configs of models and data sets use its Field for ranges that no other record has.
    ("pydantic", "pydantic_core"): (
        *("schema", "store.events", "models.", "datasets."),
        *("recipe.value_types", "recipe.sections", "recipe.optimizers"),
    ),
}


@pytest.mark.parametrize("packages", ALLOWED)
def test_a_package_is_imported_where_it_belongs_alone(packages: tuple[str, ...]) -> None:
    importers = importers_of(*packages)
    assert importers
    assert {module for module in importers if not module.startswith(ALLOWED[packages])} == set()


def test_what_the_parent_imports_of_models_and_data_sets_imports_frameworks_in_functions_only() -> (
    None
):
    importers = importers_of(*FRAMEWORKS, only_at_import=True)
    read_by_the_parent = {
        m for m in MODULES if m.startswith(("models.", "datasets.")) and m.count(".") == 1
    }
    assert importers & read_by_the_parent == set()
    at_import = importers_of("tensorflow", "tensorflow_datasets", only_at_import=True)
    assert {module for module in at_import if module.startswith("datasets.")} == set()


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
    for node in ast.walk(parse(path)):
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
