"""The command line starts with Click and the standard library; the parent never imports TensorFlow."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("tensorflow", "keras", "mlflow", "pydantic", "numpy", "rich", "matplotlib", "pandas", "scipy", "psutil")


def heavy_modules_after(code: str, folder: Path) -> list[str]:
    """Returns the heavy modules that a fresh interpreter has loaded once `code` has run."""
    report = f"import sys\n{code}\nsys.stderr.write(' '.join(m for m in {HEAVY} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True, cwd=folder)
    return done.stderr.split()


@pytest.mark.parametrize(
    "code",
    [
        "import tfbench",
        "import tfbench.cli",
        "sys.argv = ['tfbench', '--help']\nimport tfbench.cli\ntry: tfbench.cli.main()\nexcept SystemExit: pass",
        "sys.argv = ['tfbench', '--version']\nimport tfbench.cli\ntry: tfbench.cli.main()\nexcept SystemExit: pass",
    ],
)
def test_starts_with_nothing_heavy(code: str, tmp_path: Path) -> None:
    assert heavy_modules_after(code, tmp_path) == []


@pytest.mark.parametrize(
    "code",
    [
        "from tfbench.recipe import files as r\nfor n in r.list_recipes(): r.load_recipe(r.find_recipe(n))",
        "import tfbench.machine.devices, tfbench.records.model_table, tfbench.runs.baseline, tfbench.runs.process",
        "import tfbench; tfbench.run, tfbench.sweep, tfbench.compare, tfbench.load_runs",
        "import tfbench.cli as c; [c.cli.get_command(None, name) for name in c.cli.list_commands(None)]",
    ],
)
def test_the_parent_checks_recipes_and_starts_workers_without_tensorflow(code: str, tmp_path: Path) -> None:
    assert {"tensorflow", "keras", "mlflow"} & set(heavy_modules_after(code, tmp_path)) == set()


def test_a_worker_hides_gpus_and_rejects_before_tensorflow_is_imported(tmp_path: Path) -> None:
    code = "import tfbench.worker.__main__, tfbench.worker.benchmark"
    assert {"tensorflow", "keras", "mlflow"} & set(heavy_modules_after(code, tmp_path)) == set()
