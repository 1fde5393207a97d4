import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from runs import NO_CHECKS, Command, Finished, of_kind, run, tracked_files, tracked_runs
from tfbench.recipe.files import find_recipe
from tfbench.report.run.run_document import run_document
from tfbench.runs.stored import read_stored
from tfbench.store.briefs import read_briefs
from tfbench.store.store import Store

pytestmark = pytest.mark.slow

KEYS = {
    "recipe",
    "strategy",
    "devices",
    "num_replicas",
    "global_batch_size",
    "per_replica_batch_size",
    "num_parameters",
    "num_trainable_parameters",
    "dataset",
    "epochs",
    "summary",
    "environment",
    "cautions",
    "mlflow",
    "status",
}
EPOCH_KEYS = {
    "epoch",
    "epoch_seconds",
    "validation_seconds",
    "elapsed_seconds",
    "samples_per_second",
    "loss",
    "accuracy",
    "val_loss",
    "val_accuracy",
}
_DIVERGING = "optimizer={name='sgd',learning_rate=1000.0}"
STORED = ("--no-mlflow", *NO_CHECKS)
TWO_CPUS = ("--strategy", "mirrored", "--devices", "cpu:0,cpu:1")


class Done:
    """A run that is over: what it printed, what it stored, in MLflow where it was tracked there."""

    def __init__(self, finished: Finished, store: Path, name: str) -> None:
        self.finished = finished
        self.store = store
        self.tracked: Any = next((run for run in tracked_runs(store) if run.info.run_name.startswith(name)), None)
        found = read_stored(Store(store), name)
        journal = found.journal
        self.document: dict[str, Any] = run_document(found.result, found.summary, found.tracked)
        if self.tracked:
            self.document = _read_json(tracked_files(self.tracked) / "result.json")
            journal = tracked_files(self.tracked) / "journal.jsonl"
        self.journal = _read_lines(journal)
        self.spans = [span for record in of_kind(self.journal, "spans") for span in record["spans"]]


def run_two(folder: Path, first: tuple[str, ...], second: tuple[str, ...]) -> tuple[Done, Done]:
    """Runs two commands at once in one fresh store; two waits cost one."""
    commands = [
        Command("run", *arguments, "--name", name, cwd=folder)
        for name, arguments in (("first", first), ("second", second))
    ]
    done = [command.wait() for command in commands]
    for finished in done:
        assert finished.exit_code == 0, finished.stderr
    return Done(done[0], folder / "mlruns", "first"), Done(done[1], folder / "mlruns", "second")


@pytest.fixture(scope="module")
def plain_and_mirrored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Done]:
    return run_two(
        tmp_path_factory.mktemp("plain_and_mirrored"),
        ("sine_lstm", "--epochs", "3", "--format", "json"),
        ("mnist_hidden100_mlp", *TWO_CPUS, "--data", "synthetic", "--steps", "20", *NO_CHECKS),
    )


@pytest.fixture(scope="module")
def plain(plain_and_mirrored: tuple[Done, Done]) -> Done:
    return plain_and_mirrored[0]


@pytest.fixture(scope="module")
def mirrored(plain_and_mirrored: tuple[Done, Done]) -> Done:
    return plain_and_mirrored[1]


@pytest.fixture(scope="module")
def three_at_a_time_and_second_cpu(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Done]:
    return run_two(
        tmp_path_factory.mktemp("three_at_a_time_and_second_cpu"),
        ("sine_lstm", *TWO_CPUS, "--set", "training.steps_per_execution=3", "--epochs", "2", *STORED),
        (
            "sine_lstm",
            "--strategy",
            "one_device",
            "--devices",
            "cpu:1",
            "--set",
            "measurement.clock=step",
            "--epochs",
            "2",
            *STORED,
        ),
    )


@pytest.fixture(scope="module")
def compiled_and_diverging(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Done]:
    return run_two(
        tmp_path_factory.mktemp("compiled_and_diverging"),
        ("sine_lstm", "--set", "training.compiler=xla", "--steps", "5", *STORED),
        ("sine_lstm", "--epochs", "3", "--format", "json", *STORED, *_set(_DIVERGING, "deterministic=true")),
    )


def test_json_is_the_one_thing_on_stdout_and_has_every_key(plain: Done) -> None:
    document = plain.finished.document
    assert document.keys() >= KEYS
    assert document["status"] == "FINISHED"
    assert document["error"] is None
    assert document["strategy"] == "default"
    assert document["devices"] == ["cpu:0"]
    assert document["num_parameters"] == document["num_trainable_parameters"] == 236
    assert document["dataset"] == {
        "name": "sine",
        "source": "generated, 100 points",
        "synthetic": False,
        "train_samples": 80,
        "validation_samples": 10,
        "cache": "",
        "digest": "",
    }
    assert document["mlflow"].keys() == {"tracking_uri", "experiment_id", "run_id"}
    assert "epoch" in plain.finished.stderr  # the progress


