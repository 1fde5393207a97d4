"""What `show --parallel` predicts from links."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import build_placement, build_request, build_result
from journals import write_journal
from links import build_link
from rows import small_alexnet
from tfbench.cli import show
from tfbench.recipe import files
from tfbench.records.model_table import ModelTable
from tfbench.records.run import ModelSummary
from tfbench.store.links import save_link
from tfbench.store.store import Store

Cli = Callable[..., Any]
CPUS = ("cpu:0", "cpu:1")


@pytest.fixture(autouse=True)
def anywhere(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for the process that builds the network."""
    table = ModelTable(
        layers=tuple(small_alexnet()),
        num_parameters=477_424,
        num_trainable_parameters=477_424,
        num_kernel_weights=0,
        num_outputs=None,
        flops_per_sample=None,
        training_flops_per_sample=None,
    )
    monkeypatch.setattr(show, "_ask", lambda recipe, allows_code: table)


def test_nothing_is_predicted_from_logical_devices(tfbench: Cli, network: None) -> None:
    save_link(Store(Path("mlruns")), build_link(2, devices=CPUS))
    shown = json.loads(tfbench("show", "mnist_cnn", "--parallel", "--format", "json").stdout)
    assert shown["predictions"] == []
    assert shown["why_not_predicted"].startswith("No times: no link between GPUs of this machine is stored")


def test_a_link_and_a_run_on_one_gpu_predict_more_devices(tfbench: Cli, network: None) -> None:
    store = Store(Path("mlruns"))
    save_link(store, build_link(4, factors=(0.99, 1.0, 1.01)))
    done = tfbench("show", "mnist_cnn", "--parallel")
    assert "no run of mnist_cnn on one GPU with 128 samples a step is stored" in done.stdout.replace("\n  ", " ")
    recipe = files.load_recipe(files.find_recipe("mnist_cnn"))
    write_journal(
        store,
        build_result(
            request=build_request(recipe=recipe),
            model=ModelSummary(num_parameters=477_424, num_trainable_parameters=477_424),
            placement=build_placement(
                devices=("gpu:0",), hardware=("NVIDIA H100",), global_batch_size=128, per_replica_batch_size=128
            ),
        ),
    )
    lines = tfbench("show", "mnist_cnn", "--parallel", "--store", "mlruns").stdout.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("Predicted speed-up, not measured: from"))
    table = [line.split() for line in lines[start:]]
    assert ["devices", "data", "model", "hybrid"] in table
    assert [row[0] for row in table if row and row[0] in ("8", "64", "512")] == ["8", "64", "512"]
