"""Which view `tfbench ui --sweep` opens, where it is, and what is said when it cannot be."""

import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kinds import Cli
from sweeps import build_plan, write_sweep
from tfbench.cli import ui
from tfbench.errors import TrackingError
from tfbench.store.store import Store, TrackingState
from tfbench.store.sweep_log import read_sweep
from tfbench.sweeps.compared import compare_sweep
from tfbench.sweeps.plan import PlannedRun, SweepPlan
from tfbench.sweeps.show_in_mlflow import ShownSweep, find_shown_sweep, show_sweep
from tfbench.tracking.tracker import Curve, TrackedSweep

# of the report
PLOTS = (
    "samples_per_second.png",
    "speedup.png",
    "samples_by_time.png",
    "accuracy_by_time.png",
)


class Tracker:
    """Stands in for MLflow; has the runs that it is told of."""

    def __init__(self, *run_ids: str) -> None:
        self.run_ids = frozenset(run_ids)
        self.addresses = []
        self.curves = ()

    def at(self, uri: str, experiment: str, *rest: Any) -> Any:
        self.addresses.append((uri, experiment))
        return self

    def show_sweep(
        self, plan: SweepPlan, curves: Sequence[Curve], verdict: Sequence[str]
    ) -> TrackedSweep:
        self.curves = curves
        return TrackedSweep(experiment_id="7", run_ids=self.run_ids)


def speed_of(planned: PlannedRun) -> float | str:
    """The second setup is half as fast in the first round, a third in the second.

    One run of it is killed.
    """
    if (planned.configuration, planned.setup, planned.round_number) == (1, 1, 2):
        return "out of memory"
    return 1200.0 if planned.setup == 0 else 1200.0 / (1 + planned.round_number)


@pytest.fixture
def store(in_tmp_path: Path) -> Store:
    """The store in the current folder, with a sweep of seven runs that were measured."""
    store = Store(Path("mlruns"))
    write_sweep(store, build_plan(), speed_of)
    return store


def track(
    store: Store, uri: str | None = None, experiment: str = "tfbench", *, num: int = 7
) -> None:
    """Notes that the first runs of the store are tracked somewhere."""
    for run_id in store.run_ids()[:num]:
        store.write_state(
            run_id, TrackingState(tracking_uri=uri or store.tracking_uri, experiment=experiment)
        )


def test_a_sweep_is_shown_where_most_of_its_runs_are_tracked(store: Store) -> None:
    track(store, "http://bench:5000", "other")
    track(store, num=2)
    tracker = Tracker(*store.run_ids()[2:6])
    shown = find_shown_sweep(store, read_sweep(store, "abc"), tracker.at)
    assert tracker.addresses == [("http://bench:5000", "other")]
    assert [[plot.name for plot in curve.plots] for curve in tracker.curves] == [list(PLOTS)] * 2
    assert shown == ShownSweep("http://bench:5000", "7", 4)


def test_a_sweep_that_mlflow_does_not_know_names_the_way_there(store: Store) -> None:
    expected = (
        "sweep abc: none of its runs is in MLflow. `tfbench recover` brings those that are stored"
        " there"
    )
    for num_tracked in (0, 7):
        track(store, num=num_tracked)
        with pytest.raises(TrackingError, match=expected):
            find_shown_sweep(store, read_sweep(store, "abc"), Tracker().at)


@pytest.fixture
def tracker(store: Store, monkeypatch: pytest.MonkeyPatch) -> Tracker:
    """What the command takes for MLflow; it has all runs."""
    tracker = Tracker(*store.run_ids())
    monkeypatch.setattr(ui, "tracker_maker", lambda *_: tracker.at)
    return tracker


def test_the_page_of_a_sweep_at_another_server_is_there(
    tfbench: Cli, store: Store, tracker: Tracker
) -> None:
    track(store, "https://ann:secret@bench:5000/", "mine")
    url = (
        "https://ann:***@bench:5000/#/experiments/7/runs?"
        "viewStateShareKey=tfbench-sweep-abc&compareRunsMode=CHART&workflowType=machine_learning"
    )
    note = "The sweep is tracked at https://ann:***@bench:5000/: nothing is started here.\n"
    assert tfbench("ui", "--sweep", "@last") == (0, f"{url}\n", note)
    tracker.run_ids = frozenset(store.run_ids()[:4])
    warned = tfbench("ui", "--sweep", "@last").stderr
    assert "Warning: 4 runs of the sweep are not in MLflow." in warned


def test_a_run_of_a_sweep_that_cannot_be_read_is_named_in_its_place(store: Store) -> None:
    record = read_sweep(store, "abc")
    run_id = record.started[0].run_id
    store.journal_path(run_id).write_bytes(b"garbage\n")
    comparison = compare_sweep(store, record)
    assert set(comparison.unreadable) == {run_id}
    outcomes = {entry.outcome for row in comparison.rows for entry in row.entries.values()}
    assert "LOST" in outcomes
    assert len(comparison.runs) == 6
    show_sweep(store, record.plan, comparison, Tracker(*store.run_ids()))


@pytest.mark.parametrize(
    ("is_terminal", "display", "opens", "printed", "is_opened"),
    [
        (True, ":0", True, "Open http://here\n", True),
        (True, ":0", False, "Open http://here\n", False),
        (True, "", True, "Open http://here\n", False),
        (False, ":0", True, "http://here\n", False),
    ],
)
def test_the_page_is_opened_in_a_desktop_s_browser_alone(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_terminal: bool,
    display: str,
    opens: bool,
    printed: str,
    is_opened: bool,
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    ui._show("http://here", opens=opens)
    assert capsys.readouterr().out == printed
    assert opened == ["http://here"] * is_opened