def test_the_ledger_adds_up_to_the_time_of_the_process(plain: Done, mirrored: Done) -> None:
    for done in (plain, mirrored):
        summary = done.document["summary"]
        ledger = {name: seconds for name, seconds in summary.items() if name.startswith("ledger/")}
        wall = ledger.pop("ledger/wall_seconds")
        assert sum(ledger.values()) == pytest.approx(wall)
        assert wall == of_kind(done.journal, "exit")[0]["worker_seconds"]
        assert min(ledger.values()) >= 0
        epochs = done.document["epochs"]
        parts = sum(ledger[f"ledger/{part}_seconds"] for part in ("first_step", "warmup", "steady"))
        # Spans begin after the parts of the ledger do and end before; how long that takes, the machine says.
        assert sum(epoch["epoch_seconds"] for epoch in epochs) <= parts + 1e-6
        validating = sum(epoch["validation_seconds"] or 0.0 for epoch in epochs)
        assert parts + validating <= epochs[-1]["elapsed_seconds"] + 1e-6


def test_a_run_is_held_against_its_input_pipeline_and_the_peak_of_its_devices(plain: Done) -> None:
    summary = plain.document["summary"]
    assert summary["input_headroom"] == pytest.approx(
        summary["input_samples_per_second"] / summary["samples_per_second"]
    )
    # Three for each of 2,100 products, but none for the gradient of the data in the first 50.
    assert summary["training_flops_per_sample"] == 2 * (3 * 2100 - 50)
    assert summary["flops_per_second"] == pytest.approx(12_500 * summary["samples_per_second"])
    checks = plain.document["peak_checks"]
    peak = max(check["flops"] / check["seconds"] for check in checks)
    if min(check["other_share"] for check in checks) > 0.1:  # the other run, for one, may have disturbed them all
        assert summary["peak_flops_per_second"] is summary["model_flops_utilization"] is None
    else:
        assert summary["peak_flops_per_second"] == pytest.approx(peak)
        assert summary["model_flops_utilization"] == pytest.approx(summary["flops_per_second"] / peak)
    assert summary["peak_memory_bytes"] > 100 * 2**20
    assert 100 * 2**20 < summary["memory_before_model_bytes"] < 2 * summary["peak_memory_bytes"]


def test_an_epochs_figures_agree_with_each_other_and_with_its_spans(plain: Done) -> None:
    epochs = plain.document["epochs"]
    assert [epoch["epoch"] for epoch in epochs] == [1, 2, 3]
    for epoch in epochs:
        assert epoch.keys() >= EPOCH_KEYS
        spans = [span for span in plain.spans if span[0] == epoch["epoch"]]
        assert epoch["epoch_seconds"] == pytest.approx(sum(seconds for *_, seconds in spans))
        assert sum(last - first + 1 for _, first, last, _ in spans) == plain.document["steps_per_epoch"] == 8
        assert epoch["accuracy"] is None
        assert epoch["validation_seconds"] > 0
    for before, after in pairwise(epochs):
        assert after["elapsed_seconds"] >= before["elapsed_seconds"] + after["epoch_seconds"]
    assert len({epoch["loss"] for epoch in epochs}) == 3  # it trains; that it learns, more epochs show elsewhere


def test_spans_leave_no_step_out(
    plain: Done, mirrored: Done, three_at_a_time_and_second_cpu: tuple[Done, Done]
) -> None:
    for done in (plain, mirrored, *three_at_a_time_and_second_cpu):
        steps = [(first, last) for _, first, last, _ in done.spans]
        assert steps[0][0] == 1
        assert all(after[0] == before[1] + 1 for before, after in pairwise(steps))


def test_a_run_is_finished_in_mlflow_with_its_figures_and_files(plain: Done) -> None:
    assert plain.tracked.info.run_id == plain.document["mlflow"]["run_id"]
    assert plain.tracked.info.status == "FINISHED"
    data = plain.tracked.data
    assert {"global_batch_size", "strategy"} <= data.params.keys()
    assert {"loss", "val_loss", "samples_per_second"} <= data.metrics.keys()
    files = {path.name for path in tracked_files(plain.tracked).rglob("*") if path.is_file()}
    assert files >= {"journal.jsonl", "recipe.json", "environment.json", "result.json"}
    assert any(name.endswith(".png") for name in files)


def test_what_is_printed_is_what_is_stored(plain: Done) -> None:
    assert plain.finished.document == plain.document


def test_a_run_leaves_the_brief_that_its_journal_makes(mirrored: Done) -> None:
    journals = mirrored.store / "journals"
    left = {path: path.read_bytes() for path in journals.glob("*.brief.json")}
    assert len(left) == len(list(journals.glob("*.jsonl"))) == 2
    for path in left:
        path.unlink()
    store = Store(mirrored.store)
    read_briefs(store, store.run_ids())
    assert left == {path: path.read_bytes() for path in left}


def test_text_is_plain_when_it_is_piped(mirrored: Done) -> None:
    assert mirrored.finished.stderr == ""
    assert "\x1b" not in mirrored.finished.stdout
    assert "\r" not in mirrored.finished.stdout
    assert "FINISHED" in mirrored.finished.stdout


