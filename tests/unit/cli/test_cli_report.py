"""`tfbench report`: what it takes, what it writes and what it refuses to."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from builders import build_environment
from journals import build_sized_result, write_journal
from sweeps import TWO_SETUPS, build_plan, write_sweep
from tfbench.cli import report
from tfbench.errors import TrackingError
from tfbench.records.run import TrackedRun
from tfbench.records.sweep import PlannedRun
from tfbench.report.run.plots import AccuracyCurve
from tfbench.store.store import Store
from tfbench.store.sweep_log import read_sweep
from tfbench.store.tracking_state import TrackingState
from tfbench.sweeps import report_contents
from tfbench.sweeps.comparison import compare_stored, compare_sweep
from tfbench.sweeps.report_contents import gather_contents

Cli = Callable[..., Any]
PLOTS = ["samples_per_second.png", "speedup.png", "breakdown.png"]


class Tracker:
    """Keeps the reports that it is given."""

    def __init__(self) -> None:
        self.logged: list[tuple[str, str, dict[str, str]]] = []
        self.addresses: list[tuple[str, str]] = []
        self.error: TrackingError | None = None

    def begin(self, method: str) -> None:
        assert method == "prepare"

    def log_report(self, name: str, files: Mapping[str, bytes], tags: Mapping[str, str], **rest: Any) -> TrackedRun:
        if self.error:
            raise self.error
        self.logged.append((name, files["report.html"].decode(), dict(tags)))
        return TrackedRun(tracking_uri="sqlite:///x", experiment_id="1", run_id="f00")


def speed_of(planned: PlannedRun) -> float | str:
    """The second setup is half as fast, and runs out of memory in the second setting."""
    if planned.configuration == (1, 1):
        return "out of memory: it took 9 GiB"
    return (1000.0, 500.0)[planned.setup] * (1 + planned.round_number / 100)


@pytest.fixture
def store(in_tmp_path: Path) -> Store:
    """The store in the current folder, with a sweep in it."""
    store = Store(Path("mlruns"))
    write_sweep(store, build_plan(sweep_id="5eed", argv=("sweep", "test.toml", "--repeats", "2")), speed_of)
    return store


@pytest.fixture
def tracker(store: Store, monkeypatch: pytest.MonkeyPatch) -> Tracker:
    """Stands in for MLflow, whose database is there."""
    tracker = Tracker()
    store.database.touch()

    def make_tracker(uri: str, experiment: str, store: Store, named: str | None) -> Tracker:
        tracker.addresses.append((uri, experiment))
        return tracker

    monkeypatch.setattr(report, "make_tracker", make_tracker)
    return tracker


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the plots out, which take their time."""
    monkeypatch.setattr(report_contents, "comparison_plots", lambda *_: ())
    monkeypatch.setattr(report_contents, "accuracy_by_time", lambda *_: None)


def test_a_sweep_becomes_one_file_and_its_plots(tfbench: Cli, store: Store) -> None:
    done = tfbench("report", "--sweep", "@last", "--plots", "plots")
    assert (done.exit_code, done.stderr) == (0, "")
    text = Path("tfbench-report.html").read_text()
    assert done.stdout.splitlines()[0].startswith("tfbench-report.html: report on 6 runs, ")
    names = [*PLOTS, "accuracy_by_time.png"]
    assert sorted(path.name for path in Path("plots").iterdir()) == sorted(names)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in Path("plots").iterdir())
    assert text.count("<img ") == len(names)
    assert "out of memory: it took 9 GiB" in text
    assert "tfbench sweep test.toml --repeats 2\ntfbench report --sweep @last<" in text
    assert "MLflow" not in done.stdout  # the store has no database


