"""Whole commands on JAX or PyTorch, as a user without TensorFlow starts them.

`KERAS_BACKEND=jax pytest FILE`.
"""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

from runs import NO_CHECKS, run, run_json
from tfbench.datasets.mnist import NPZ_FILE

NAME = os.environ.get("KERAS_BACKEND", "tensorflow")
pytestmark = pytest.mark.skipif(NAME == "tensorflow", reason="the process trains with TensorFlow")
SMALL = f"--backend {NAME} --data synthetic --set model.hidden_units=[8] --no-mlflow".split()


def test_a_run_is_whole_and_says_on_what_it_was_made(tmp_path: Path) -> None:
    assert importlib.util.find_spec("tensorflow") is None
    line = "run mnist_mlp --epochs 2 --global-batch-size 4096 --save-model --checkpoint-every 1"
    predictions = ("--set", "output.num_predictions=3")
    document = run_json(*line.split(), *SMALL, *predictions, cwd=tmp_path)
    assert document["settings"]["backend"] == NAME
    assert document["settings"]["compiler"] == {"jax": "xla", "torch": "eager"}[NAME]
    assert document["environment"][NAME]
    assert document["environment"]["tensorflow"] is None
    assert document["devices"] == ["cpu:0"]
    assert [epoch["num_steps"] for epoch in document["epochs"]] == [15, 15]
    assert document["epochs"][1]["loss"] < document["epochs"][0]["loss"]
    assert document["peak_checks"]
    assert document["input_check"]
    assert len(document["predictions"]["first_predictions"]) == 3


def test_a_run_that_is_gone_on_with_is_the_one_that_never_stopped(tmp_path: Path) -> None:
    line = [
        "run",
        "mnist_mlp",
        "--global-batch-size",
        "4096",
        "--checkpoint-every",
        "1",
        "--epochs",
    ]
    whole = run_json(*line, "3", *SMALL, *NO_CHECKS, cwd=tmp_path)
    first = run_json(*line, "2", *SMALL, *NO_CHECKS, cwd=tmp_path)
    again = f"run --resume {first['run_id']} --epochs 3 --no-mlflow"
    rest = run_json(*again.split(), cwd=tmp_path)
    assert [epoch["loss"] for epoch in rest["epochs"]] == pytest.approx(
        [epoch["loss"] for epoch in whole["epochs"]], rel=1e-5
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--strategy", "one_device"), f"strategy one_device: not on backend {NAME}: "),
        (("--devices", "gpu:0"), "gpu:0: not found."),
    ],
)
def test_what_cannot_be_is_rejected_with_its_reason(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = run("run", "mnist_mlp", *SMALL, *options, cwd=tmp_path)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_profile_tells_what_a_step_is_made_of(tmp_path: Path) -> None:
    is_torch = NAME == "torch"
    line = f"profile mnist_hidden100_mlp --backend {NAME} --data synthetic --no-mlflow".split()
    trace = ("--trace",) if is_torch else ()
    document = run_json(*line, "--seconds", "0.2", *trace, cwd=tmp_path)
    profile = document["profile"]
    step = profile["step"]
    names = ("input", "dispatch", "forward", "backward", "update", "keras loop")
    assert [phase["name"] for phase in step["phases"]] == list(names)
    rounds = [one["seconds"] for one in profile["readings"]["rounds"]]
    assert all(one.keys() == {*names[1:5], "keras", "take", "pipeline", "full"} for one in rounds)
    assert step["full_seconds"] > 0
    assert [layer["kind"] for layer in step["layers"]] == (
        ["Flatten", "Dense", "Dense"] if is_torch else []
    )
    assert profile["readings"]["layers_problem"] == (
        ""
        if is_torch
        else (
            'XLA makes one program of all layers (compiler = "xla"): none can be timed apart.'
            " --backend tensorflow shows them as TensorFlow's graph computes them."
        )
    )
    if is_torch:
        assert any(
            "dense/aten::" in one["name"] for one in document["trace"]["readings"]["operations"]
        )


def test_files_of_the_publisher_need_no_tensorflow_and_what_tfds_prepared_does(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        f"{kind}_{part}": rng.integers(0, 256 if kind == "x" else 10, (count, *shape), np.uint8)
        for part, count in (("train", 60_000), ("test", 10_000))
        for kind, shape in (("x", (28, 28)), ("y", ()))
    }
    np.savez(tmp_path / NPZ_FILE, **arrays)
    settings = f"--backend {NAME} --set model.hidden_units=[8] --steps 3 --no-mlflow".split()
    line = ("run", "mnist_mlp", *settings, *NO_CHECKS, "--data-dir")
    document = run_json(*line, str(tmp_path), cwd=tmp_path)
    assert document["dataset"]["source"].startswith("publisher's files, ")
    (tmp_path / "empty").mkdir()
    missing = run(*line, str(tmp_path / "empty"), cwd=tmp_path)
    assert missing.exit_code == 2
    assert "tensorflow is not installed" in missing.stderr
