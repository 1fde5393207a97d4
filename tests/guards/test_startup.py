"""The command line starts with Click and the standard library.

The parent never imports TensorFlow.
"""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "tensorflow",
    "keras",
    "mlflow",
    "pydantic",
    "numpy",
    "rich",
    "matplotlib",
    "pandas",
    "scipy",
    "psutil",
)
FRAMEWORKS = ("tensorflow", "tensorflow_datasets", "keras", "jax", "torch", "mlflow")
CALL = """
sys.argv = ["tfbench", "{}"]
try:
    tfbench.cli.main()
except SystemExit:
    pass
"""
LIGHT = ("import tfbench", "import tfbench.cli", CALL.format("--help"), CALL.format("--version"))
WITHOUT_FRAMEWORKS = (
    "import tfbench; tfbench.run, tfbench.sweep, tfbench.compare, tfbench.load_runs",
    "import tfbench.cli as c; [c.cli.get_command(None, n) for n in c.cli.list_commands(None)]",
    "from tfbench.recipe.files import *; [load_recipe(find_recipe(n)) for n in list_recipes()]",
    "import tfbench.machine.frameworks, tfbench.runs.layer_record, tfbench.runs.process",
    "import tfbench.comparisons.regression",
    # What the parent reads of all models and data sets.
    "from tfbench.recipe.registry import *; "
    "[find_config(kind, n) for kind in ('models', 'datasets') for n in list_names(kind)]",
    # A worker hides GPUs, and rejects what cannot be, before TensorFlow is imported.
    "import tfbench.measure.__main__, tfbench.measure.benchmark",
)


@pytest.mark.parametrize(("codes", "heavy"), [(LIGHT, HEAVY), (WITHOUT_FRAMEWORKS, FRAMEWORKS)])
def test_nothing_heavy_is_imported_before_it_is_needed(
    codes: tuple[str, ...], heavy: tuple[str, ...], tmp_path: Path
) -> None:
    program = "import sys\n"
    for code in codes:
        program += f"{code}\nprint([m for m in {heavy} if m in sys.modules], file=sys.stderr)\n"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    imported = dict(zip(codes, done.stderr.splitlines(), strict=True))
    assert imported == dict.fromkeys(codes, "[]")
