"""Networks and data that a user brings along, from the command line to the journal."""

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from runs import NO_CHECKS, Finished, run
from tfbench.machine.lean_import import NOT_NEEDED, import_without
from tfbench.records.journal import read_records, replay
from tfbench.records.run import RunResult

RECIPE = """
[recipe]
title = "Mine"
source = "this test"

[model]
name = "mine.nets:build_model"
width = 5

[dataset]
name = "mine.data:load_splits"
samples = 40

[training]
global_batch_size = 20
epochs = 2
"""
TRACE = "import pathlib\npathlib.Path('imported').touch()\n"
NETS = """
import keras

def build_model(spec, width):
    layers = [keras.layers.Dense(width, activation="relu"), keras.layers.Dense(spec.num_classes)]
    return keras.Sequential([keras.Input(spec.input_shape), *layers])
"""
DATA = """
import numpy as np

def load_splits(data_dir, samples):
    y = np.arange(samples) % 3
    x = np.eye(3)[y] + np.random.default_rng(0).normal(size=(samples, 3)) / 10
    return (x, y), (x[:10], y[:10])
"""


def write_own(folder: Path, before: str = "") -> None:
    (folder / "mine").mkdir()
    (folder / "mine/nets.py").write_text(before + NETS, encoding="utf-8")
    (folder / "mine/data.py").write_text(before + DATA, encoding="utf-8")
    (folder / "mine.toml").write_text(RECIPE, encoding="utf-8")


def result_of(folder: Path) -> RunResult:
    (journal,) = (folder / "mlruns/journals").glob("*.jsonl")
    return replay(read_records(journal))


@pytest.mark.parametrize("arguments", [("run", "mine.toml"), ("show", "mine.toml", "--set", "dataset.name=mnist")])
def test_code_that_a_recipe_names_does_not_run_unasked(
    tfbench: Callable[..., Any], in_tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    write_own(in_tmp_path, TRACE)
    sys.modules.pop("mine", None)  # other tests have one of that name
    done = tfbench(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Error: model.name: mine.nets:build_model is code from outside of tfbench" in done.stderr
    assert done.stderr.rstrip().endswith("If you trust it, allow it with --allow-code.")
    assert sorted(path.name for path in in_tmp_path.iterdir()) == ["mine", "mine.toml"]
    assert "mine" not in sys.modules


def test_checking_a_recipe_and_printing_it_imports_no_code(tfbench: Callable[..., Any], in_tmp_path: Path) -> None:
    write_own(in_tmp_path, TRACE)
    assert tfbench("validate", "mine.toml", "--allow-code") == (0, "mine.toml: ok\n", "")
    assert 'name = "mine.nets:build_model"\nwidth = 5\n' in tfbench("show", "mine.toml", "--toml").stdout
    rejected = tfbench("show", "mine.toml", "--allow-code")
    assert rejected.exit_code == 2
    assert "only loading the data of mine.data:load_splits would tell its shapes" in rejected.stderr
    assert not Path("imported").exists()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Finished]]:
    """Runs that need TensorFlow, two at a time: name -> its folder, and what it left behind."""
    import_without("keras", NOT_NEEDED)
    import keras

    commands = {
        "code": ("mine.toml", "--allow-code", "--format", "json", "--no-mlflow", *NO_CHECKS),
        "file": (
            *("mnist_mlp", "--data", "synthetic", "--steps", "2", "--set", "model.file=nets/net.keras"),
            *("--strategy", "mirrored", "--devices", "cpu:0,cpu:1", "--no-mlflow", *NO_CHECKS),
        ),
    }
    folders = {name: tmp_path_factory.mktemp(name) for name in commands}
    write_own(folders["code"])
    (folders["file"] / "nets").mkdir()
    layers = [keras.layers.Flatten(), keras.layers.Dropout(0.5), keras.layers.Dense(10, activation="softmax")]
    keras.Sequential([keras.Input((28, 28, 1)), *layers]).save(folders["file"] / "nets/net.keras")
    with ThreadPoolExecutor(max_workers=2) as pool:
        futures = {
            name: pool.submit(run, "run", *arguments, cwd=folders[name], is_first=True)
            for name, arguments in commands.items()
        }
        return {name: (folders[name], future.result()) for name, future in futures.items()}


# Keras 3.15 reads a variable in a way that NumPy 2 deprecates, when it saves it.
SAVES = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")


@SAVES
@pytest.mark.slow
def test_own_network_and_own_data_are_measured(runs: dict[str, tuple[Path, Finished]]) -> None:
    folder, done = runs["code"]
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    (folder / "mine/nets.py").unlink()  # what was recorded needs it no more
    result = result_of(folder)
    assert result.status == "FINISHED"
    assert result.request.allows_code
    assert result.request.name == "mine-build_model-b20-default"
    assert result.model is not None and result.model.num_parameters == 3 * 5 + 5 + 5 * 3 + 3
    assert result.dataset is not None
    assert (result.dataset.train_samples, result.dataset.validation_samples) == (40, 10)
    assert result.dataset.source.startswith(f"code of {folder}/mine/data.py (SHA-256 ")
    assert len(result.epochs) == 2
    (note,) = [note for note in result.notes if "code of" in note]
    assert note.startswith(f"the network is code of {folder}/mine/nets.py (SHA-256 {result.model.digest})")
    assert result.dataset.source.endswith(f"(SHA-256 {result.dataset.digest})")
    assert note in document["warnings"]


@SAVES
@pytest.mark.slow
def test_a_saved_network_is_measured_on_a_shipped_workload(runs: dict[str, tuple[Path, Finished]]) -> None:
    folder, done = runs["file"]
    assert done.exit_code == 0, done.stderr
    (folder / "nets/net.keras").unlink()  # what was recorded needs it no more
    result = result_of(folder)
    assert result.request.recipe.model.options == {"file": f"{folder}/nets/net.keras", "compiled": True}
    assert result.model is not None and result.model.num_parameters == 7850
    assert result.placement is not None and result.placement.num_replicas == 2
    assert any("the network gives probabilities" in note for note in result.notes)
