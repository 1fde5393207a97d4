"""Runs in real processes.

Their figures agree with each other, and settings are what was asked for.
"""

import math
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from browser import free_port
from fake_workers import read_journal
from holding import plant
from runs import NO_CHECKS, Command, of_kind, run, run_json, tracked_files, tracked_runs
from tfbench.recipe.files import find_recipe

pytestmark = pytest.mark.slow


# A GPU that draws 10 W by the machine's clock, on which every run is taken to be.
POWERED = """
import threading
import time
from tfbench.machine import energy_counters as energy
from tfbench.machine.energy_readings import EnergySource, GpuState

latest = threading.local()

class Clock:
    @staticmethod
    def monotonic():
        latest.seconds = time.monotonic()
        return latest.seconds

class Card:
    def __init__(self, address):
        self.source = EnergySource(name=address, resolution_seconds=0.001)

    def why_not_counted(self):
        return ""

    def read(self):  # exactly at the time that the reading has: a busy machine may take long between the two
        return 10.0 * latest.seconds

    def read_state(self):
        return GpuState(temperature_celsius=60.0)

energy.time = Clock
energy.WatchedGpu = Card
energy.why_not = lambda *question: ""
energy.ask_nvml = lambda *question: None
energy.addresses_in_use = lambda *devices: ["0000:3b:00.0"]
"""
NOBODY = f"http://127.0.0.1:{free_port()}"  # nothing listens there
TWO_CPUS = ("--strategy", "mirrored", "--devices", "cpu:0,cpu:1")
# Two at a time: two waits cost one.
RUNS = {
    "plain": ("sine_lstm", "--epochs", "3"),
    "mirrored": (
        *["mnist_hidden100_mlp", "--data", "synthetic", "--steps", "20"],
        *(*TWO_CPUS, *NO_CHECKS),
    ),
    "three_at_a_time": (
        *("sine_lstm", *TWO_CPUS, "--epochs", "2", "--no-mlflow", *NO_CHECKS),
        *("--set", "training.steps_per_execution=3", "--set", "training.deterministic=true"),
        *("--set", "training.optimizer={name='sgd',learning_rate=1000.0}"),
    ),
    "second_cpu": (
        *["sine_lstm", "--strategy", "one_device", "--devices", "cpu:1", "--epochs", "2"],
        *(*NO_CHECKS, "--set", "measurement.clock=step", "--tracking-uri", NOBODY),
    ),
}


