"""tfbench from Python: what is made, what is read, and what is told of it."""

from pathlib import Path
from unittest import mock

import pytest

import tfbench
from journals import build_sized_result, write_journal
from tfbench.errors import RecipeError, UnknownNameError
from tfbench.runs.observer import Observer
from tfbench.store.store import Store

pytestmark = pytest.mark.slow


def test_a_run_that_cannot_be_read_is_a_row(in_tmp_path: Path) -> None:
    write_journal(Store(in_tmp_path), build_sized_result(0))
    whole = tfbench.load_runs(in_tmp_path)
    (in_tmp_path / "journals" / "0bad.jsonl").write_text("{}\n")
    *others, damaged = tfbench.load_runs(in_tmp_path)
    assert whole and others == whole
    assert (damaged["run_id"], damaged["status"]) == ("0bad", "UNREADABLE")
    assert "is not a tfbench journal" in damaged["reason"]


def test_an_observer_is_told_and_nothing_is_printed(
    in_tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    observer = mock.create_autospec(Observer, instance=True)
    values = {"training.epochs": 2, "measurement.checks": False}
    run = tfbench.run("sine_lstm", overrides=values, track=False, observer=observer)
    assert (run.status, run.tracked) == ("FINISHED", None)
    by_time = ("stage", "first_step", "progress")
    told = [name for name, *_ in observer.mock_calls if name not in by_time]
    assert told == ["ready", "epoch", "epoch", "finish", "close"]
    assert [one.args[0].epoch for one in observer.epoch.call_args_list] == [1, 2]
    assert observer.finish.call_args.args == (run,)
    observer.stage.assert_called_with("storing the run")
    assert capfd.readouterr() == ("", "")
    assert not Store(Path("mlruns")).database.exists()


@pytest.mark.usefixtures("in_tmp_path")
def test_what_a_user_can_mend_is_raised() -> None:
    with pytest.raises(RecipeError, match=r"training\.epochs"):
        tfbench.run("mnist_mlp", overrides={"training.epochs": 0})
    with pytest.raises(RecipeError, match="name a recipe"):
        tfbench.run()
    with pytest.raises(RecipeError, match="rounds: must be from 1 to 1000"):
        tfbench.sweep("mnist_mlp", rounds=0)
    with pytest.raises(RecipeError, match=r"vary: .* is no key of"):
        tfbench.sweep("mnist_mlp", vary={"epochs": [1]})
    with pytest.raises(UnknownNameError, match="no runs to compare"):
        tfbench.compare()
    assert tfbench.load_runs() == []
    assert not Path("mlruns").exists()
