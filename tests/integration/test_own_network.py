"""Networks and data that a user brings along, from the command line to the journal."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runs import NO_CHECKS, run_json
from tfbench.store.journal import read_records, replay

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

from mine import blocks

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
    (folder / "mine/blocks.py").write_text("", encoding="utf-8")
    (folder / "mine/data.py").write_text(before + DATA, encoding="utf-8")
    (folder / "mine.toml").write_text(RECIPE, encoding="utf-8")


@pytest.mark.parametrize(
    "arguments", [("run", "mine.toml"), ("show", "mine.toml", "--set", "dataset.name=mnist")]
)
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


def test_checking_a_recipe_and_printing_it_imports_no_code(
    tfbench: Callable[..., Any], in_tmp_path: Path
) -> None:
    write_own(in_tmp_path, TRACE)
    assert tfbench("validate", "mine.toml", "--allow-code") == (0, "mine.toml: ok\n", "")
    assert (
        'name = "mine.nets:build_model"\nwidth = 5\n'
        in tfbench("show", "mine.toml", "--toml").stdout
    )
    rejected = tfbench("show", "mine.toml", "--allow-code")
    assert rejected.exit_code == 2
    assert "needs the shapes of mine.data:load_splits" in rejected.stderr
    assert not Path("imported").exists()


@pytest.mark.slow
def test_own_network_and_own_data_are_measured(tmp_path: Path) -> None:
    write_own(tmp_path)
    document = run_json("run", "mine.toml", "--allow-code", "--no-mlflow", *NO_CHECKS, cwd=tmp_path)
    (tmp_path / "mine/nets.py").unlink()  # what was recorded needs it no more
    (journal,) = (tmp_path / "mlruns/journals").glob("*.jsonl")
    result = replay(read_records(journal))
    assert result.status == "FINISHED"
    assert result.request.allows_code
    assert result.request.name == "mine-build_model-width=5-b20-default"
    assert result.model is not None and result.model.num_parameters == 3 * 5 + 5 + 5 * 3 + 3
    assert result.dataset is not None
    assert (result.dataset.train_samples, result.dataset.validation_samples) == (40, 10)
    assert (
        result.dataset.source
        == f"code of {tmp_path}/mine/data.py (SHA-256 {result.dataset.files['mine/data.py']})"
    )
    assert len(result.epochs) == 2
    assert set(result.model.files) == {"mine/blocks.py", "mine/data.py", "mine/nets.py"}
    (note,) = [note for note in document["notes"] if note.startswith("The network is code of")]
    assert f"mine/blocks.py {result.model.files['mine/blocks.py']}" in note
