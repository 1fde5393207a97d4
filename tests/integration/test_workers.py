"""Two workers train as one, and end when one of them is gone.

The latter are workers of two commands, as on two machines.
"""

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import free_port
from fake_workers import read_journal
from runs import NO_CHECKS, Command, journal_of, of_kind, run, wait_for_the_end_of, wait_until
from tfbench.runs.placement_record import JOINING
from tfbench.store.run_folder import WORKERS

NAME = os.environ.get("KERAS_BACKEND", "tensorflow")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NAME == "torch", reason="PyTorch trains in one process"),
]
SMALL = (
    *f"run mnist_mlp --backend {NAME} --data synthetic --set model.hidden_units=[8]".split(),
    *("--no-mlflow", *NO_CHECKS, "--strategy", "multi_worker", "--devices", "cpu:0"),
)


# The last batch of its validation has five samples.
NETWORK = """
import keras
import numpy as np

def build_model():
    layers = [keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.MaxPooling2D(), keras.layers.Flatten()]
    model = keras.Sequential([keras.Input((12, 12, 1)), *layers, keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    return model

def load_data():
    rng = np.random.default_rng(1)
    return tuple((rng.random((num, 12, 12, 1), np.float32), rng.integers(0, 10, num)) for num in (96, 29))
"""


def test_two_workers_train_validate_and_predict_as_one(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(NETWORK, encoding="utf-8")
    options = "--global-batch-size 12 --epochs 3 --devices cpu:0 --no-mlflow --format json"
    words = ["run", "nets.py:build_model", "--backend", NAME, *options.split()]
    for setting in (
        "training.steps_per_execution=4",
        "training.feed=pipeline",  # each worker takes its part of batches
        "output.num_predictions=3",
        "output.checkpoint_every_epochs=3",
    ):
        words += ["--set", setting]
    one = run(*words, *NO_CHECKS, cwd=tmp_path)
    two = run(*words, "--strategy", "multi_worker", "--workers", "2", cwd=tmp_path, no_proxy="")
    assert (one.exit_code, two.exit_code) == (0, 0), two.stderr
    for figure in ("loss", "accuracy", "val_loss", "val_accuracy"):
        expected = [epoch[figure] for epoch in one.document["epochs"]]
        assert [epoch[figure] for epoch in two.document["epochs"]] == pytest.approx(
            expected, rel=1e-5
        ), figure
    assert two.document["predictions"] == one.document["predictions"]
    of_one, of_two = sorted(
        tmp_path.rglob("epoch_000003.npz"), key=lambda path: path.stat().st_mtime
    )
    with (
        np.load(of_one) as alone,
        np.load(of_two) as together,
    ):  # weights and Adam's variables after 24 steps
        assert alone.files == together.files
        for name in alone.files[1:]:
            np.testing.assert_allclose(together[name], alone[name], rtol=1e-5, atol=1e-5)
    assert two.document["per_replica_batch_size"] == 6
    # TensorFlow's profiler crashes now and then in the trace of several workers.
    is_lost = any(
        "crashed with SIG" in text or "was not timed" in text for text in two.document["warnings"]
    )
    assert two.document["summary"].get("transfer_seconds_per_step", 0.0) > 0 or (
        NAME == "tensorflow" and is_lost
    )
    if NAME == "jax":
        assert (
            two.document["summary"]["collective_bytes_per_step"]
            >= 4 * two.document["num_trainable_parameters"]
        )
    if NAME == "tensorflow":
        journal = journal_of(tmp_path / "mlruns")
        assert of_kind(journal, "replica_check")[0]["replica_check"] == {
            "num_replicas": 2,
            "reason": "",
            "fault": "",
        }
        placement = of_kind(journal, "ready")[0]["placement"]
        assert (placement["cross_device_ops"], placement["feed"]) == ("ring", "direct")


def choose_coordinator() -> str:
    """Returns the addresses of two workers on this machine."""
    return f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"


def start_two(tmp_path: Path, *options: tuple[str, ...]) -> list[Command]:
    """Starts a worker on each of two machines, with options of its own."""
    coordinator = choose_coordinator()
    commands = []
    for index, own in enumerate(options):
        folder = tmp_path / str(index)
        folder.mkdir()
        place = ("--coordinator", coordinator, "--worker-index", str(index), "--format", "json")
        commands.append(Command(*SMALL, *place, *own, cwd=folder, no_proxy=""))
    return commands


def test_workers_of_two_commands_train_as_one_until_one_is_gone(tmp_path: Path) -> None:
    first, second = start_two(
        tmp_path, *[("--epochs", "100000", "--global-batch-size", "4096")] * 2
    )

    def journal_of_second() -> list[dict[str, Any]]:
        paths = list(second.store.rglob(f"{WORKERS}/1.jsonl"))
        return read_journal(paths[0]) if paths else []

    epoch = first.wait_for("epoch")[0]["epoch"]
    wait_until(lambda: bool(of_kind(journal_of_second(), "epoch")), "an epoch of the second worker")
    assert of_kind(journal_of_second(), "epoch")[0]["epoch"]["loss"] == pytest.approx(
        epoch["loss"], rel=1e-6
    )
    worker = first.worker()
    os.kill(of_kind(journal_of_second(), "worker")[0]["pid"], signal.SIGKILL)
    ended = [command.wait() for command in (first, second)]
    assert [done.exit_code for done in ended] == [1, 1]
    wait_for_the_end_of(worker)
    (end,) = of_kind(first.journal(), "exit")
    assert (end["status"], "another worker ended" in end["reason"]) == ("FAILED", True), end
    assert ended[0].document["epochs"]
    assert ended[1].document["reason"].startswith("worker 1 of 2 was killed by SIGKILL")
    assert Path(ended[1].document["journal"]).parent.name == WORKERS


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_waits_for_the_others_ends_with_its_command(
    tmp_path: Path, number: signal.Signals
) -> None:
    place = ("--coordinator", choose_coordinator(), "--worker-index", "0")
    with Command(*SMALL, *place, cwd=tmp_path, no_proxy="") as command:
        worker = command.worker()
        wait_until(
            lambda: JOINING in [one.get("name") for one in command.journal()],
            "the worker that waits",
        )
        time.sleep(1.0)  # it has begun to
        command.send(number)
        command.process.wait(20)
        wait_for_the_end_of(worker)


def test_a_worker_that_was_asked_for_something_else_is_rejected_by_both(tmp_path: Path) -> None:
    for command in start_two(tmp_path, ("--steps", "20"), ("--steps", "20", "--seed", "7")):
        done = command.wait()
        assert done.exit_code == 2
        assert "worker 1 has another [training] of the recipe than worker 0" in " ".join(
            done.stderr.split()
        )
        assert not list(command.store.rglob("*.jsonl"))