class Done:
    """A run that is over: what it printed, and its journal."""

    def __init__(self, command: Command) -> None:
        finished = command.wait()
        assert finished.exit_code == 0, finished.stderr
        self.stderr = finished.stderr
        self.document: dict[str, Any] = finished.document
        path = command.store / "journals" / f"{self.document['run_id']}.jsonl"
        self.journal = read_journal(path)
        self.spans = [span for record in of_kind(self.journal, "spans") for span in record["spans"]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    """Returns them all, by their names."""
    folder = tmp_path_factory.mktemp("runs")
    powered = plant(folder, POWERED)
    own = {"plain": powered}  # which starts cold
    done: dict[str, Done] = {}
    for names in zip(*[iter(RUNS)] * 2, strict=True):
        commands = {}
        for name in names:
            words = ("run", *RUNS[name], "--name", name, "--format", "json")
            commands[name] = Command(*words, cwd=folder, **own.get(name, {}))
        done |= {name: Done(command) for name, command in commands.items()}
    return done


def test_the_breakdown_adds_up_to_the_time_of_the_process(runs: dict[str, Done]) -> None:
    for done in (runs["plain"], runs["mirrored"]):
        summary = done.document["summary"]
        breakdown = {
            name: seconds for name, seconds in summary.items() if name.startswith("breakdown/")
        }
        wall = breakdown.pop("breakdown/wall_seconds")
        assert sum(breakdown.values()) == pytest.approx(wall)
        assert wall == of_kind(done.journal, "exit")[0]["worker_seconds"]
        assert min(breakdown.values()) >= 0
        epochs = done.document["epochs"]
        parts = sum(
            breakdown[f"breakdown/{part}_seconds"] for part in ("first_step", "warmup", "steady")
        )
        # Spans begin after the parts of the time breakdown do and end before; how long that takes,
        # the machine says.
        assert sum(epoch["epoch_seconds"] for epoch in epochs) <= parts + 1e-6
        validating = sum(epoch["validation_seconds"] or 0.0 for epoch in epochs)
        assert parts + validating <= epochs[-1]["elapsed_seconds"] + 1e-6


def test_a_text_is_read_in_bits_per_byte_and_tokens_per_second(tmp_path: Path) -> None:
    options = ("--data-dir", __file__, "--epochs", "2", "--no-mlflow", *NO_CHECKS)
    sizes = ("model.width=8", "model.depth=1", "dataset.num_samples=480", "dataset.context=8")
    small = [word for size in sizes for word in ("--set", size)]
    document = run_json("run", "text_gpt", *options, *small, cwd=tmp_path)
    summary = document["summary"]
    metrics = [epoch["metrics"] for epoch in document["epochs"]]
    assert [one["bits_per_byte"] for one in metrics] == [
        e["loss"] / math.log(2) for e in document["epochs"]
    ]
    assert (
        metrics[1]["val_bits_per_byte"]
        == summary["val_bits_per_byte"]
        < metrics[0]["val_bits_per_byte"]
        < 8
    )
    assert summary["tokens_per_second"] == pytest.approx(8 * summary["samples_per_second"])


def test_a_run_is_held_against_its_input_pipeline_and_the_peak_of_its_devices(
    runs: dict[str, Done],
) -> None:
    document = runs["plain"].document
    summary = document["summary"]
    assert summary["input_headroom"] > 0
    # Three for each of 2,100 products, but none for the gradient of the data in the first 50.
    assert summary["training_flops_per_sample"] == 2 * (3 * 2100 - 50)
    assert summary["flops_per_second"] == pytest.approx(12_500 * summary["samples_per_second"])
    checks = document["peak_checks"]
    peak = max(check["flops"] / check["seconds"] for check in checks)
    if (
        min(check["other_share"] for check in checks) > 0.1
    ):  # the other run, for one, may have disturbed them all
        assert summary.keys().isdisjoint({"peak_flops_per_second", "model_flops_utilization"})
    else:
        assert summary["peak_flops_per_second"] == pytest.approx(peak)
        assert summary["model_flops_utilization"] == pytest.approx(
            summary["flops_per_second"] / peak
        )
    assert summary["peak_memory_bytes"] > 100 * 2**20
    assert 100 * 2**20 < summary["memory_before_model_bytes"] < 2 * summary["peak_memory_bytes"]


def test_a_gpu_of_ten_watts_is_found_to_draw_ten_watts(runs: dict[str, Done]) -> None:
    document = runs["plain"].document
    journal = runs["plain"].journal
    energy = document["energy"]
    assert energy["problems"] == []
    assert document["summary"]["mean_watts"] == pytest.approx(10.0)
    assert energy["samples"] == (3 * 8 - 10) * document["global_batch_size"]
    assert [one["reading"]["moment"] for one in of_kind(journal, "energy")] == ["steady", "end"]
    assert of_kind(journal, "machine")  # looks of the parent


def test_a_server_that_is_down_costs_one_warning_and_no_figure(runs: dict[str, Done]) -> None:
    done = runs["second_cpu"]
    assert (done.stderr.count("warning: "), NOBODY in done.stderr) == (1, True)
    assert (done.document["status"], done.document["mlflow"]) == ("FINISHED", None)
    assert any(warning.startswith("not tracked: ") for warning in done.document["warnings"])
    assert len(done.document["epochs"]) == 2


def test_a_dry_run_says_what_a_run_would_be_and_leaves_nothing(tmp_path: Path) -> None:
    recipe = ("mnist_hidden100_mlp", "--data", "synthetic", "--dry-run")
    document = run_json("run", *recipe, cwd=tmp_path)
    assert (document["status"], document["epochs"]) == ("DRY_RUN", [])
    assert document["num_parameters"] == 79_510
    per_step = document["guessed_seconds"] / document["steps_per_epoch"]
    assert 1e-3 <= per_step < 100
    assert list(tmp_path.rglob("*.jsonl")) == []


def test_an_epochs_figures_agree_with_each_other_and_with_its_spans(runs: dict[str, Done]) -> None:
    plain = runs["plain"]
    epochs = plain.document["epochs"]
    assert [epoch["epoch"] for epoch in epochs] == [1, 2, 3]
    for epoch in epochs:
        spans = [span for span in plain.spans if span[0] == epoch["epoch"]]
        assert epoch["epoch_seconds"] == pytest.approx(sum(seconds for *_, seconds in spans))
        assert (
            sum(last - first + 1 for _, first, last, _ in spans)
            == plain.document["steps_per_epoch"]
            == 8
        )
        assert epoch["accuracy"] is None
        assert epoch["validation_seconds"] > 0
    for before, after in pairwise(epochs):
        assert after["elapsed_seconds"] >= before["elapsed_seconds"] + after["epoch_seconds"]
    assert (
        len({epoch["loss"] for epoch in epochs}) == 3
    )  # it trains; that it learns, more epochs show elsewhere


@pytest.mark.parametrize(
    ("name", "figures", "warning"),
    [
        (
            "mirrored",
            {"devices": ["cpu:0", "cpu:1"], "num_replicas": 2, "per_replica_batch_size": 64},
            "share all",
        ),
        ("mirrored", {"num_parameters": 79_510, "global_batch_size": 128}, "Synthetic data"),
        (
            "three_at_a_time",
            {"num_replicas": 2},
            "9 steps",
        ),  # three executions, for an epoch of 8 steps
        ("three_at_a_time", {"status": "FINISHED"}, "Loss was not finite"),
    ],
)
def test_a_run_is_what_was_asked_for_and_says_what_it_is_worth(
    runs: dict[str, Done], name: str, figures: dict[str, Any], warning: str
) -> None:
    document = runs[name].document
    assert {key: document[key] for key in figures} == figures
    assert any(warning in text for text in (*document["warnings"], *document["notes"]))


def test_runs_at_the_same_time_say_so(runs: dict[str, Done]) -> None:
    """Of the first two, one starts cold, and the other may be over by then."""
    warnings = [warning for done in runs.values() for warning in done.document["warnings"]]
    assert any("at the same time" in warning for warning in warnings)


def test_limits_executions_and_the_clock_are_kept(runs: dict[str, Done]) -> None:
    assert runs["mirrored"].document["summary"]["steady_steps"] == 20
    assert [epoch["num_steps"] for epoch in runs["three_at_a_time"].document["epochs"]] == [9, 9]
    assert all(first == last for _, first, last, _ in runs["second_cpu"].spans)
    document = runs["second_cpu"].document
    assert (document["strategy"], document["devices"]) == ("one_device", ["cpu:1"])


def test_settings_are_the_same_in_all_strategies(runs: dict[str, Done]) -> None:
    # Soft placement is off wherever a CPU is named; it decides nothing once the devices are
    # verified.
    ignored = {"steps_per_execution", "soft_device_placement", "deterministic"}
    (ready,) = of_kind(runs["plain"].journal, "ready")
    assert ready["environment"]["niceness"] == os.getpriority(os.PRIO_PROCESS, 0)
    plain, *others = (
        {key: value for key, value in runs[name].document["settings"].items() if key not in ignored}
        for name in ("plain", "mirrored", "three_at_a_time", "second_cpu")
    )
    assert others == [plain] * 3
    assert plain["compiler"] == "graph"
    diverging = runs["three_at_a_time"].document  # valid JSON, although nan is none
    assert diverging["settings"]["deterministic"] is True
    assert diverging["epochs"][-1]["loss"] is diverging["summary"]["loss"] is None


def test_folders_and_files_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "Größe 1 &"
    folder.mkdir()
    for name in ("tensorflow", "json", "keras", "tfbench"):  # not to be taken for the modules
        (folder / f"{name}.py").write_text(
            "raise SystemExit('the wrong module')\n", encoding="utf-8"
        )
    text = find_recipe("sine_lstm").read_text(encoding="utf-8")
    (folder / "größe 速.toml").write_text(
        text.replace('title = "', 'title = "速 '), encoding="utf-8"
    )
    words = ("run", "größe 速.toml", "--steps", "2", "--store", "a store", *NO_CHECKS)
    done = run(*words, cwd=folder, PYTHONIOENCODING="ascii")
    assert done.exit_code == 0, done.stderr
    assert "? Sine wave LSTM" in done.stdout  # what the terminal cannot show
    assert not {"\x1b", "\r"} & set(done.stdout)  # plain, since it is piped
    (tracked,) = tracked_runs(folder / "a store")
    assert tracked.info.status == "FINISHED"
    files = {path.name for path in tracked_files(tracked).rglob("*") if path.is_file()}
    assert files >= {"journal.jsonl", "result.json"}
    assert any(name.endswith(".png") for name in files)