@pytest.mark.usefixtures("undrawn")
def test_an_older_report_is_replaced_and_no_other_file_is(tfbench: Cli, store: Store) -> None:
    arguments = ("report", "--sweep", "5e", "-o", "r.html")
    assert [tfbench(*arguments).exit_code for _ in range(2)] == [0, 0]
    Path("r.html").write_text("<html>my own page</html>")
    assert tfbench(*arguments).exit_code == 2
    assert tfbench(*arguments, "--force").exit_code == 0
    assert Path("r.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.usefixtures("undrawn")
def test_the_report_is_kept_in_mlflow_beside_the_runs(tfbench: Cli, store: Store, tracker: Tracker) -> None:
    done = tfbench("report", "--sweep", "@last")
    assert done.stdout.splitlines()[-2:] == [
        "MLflow: run report-5eed (f00), file report.html.",
        "`tfbench ui --sweep 5eed` shows it among the runs of the sweep.",
    ]
    ((name, text, tags),) = tracker.logged
    assert (name, tags["tfbench.sweep"], tags["tfbench.round"]) == ("report-5eed", "5eed", "all")
    assert text == Path("tfbench-report.html").read_text()
    assert tracker.addresses == [(store.tracking_uri, "tfbench")]
    tfbench("report", "--sweep", "@last", "--no-mlflow")
    assert len(tracker.logged) == 1


@pytest.mark.usefixtures("undrawn")
def test_the_reports_of_the_same_runs_have_the_same_name(tfbench: Cli, store: Store, tracker: Tracker) -> None:
    first, second = store.run_ids()[:2]
    for runs in ((first, second), (second, first), (first,)):
        assert tfbench("report", *runs).exit_code == 0
    names = [name for name, _, _ in tracker.logged]
    assert names[0] == names[1] != names[2]
    assert not any("tfbench.sweep" in tags for _, _, tags in tracker.logged)


@pytest.mark.usefixtures("undrawn")
def test_a_server_gets_the_report_only_if_it_is_told_to(tfbench: Cli, store: Store, tracker: Tracker) -> None:
    newest = store.run_ids()[-1]
    store.write_state(newest, TrackingState(tracking_uri="http://127.0.0.1:9", experiment="mine"))
    tfbench("report", "--sweep", "@last")
    assert tracker.logged == []
    tfbench("report", "--sweep", "@last", "--mlflow")
    assert tracker.addresses == [("http://127.0.0.1:9", "mine")]


@pytest.mark.usefixtures("undrawn")
def test_trouble_with_mlflow_is_a_warning(tfbench: Cli, store: Store, tracker: Tracker) -> None:
    tracker.error = TrackingError("MLflow at x: is down.")
    done = tfbench("report", "--sweep", "@last")
    assert (done.exit_code, done.stderr) == (0, "Warning: the report is not in MLflow: MLflow at x: is down.\n")
    assert Path("tfbench-report.html").exists()


@pytest.mark.usefixtures("undrawn")
def test_any_runs_make_a_report_with_the_commands_that_made_them(in_tmp_path: Path) -> None:
    store = Store(Path("mlruns"))
    for index in (0, 2, 6):
        environment = build_environment(keras="3.13.0" if index == 6 else "3.12.0", load_average=0.1 * index)
        result = build_sized_result(index, environment=environment)
        argv = ("run", "mnist_mlp", "--name", "a b")
        write_journal(store, dataclasses.replace(result, request=dataclasses.replace(result.request, argv=argv)))
    comparison = compare_stored(store)
    contents = gather_contents(store, comparison, None, created=1.0)
    assert contents.environment is not None
    assert contents.environment.keras == "3.13.0"  # of the newest run
    assert contents.differing == {"keras": {"3.12.0": 2, "3.13.0": 1}}
    assert contents.commands == ("tfbench run mnist_mlp --name 'a b'",)
    assert 'name = "mlp"' in contents.recipe_toml


def test_the_curves_are_of_the_runs_of_median_speed_at_the_corners(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[AccuracyCurve] = []
    monkeypatch.setattr(report_contents, "comparison_plots", lambda *_: ())
    monkeypatch.setattr(report_contents, "accuracy_by_time", lambda runs, *rest, **options: drawn.extend(runs))
    plan, results = read_sweep(store, "5eed")
    gather_contents(store, compare_sweep(store, plan, results), plan, created=1.0)
    assert [(curves.setting, curves.setup) for curves in drawn] == [
        ("global_batch_size=32", TWO_SETUPS[0].label),
        ("global_batch_size=32", TWO_SETUPS[1].label),
        ("global_batch_size=64", TWO_SETUPS[0].label),
    ]
    assert all(curve.points for curve in drawn)


@pytest.mark.usefixtures("undrawn")
def test_a_sweep_of_which_nothing_was_measured_makes_a_report(tfbench: Cli, in_tmp_path: Path) -> None:
    write_sweep(Store(Path("mlruns")), build_plan(setups=TWO_SETUPS[:1]), lambda planned: "timed out: it took longer")
    assert tfbench("report", "--sweep", "@last").exit_code == 0
    assert "timed out" in Path("tfbench-report.html").read_text()
