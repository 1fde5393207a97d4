"""Who may import what from outside of tfbench, read from the source; import-linter holds its rooms apart."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfbench

PACKAGE = Path(tfbench.__file__).parent
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").removesuffix("."): path
    for path in PACKAGE.rglob("*.py")
}
FRAMEWORKS = ("tensorflow", "keras", "tensorflow_datasets", "jax", "torch")


def find_imports(path: Path, *, only_at_import: bool = False) -> Iterator[str]:
    """Yields what a file imports, in its functions too or only at once; what is for type checkers alone excepted."""

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

    yield from visit(ast.parse(path.read_text(encoding="utf-8")))


def importers_of(*packages: str, only_at_import: bool = False) -> set[str]:
    return {
        module
        for module, path in MODULES.items()
        if any(name.split(".")[0] in packages for name in find_imports(path, only_at_import=only_at_import))
    }


def test_only_what_measures_imports_a_framework() -> None:
    importers = importers_of(*FRAMEWORKS)
    assert importers
    assert {name.split(".")[0] for name in importers} <= {"backends", "worker", "models", "datasets"}


def test_tensorflow_stands_in_its_own_backend_and_in_functions_of_data_sources_alone() -> None:
    importers = importers_of("tensorflow", "tensorflow_datasets")
    assert {module for module in importers if not module.startswith(("backends.tensorflow.", "datasets."))} == set()
    at_import = importers_of("tensorflow", "tensorflow_datasets", only_at_import=True)
    assert {module for module in at_import if module.startswith("datasets.")} == set()


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_another_framework_stands_in_its_own_backend_alone(framework: str) -> None:
    assert {module for module in importers_of(framework) if not module.startswith(f"backends.{framework}.")} == set()


def test_what_the_parent_imports_of_models_and_data_sets_imports_frameworks_in_functions_only() -> None:
    importers = importers_of(*FRAMEWORKS, only_at_import=True)
    read_by_the_parent = {m for m in MODULES if m.startswith(("models.", "datasets.")) and m.count(".") == 1}
    assert importers & read_by_the_parent == set()


def test_only_the_tracker_and_its_calls_import_mlflow() -> None:
    allowed = ("mlflow_calls", "mlflow_tracker", "server")
    assert importers_of("mlflow") <= {f"tracking.{name}" for name in allowed}


def test_only_records_know_pydantic() -> None:
    importers = importers_of("pydantic", "pydantic_core")
    # The configs of models and data sets use its Field for ranges that no other record has.
    others = {module for module in importers if not module.startswith(("models.", "datasets."))}
    of_recipes = {f"recipe.{name}" for name in ("value_types", "sections", "optimizers", "json_schema")}
    assert others <= {"schema", "records.events", *of_recipes}


def test_only_consoles_import_rich() -> None:
    assert importers_of("rich") <= {"report.run.console", "report.run.series_console"}


def test_the_root_holds_the_ground_alone() -> None:
    assert {path.name for path in PACKAGE.glob("*.py")} <= {
        "__init__.py", "__main__.py", "api.py", "errors.py", "metrics.py", "schema.py", "wording.py",
    }  # fmt: skip


def test_no_file_is_long() -> None:
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in MODULES.items()}
    assert {name: length for name, length in lengths.items() if length > 320} == {}
