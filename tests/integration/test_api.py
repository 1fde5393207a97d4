"""tfbench from Python: what is made, what is read, and what is told of it."""

import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
import pytest

import tfbench
from journals import make_database
from tfbench.errors import RecipeError, UnknownNameError
from tfbench.records.run import EpochRecord, RunResult
from tfbench.runs.observer import SilentObserver
from tfbench.store.store import Store

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "first_verdict.py"
BATCH = "training.global_batch_size"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the example leaves behind, run in a folder of its own, and that folder."""
    folder = tmp_path_factory.mktemp("example")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        make_database(Store(folder / "mlruns"))
        yield runpy.run_path(str(EXAMPLE)) | {"folder": folder}


def test_the_example_measures_a_run(example: dict[str, Any]) -> None:
    run = example["run"]
    assert (run.status, run.reason) == ("FINISHED", "")
    assert run.metrics["samples_per_second"] > 0
    assert run.metrics["global_batch_size"] == 128
    assert run.tracked is not None
    assert run.tracked.tracking_uri == Store(example["folder"] / "mlruns").tracking_uri


def test_the_example_sweeps_two_batch_sizes(example: dict[str, Any]) -> None:
    swept = example["swept"]
    assert (swept.end.num_cells, swept.end.num_left, swept.end.num_failed) == (2, 0, 0)
    assert swept.view_problem == ""
    rows = swept.rows()
    assert [(row[BATCH], row["arm"], row["num_runs"]) for row in rows] == [
        (32, "default cpu:0", 1),
        (512, "default cpu:0", 1),
    ]
    assert all(row["samples_per_second"] > 0 for row in rows)
    assert swept.verdict == tfbench.compare(sweep=swept.sweep_id, store=example["folder"] / "mlruns").verdict


def test_the_example_has_all_runs_in_a_table(example: dict[str, Any]) -> None:
    runs = example["runs"]
    assert isinstance(runs, pandas.DataFrame)
    assert sorted(runs[BATCH]) == [32, 128, 512]
    assert set(runs["status"]) == {"FINISHED"}
    assert runs["samples_per_second"].dtype == float


def test_a_run_is_read_back_as_it_was_made(example: dict[str, Any]) -> None:
    run, store = example["run"], example["folder"] / "mlruns"
    again = tfbench.read_run(run.run_id, store=store)
    assert (again.result, again.metrics, again.tracked) == (run.result, run.metrics, run.tracked)
    assert again.row() == run.row() == tfbench.load_runs(store)[0]


def test_a_run_that_cannot_be_read_is_a_row(example: dict[str, Any], tmp_path: Path) -> None:
    store = tmp_path / "mlruns"
    shutil.copytree(example["folder"] / "mlruns" / "journals", store / "journals")
    (store / "journals" / "0bad.jsonl").write_text("{}\n")
    *others, damaged = tfbench.load_runs(store)
    assert len(others) == 3
    assert (damaged["run_id"], damaged["status"]) == ("0bad", "UNREADABLE")
    assert "is no tfbench journal" in damaged["reason"]


class Told(SilentObserver):
    """Keeps what a run tells."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def stage(self, text: str) -> None:
        self.told.append(text)

    def ready(self, result: RunResult) -> None:
        assert result.model is not None
        self.told.append("ready")

    def epoch(self, epoch: EpochRecord) -> None:
        self.told.append(f"epoch {epoch.epoch}")

    def finish(self, result: RunResult, *rest: Any) -> None:
        self.told.append(result.status)

    def close(self) -> None:
        self.told.append("closed")


def test_an_observer_is_told_and_nothing_is_printed(in_tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    observer = Told()
    values = {"training.epochs": 2, "measurement.checks": False}
    run = tfbench.run("sine_lstm", overrides=values, track=False, observer=observer)
    assert (run.status, run.tracked) == ("FINISHED", None)
    assert observer.told[-3:] == ["storing the run", "FINISHED", "closed"]
    told = [text for text in observer.told if text.startswith(("ready", "epoch"))]
    assert told == ["ready", "epoch 1", "epoch 2"]
    assert capfd.readouterr() == ("", "")
    assert not Store(Path("mlruns")).database.exists()


@pytest.mark.usefixtures("in_tmp_path")
def test_what_a_user_can_mend_is_raised() -> None:
    with pytest.raises(UnknownNameError, match="unknown recipe 'mnist_mpl'"):
        tfbench.run("mnist_mpl")
    with pytest.raises(RecipeError, match=r"training\.epochs"):
        tfbench.run("mnist_mlp", overrides={"training.epochs": 0})
    with pytest.raises(RecipeError, match="rounds: must be from 1 to 1000"):
        tfbench.sweep("mnist_mlp", rounds=0)
    with pytest.raises(RecipeError, match="vary: must be a key of"):
        tfbench.sweep("mnist_mlp", vary={"epochs": [1]})
    with pytest.raises(UnknownNameError, match="no runs to compare"):
        tfbench.compare()
    assert tfbench.load_runs() == []
    assert not Path("mlruns").exists()
