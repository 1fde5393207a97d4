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
CALL = (
    "sys.argv = ['tfbench', '{}']\nimport tfbench.cli\ntry: tfbench.cli.main()\nexcept SystemExit:"
    " pass"
)
FRAMEWORKS = ("tensorflow", "keras", "mlflow")


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import tfbench", HEAVY),
        ("import tfbench.cli", HEAVY),
        (CALL.format("--help"), HEAVY),
        (CALL.format("--version"), HEAVY),
        (
            (
                "from tfbench.recipe.files import *\nfor name in list_recipes():"
                " load_recipe(find_recipe(name))"
            ),
            FRAMEWORKS,
        ),
        (
            "import tfbench.machine.frameworks, tfbench.runs.layer_record, tfbench.runs.process",
            FRAMEWORKS,
        ),
        ("import tfbench.comparisons.baseline", FRAMEWORKS),
        (
            "import tfbench; tfbench.run, tfbench.sweep, tfbench.compare, tfbench.load_runs",
            FRAMEWORKS,
        ),
        (
            (
                "import tfbench.cli as c; [c.cli.get_command(None, name) for name in"
                " c.cli.list_commands(None)]"
            ),
            FRAMEWORKS,
        ),
        # A worker hides GPUs, and rejects what cannot be, before TensorFlow is imported.
        ("import tfbench.measure.__main__, tfbench.measure.benchmark", FRAMEWORKS),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(
    code: str, heavy: tuple[str, ...], tmp_path: Path
) -> None:
    report = (
        f"import sys\n{code}\nsys.stderr.write(' '.join(m for m in {heavy} if m in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stderr.split() == []