def test_two_logical_cpus_hold_two_replicas_and_a_caution_says_what_that_is_worth(mirrored: Done) -> None:
    document = mirrored.document
    assert document["devices"] == ["cpu:0", "cpu:1"]
    assert (document["num_replicas"], document["global_batch_size"], document["per_replica_batch_size"]) == (2, 128, 64)
    assert document["num_parameters"] == 79_510
    assert any("share the same cores" in caution for caution in document["cautions"])
    assert document["summary"]["steady_steps"] == 20


def test_synthetic_data_is_marked_wherever_an_accuracy_is_shown(mirrored: Done) -> None:
    assert mirrored.document["dataset"]["synthetic"] is True
    assert mirrored.document["dataset"]["source"].startswith("synthetic")
    assert any(caution.startswith("Synthetic data") for caution in mirrored.document["cautions"])
    assert mirrored.finished.stdout.lower().count("synthetic") >= 3  # header, accuracy, note
    tags = mirrored.tracked.data.tags
    assert "synthetic" in tags["mlflow.note.content"]
    assert any("synthetic" in value for name, value in tags.items() if name != "mlflow.note.content")


def test_runs_at_the_same_time_say_so(plain_and_mirrored: tuple[Done, Done]) -> None:
    cautions = [caution for done in plain_and_mirrored for caution in done.document["cautions"]]
    assert any("at the same time" in caution for caution in cautions)


def test_several_steps_an_execution_need_not_divide_the_epoch(
    three_at_a_time_and_second_cpu: tuple[Done, Done],
) -> None:
    done, _ = three_at_a_time_and_second_cpu
    assert done.document["settings"]["steps_per_execution"] == 3
    assert [epoch["num_steps"] for epoch in done.document["epochs"]] == [9, 9]  # 3 executions, for an epoch of 8 steps
    assert any("9 steps" in caution for caution in done.document["cautions"])
    assert done.document["num_replicas"] == 2


def test_one_device_uses_the_one_that_was_named(three_at_a_time_and_second_cpu: tuple[Done, Done]) -> None:
    _, done = three_at_a_time_and_second_cpu
    assert done.document["strategy"] == "one_device"
    assert done.document["devices"] == ["cpu:1"]


def test_a_clock_of_steps_cuts_at_every_step_and_is_a_caution(
    three_at_a_time_and_second_cpu: tuple[Done, Done],
) -> None:
    _, steps = three_at_a_time_and_second_cpu
    assert steps.document["summary"]["step_time_p99_seconds"] >= steps.document["summary"]["step_time_p90_seconds"] > 0
    assert any('clock = "step"' in caution for caution in steps.document["cautions"])
    assert all(first == last for _, first, last, _ in steps.spans)


def test_settings_are_the_same_in_all_strategies(
    plain: Done, mirrored: Done, three_at_a_time_and_second_cpu: tuple[Done, Done]
) -> None:
    arms = [plain, mirrored, *three_at_a_time_and_second_cpu]
    # Soft placement is off wherever a CPU is named; it decides nothing once the devices are verified.
    ignored = {"steps_per_execution", "soft_device_placement"}
    settings = [{k: v for k, v in arm.document["settings"].items() if k not in ignored} for arm in arms]
    assert all(setting == settings[0] for setting in settings)
    assert settings[0]["compiler"] == "graph"


def test_xla_is_on_where_it_was_asked_for(compiled_and_diverging: tuple[Done, Done]) -> None:
    done, _ = compiled_and_diverging
    assert done.document["settings"]["compiler"] == "xla"
    assert done.document["summary"]["steady_steps"] == 5


def test_a_loss_that_is_no_number_is_null_with_a_caution(compiled_and_diverging: tuple[Done, Done]) -> None:
    _, done = compiled_and_diverging
    document = done.finished.document  # valid JSON, although nan is none
    assert document["status"] == "FINISHED"
    assert document["settings"]["deterministic"] is True
    assert document["epochs"][-1]["loss"] is None
    assert document["summary"]["loss"] is None
    assert any("Loss was not finite" in caution for caution in document["cautions"])


def test_folders_and_files_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "Größe 1 &"
    folder.mkdir()
    for name in ("tensorflow", "json", "keras", "tfbench"):  # not to be taken for the modules
        (folder / f"{name}.py").write_text("raise SystemExit('the wrong module')\n", encoding="utf-8")
    text = find_recipe("sine_lstm").read_text(encoding="utf-8")
    (folder / "größe 速.toml").write_text(text.replace('title = "', 'title = "速 '), encoding="utf-8")
    done = run(
        "run", "größe 速.toml", "--steps", "2", *NO_CHECKS, "--store", "a store", cwd=folder, PYTHONIOENCODING="ascii"
    )
    assert done.exit_code == 0, done.stderr
    assert "? Sine wave LSTM" in done.stdout  # what the terminal cannot show
    (tracked,) = tracked_runs(folder / "a store")
    assert tracked.info.status == "FINISHED"
    assert (tracked_files(tracked) / "journal.jsonl").is_file()


def _set(*settings: str) -> Iterator[str]:
    for setting in settings:
        yield from ("--set", f"training.{setting}")


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _read_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
