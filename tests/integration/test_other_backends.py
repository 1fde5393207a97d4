"""Whole commands on JAX or PyTorch, as a user without TensorFlow starts them: `KERAS_BACKEND=jax pytest FILE`."""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

from runs import NO_CHECKS, run
from tfbench.datasets.mnist import NPZ_FILE

NAME = os.environ.get("KERAS_BACKEND", "tensorflow")
pytestmark = pytest.mark.skipif(NAME == "tensorflow", reason="the process trains with TensorFlow")
SMALL = ("--backend", NAME, "--data", "synthetic", "--set", "model.hidden_units=[8]", "--no-mlflow")


def test_a_run_is_whole_and_says_on_what_it_was_made(tmp_path: Path) -> None:
    assert importlib.util.find_spec("tensorflow") is None
    options = (
        "--epochs",
        "2",
        "--global-batch-size",
        "4096",
        "--save-model",
        "--set",
        "output.num_predictions=3",
        "--checkpoint-every",
        "1",
    )
    done = run("run", "mnist_mlp", *SMALL, *options, "--format", "json", cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    document = done.document
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
    options = (*SMALL, *NO_CHECKS, "--global-batch-size", "4096", "--checkpoint-every", "1", "--format", "json")
    whole = run("run", "mnist_mlp", *options, "--epochs", "3", cwd=tmp_path).document
    first = run("run", "mnist_mlp", *options, "--epochs", "2", cwd=tmp_path).document
    rest = run("run", "--resume", first["run_id"], "--epochs", "3", "--no-mlflow", "--format", "json", cwd=tmp_path)
    assert rest.exit_code == 0, rest.stderr
    assert [epoch["loss"] for epoch in rest.document["epochs"]] == pytest.approx(
        [epoch["loss"] for epoch in whole["epochs"]], rel=1e-5
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--strategy", "one_device"), f"strategy one_device: not on backend {NAME}: "),
        (("--devices", "gpu:0"), "gpu:0: not found."),
    ],
)
def test_what_cannot_be_is_rejected_with_its_reason(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    done = run("run", "mnist_mlp", *SMALL, *options, cwd=tmp_path)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_profile_tells_what_a_step_is_made_of(tmp_path: Path) -> None:
    is_torch = NAME == "torch"
    options = ("--backend", NAME, "--data", "synthetic", "--no-mlflow", "--seconds", "0.2", "--format", "json")
    trace = ("--trace",) if is_torch else ()
    done = run("profile", "mnist_hidden100_mlp", *options, *trace, cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    profile = done.document["profile"]
    step = profile["step"]
    names = ("input", "dispatch", "forward", "backward", "update", "keras loop")
    assert [phase["name"] for phase in step["phases"]] == list(names)
    rounds = [one["seconds"] for one in profile["readings"]["rounds"]]
    assert all(one.keys() == {*names[1:5], "keras", "take", "pipeline", "full"} for one in rounds)
    assert step["full_seconds"] > 0
    assert [layer["kind"] for layer in step["layers"]] == (["Flatten", "Dense", "Dense"] if is_torch else [])
    assert profile["readings"]["layers_problem"] == (
        ""
        if is_torch
        else 'XLA makes one program of all layers (compiler = "xla"): none can be timed apart. --backend tensorflow '
        "shows them as TensorFlow's graph computes them."
    )
    if is_torch:
        assert any("dense/aten::" in one["name"] for one in done.document["trace"]["readings"]["operations"])


@pytest.mark.skipif(NAME == "torch", reason="PyTorch has a trace")
def test_what_is_of_others_alone_is_rejected_before_anything_runs(tmp_path: Path) -> None:
    done = run("profile", "mnist_mlp", "--trace", *SMALL, cwd=tmp_path)
    assert done.exit_code == 2
    assert "--trace: tfbench reads no trace of JAX" in done.stderr
    assert not list(tmp_path.glob("mlruns/journals/*"))


def test_files_of_the_publisher_need_no_tensorflow_and_what_tfds_prepared_does(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        f"{kind}_{part}": rng.integers(0, 256 if kind == "x" else 10, (count, *shape), np.uint8)
        for part, count in (("train", 60_000), ("test", 10_000))
        for kind, shape in (("x", (28, 28)), ("y", ()))
    }
    np.savez(tmp_path / NPZ_FILE, **arrays)
    options = ("--backend", NAME, "--set", "model.hidden_units=[8]", "--steps", "3", "--no-mlflow", *NO_CHECKS)
    done = run("run", "mnist_mlp", *options, "--data-dir", str(tmp_path), "--format", "json", cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    assert done.document["dataset"]["source"].startswith("publisher's files, ")
    (tmp_path / "empty").mkdir()
    missing = run("run", "mnist_mlp", *options, "--data-dir", str(tmp_path / "empty"), cwd=tmp_path)
    assert missing.exit_code == 2
    assert "tensorflow is not installed" in missing.stderr


# Put in the way of every process; the measuring process of worker 1 naps whenever it has waited for its device: longer
# where that is timed, so that no pause of the other worker takes longer than all of its naps.
SLOW_WORKER = """
import json, sys, time
if sys.orig_argv[-2:-1] == ["tfbench.worker"]:
    with open(sys.orig_argv[-1], encoding="utf-8") as file:
        member = json.load(file)["request"].get("worker_rank") or {}
    if member.get("index") == 1:
        from tfbench.backends.jax.backend import BACKEND

        synchronize, trace_exchange, seconds = BACKEND.synchronize, BACKEND.trace_exchange, [0.05]

        def synchronize_and_nap():
            synchronize()
            time.sleep(seconds[-1])

        def trace_longer_naps(run):
            seconds.append(0.5)
            return trace_exchange(run)

        BACKEND.synchronize, BACKEND.trace_exchange = synchronize_and_nap, trace_longer_naps
"""


@pytest.mark.skipif(NAME != "jax", reason="PyTorch trains on one device")
def test_two_workers_train_as_one_and_the_slow_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "plant").mkdir()
    (tmp_path / "plant" / "sitecustomize.py").write_text(SLOW_WORKER, encoding="utf-8")
    options = (*SMALL, "--global-batch-size", "4096", "--epochs", "2", "--devices", "cpu:0", "--format", "json")
    one = run("run", "mnist_mlp", *options, *NO_CHECKS, cwd=tmp_path).document
    workers = ("--strategy", "multi_worker", "--workers", "2")
    path = os.pathsep.join([str(tmp_path / "plant"), os.environ.get("PYTHONPATH", "")])
    # They meet although there is a proxy, and nothing that is exempt from it.
    done = run("run", "mnist_mlp", *options, *workers, cwd=tmp_path, PYTHONPATH=path, no_proxy="")
    assert done.exit_code == 0, done.stderr
    two = done.document
    for figure in ("loss", "val_loss", "val_accuracy"):  # 10,000 validation samples: the last batch divides by two
        assert [epoch[figure] for epoch in two["epochs"]] == pytest.approx(
            [epoch[figure] for epoch in one["epochs"]], rel=1e-6
        )
    assert (two["num_workers"], two["num_replicas"]) == (2, 2)
    assert two["summary"]["collective_bytes_per_step"] >= 4 * two["num_trainable_parameters"]
    assert any("for worker 1 of 2" in text for text in two["warnings"])
