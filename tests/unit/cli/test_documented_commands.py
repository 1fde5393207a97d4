"""Commands of README.md and docs/ that take too long to be run whole, with planted speeds.

All else of them is run: options, recipes, plans, judging and what is printed.
"""

import shlex
import shutil
from pathlib import Path
from typing import Any

import keras
import pytest

import searches
from kinds import Cli
from pages import PAGES, ROOT, extract_commands
from tfbench.machine.facts import Gpu
from tfbench.runs import launch
from tfbench.sweeps import planning

MEASURING = ("run", "sweep", "crossover", "scale", "check")
READING = ("compare", "export", "list")  # what those before them left
# Parts of commands, and what they would need.
NEEDING = {
    "--ray": "Ray",
    "$SLURM": "Slurm",
    "run --resume": "a checkpoint, which no planted run leaves",
    "--store mnist_mlp": "an archive of results",
}
FUNCTIONS = "def build_model(): ...\ndef load_data(): ...\ndef build_large(): ...\n"


def list_planted(page: Path) -> list[str]:
    """Returns the commands of a page that measure, or show what was measured, and are not run whole."""
    text = page.read_text(encoding="utf-8")
    whole = extract_commands(text)
    planted = []
    for command in extract_commands(text, with_others=True):
        is_planted = command.split()[1] in (*MEASURING, *READING)
        lacks = any(part in command for part in NEEDING)
        if is_planted and not lacks and command not in whole:
            planted.append(command)
    return planted


PLANTED = {str(page.relative_to(ROOT)): list_planted(page) for page in PAGES}


@pytest.mark.usefixtures("with_gpus")
@pytest.mark.parametrize("page", [page for page, commands in PLANTED.items() if commands])
def test_commands_that_take_long_plan_and_judge_what_a_page_says(
    page: str, tfbench: Cli, in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches.plant_runs(monkeypatch)()
    for name in ("multi_worker", "model", "hybrid", "torch"):
        monkeypatch.setitem(searches.COSTS, name, searches.COSTS["jax"])
    monkeypatch.setattr(launch, "_list_visible_gpus", lambda: (Gpu(name="GPU"),) * 4)
    monkeypatch.setattr(planning, "is_installed", lambda backend: True)
    shutil.copytree(ROOT / "recipes", "recipes")
    Path("nets.py").write_text(FUNCTIONS, encoding="utf-8")
    for folder in ("FOLDER", "DIR"):
        Path(folder).mkdir()
    Path("mine.toml").write_bytes(Path("recipes", "mnist_mlp.toml").read_bytes())
    keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)]).save("net.keras")
    assert tfbench("run", "mnist_mlp", "--data", "synthetic").exit_code == 0  # of a page before
    for command in PLANTED[page]:
        done: Any = tfbench(*shlex.split(command, comments=True)[1:])
        assert done.exit_code == 0, (command, done.stderr)


def test_most_documented_commands_run() -> None:
    whole = sum(len(extract_commands(page.read_text(encoding="utf-8"))) for page in PAGES)
    planted = sum(map(len, PLANTED.values()))
    assert whole + planted >= 80
