"""Who may import whom: downwards only, read from the source."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfbench

PACKAGE = Path(tfbench.__file__).parent

# A package stands for what is in it, unless a longer name says otherwise. A new module gets its level here.
LEVELS = {
    "": 0,  # __version__
    "children": 0,
    "errors": 0,
    "schema": 0,
    "shown_text": 0,
    "whole_files": 0,
    "wording": 0,
    "machine": 1,
    "recipe": 1,
    "results": 1,
    "metrics": 1,
    "profile_records": 1,
    "profile_replay": 2,
    "record_lines": 1,
    "journal_format": 2,
    "journal": 2,
    "lean_import": 0,
    "plain_files": 0,
    "name_counts": 3,
    "measure": 2,
    "named_tables": 2,
    "recipe_file": 2,
    "registry": 2,
    "run_brief": 2,
    "sweep_plan": 2,
    "command_lines": 2,
    "requests": 2,
    "splits": 2,
    "toml_text": 2,
    "benchmark": 3,
    "compiled_model": 3,
    "limit_checks": 3,
    "process_settings": 3,
    "datasets": 3,
    "device_report": 3,
    "distribution": 3,
    "environment": 3,
    "evaluation": 3,
    "foreign_model": 3,
    "feeding": 3,
    "flops": 3,
    "gpus": 3,
    "products": 3,
    "hardware": 3,
    "image_crops": 3,
    "image_files": 3,
    "input_pipeline": 3,
    "measure.recorder": 3,
    "objective": 3,
    "op_trace": 3,
    "peak": 3,
    "process_limits": 3,
    "optimizer": 3,
    "profile_variants": 2,
    "profiled_batches": 3,
    "profiled_step": 3,
    "profiler": 3,
    "one_replica": 3,
    "replica_check": 3,
    "replica_step": 3,
    "thread_pools": 3,
    "step_calls": 3,
    "timed_turns": 3,
    "model_graph": 3,
    "model_table": 3,
    "models": 3,
    "snapshots": 2,
    "state_reset": 3,
    "svhn_source": 3,
    "synthetic": 3,
    "tfds_source": 3,
    "tfrecords": 3,
    "training": 3,
    "usage": 3,
    "variant_profiler": 3,
    "user_arrays": 3,
    "user_code": 3,
    "working_tree": 3,
    "worker": 3,
    "launcher": 4,
    "stop_signals": 4,
    "report": 4,
    "tracking": 4,
    "baselines": 5,
    "calibrations": 5,
    "briefs": 5,
    "crossover": 5,
    "search_plan": 5,
    "progress": 5,
    "sweep": 5,
    "sweep_log": 5,
    "sweep_result": 5,
    "sweep_view": 5,
    "journal_import": 5,
    "projection": 5,  # brings tracking and report together
    "repeats": 5,
    "scale": 5,
    "report_contents": 5,
    "series": 5,
    "session": 5,  # brings all of level 4 together
    "cli": 6,
    "__main__": 7,
}
SIDE_BY_SIDE = 4

MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").removesuffix("."): path
    for path in PACKAGE.rglob("*.py")
}


def level_name(module: str) -> str:
    """Returns the entry of LEVELS that a module belongs to."""
    parts = module.split(".")
    names = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    found = [name for name in names if name in LEVELS]
    assert found, f"give tfbench.{module} a level in LEVELS"
    return found[0]


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
            # `from tfbench import journal` imports a module, `from tfbench import __version__` does not.
            yield from (
                f"{node.module}.{a.name}" if is_module(f"{node.module}.{a.name}") else node.module for a in node.names
            )
        for child in ast.iter_child_nodes(node):
            yield from visit(child)

    yield from visit(ast.parse(path.read_text(encoding="utf-8")))


def is_module(name: str) -> bool:
    return name.startswith("tfbench.") and name.removeprefix("tfbench.") in MODULES


def importers_of(*packages: str, only_at_import: bool = False) -> set[str]:
    return {
        module
        for module, path in MODULES.items()
        if any(name.split(".")[0] in packages for name in find_imports(path, only_at_import=only_at_import))
    }


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_downwards(module: str) -> None:
    own = level_name(module) if module else ""
    for imported in find_imports(MODULES[module]):
        if imported.split(".")[0] != "tfbench":
            continue
        target = level_name(imported.removeprefix("tfbench").lstrip(".")) if imported != "tfbench" else ""
        assert LEVELS[target] <= LEVELS[own], f"{module} may not import {imported}"
        if LEVELS[own] == SIDE_BY_SIDE == LEVELS[target]:
            assert own == target, f"{module} and {imported} stand side by side"


def test_every_level_belongs_to_a_module() -> None:
    assert {name for name in LEVELS if name not in MODULES} == set()


def test_only_level_3_imports_tensorflow_or_keras() -> None:
    importers = importers_of("tensorflow", "keras", "tensorflow_datasets")
    assert importers
    assert {module for module in importers if LEVELS[level_name(module)] != 3} == set()


def test_what_the_parent_imports_of_level_3_imports_keras_in_functions_only() -> None:
    importers = importers_of("tensorflow", "keras", "tensorflow_datasets", only_at_import=True)
    read_by_the_parent = {
        module
        for module in MODULES
        if (module.startswith(("models.", "datasets.")) and module.count(".") == 1)
        or module in ("device_report", "distribution", "model_table")
    }
    assert importers & read_by_the_parent == set()


def test_only_the_tracker_and_its_calls_import_mlflow() -> None:
    assert importers_of("mlflow") <= {"tracking.mlflow_calls", "tracking.mlflow_tracker"}


def test_only_records_know_pydantic() -> None:
    importers = importers_of("pydantic", "pydantic_core")
    # The configs of models and data sets use its Field for ranges that no other record has.
    assert {module for module in importers if not module.startswith(("models.", "datasets."))} <= {"schema", "recipe"}


def test_only_consoles_import_rich() -> None:
    assert importers_of("rich") <= {
        "report.console",
        "report.brief_console",
        "report.profile_console",
        "report.sweep_console",
    }
