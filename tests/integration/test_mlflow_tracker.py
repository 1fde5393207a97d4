import contextlib
import dataclasses
import logging
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from journals import build_sized_result, make_database, write_journal
from sweeps import TWO_SETUPS, build_plan, build_planned_result
from tfbench.errors import TrackingError
from tfbench.runs.record import RunExit, RunResult, TrackedRun
from tfbench.runs.summary import summarize_run
from tfbench.show.figures import SETUP_COLORS
from tfbench.show.plot import Panel, Plot, PlotLine, Point
from tfbench.store.store import Store
from tfbench.store.sweep_log import FOLDER
from tfbench.sweeps.plan import Variation, list_planned_runs
from tfbench.tracking import database, fields
from tfbench.tracking.mlflow_tracker import MlflowTracker
from tfbench.tracking.mlflow_view import EXPERIMENT_TAGS, OVERVIEW, sweep_view
from tfbench.tracking.tracker import Curve, TrackedSweep

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


PANELS = (Panel("", (PlotLine("default", (Point(96.0, 1.0), Point(128.0, 2.0))),)),)
PLAN = build_plan(
    variations=(Variation(key="training.global_batch_size", values=(96, 128)),), num_rounds=1
)


@pytest.fixture
def new_store(tmp_path: Path) -> Store:
    return Store(tmp_path / "mlruns")


@pytest.fixture
def store(new_store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    make_database(new_store)
    (new_store.root / FOLDER).mkdir()
    monkeypatch.setattr(
        "tempfile.tempdir", "/nowhere"
    )  # where nobody would remove what a kill leaves
    return new_store


@pytest.fixture(scope="module", autouse=True)
def loggers_as_before() -> Iterator[None]:
    names = ("mlflow", "mlflow.store.db.utils", "alembic", "urllib3.connectionpool")
    levels = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def new_tracker(store: Store, experiment: str = "tfbench") -> MlflowTracker:
    return MlflowTracker(store.tracking_uri, experiment, store)


def finish(store: Store, result: RunResult, tracker: MlflowTracker | None = None) -> TrackedRun:
    """Tracks a run to its end; without files, which take a second to draw."""
    files = store.root.parent / "files"
    files.mkdir(exist_ok=True)
    tracker = tracker or new_tracker(store)
    tracked = tracker.update(result, summarize_run(result))
    tracker.finish(result, files)
    return tracked


def client_of(store: Store) -> "MlflowClient":
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=store.tracking_uri)


def runs_of(store: Store) -> "list[Run]":
    client = client_of(store)
    return list(client.search_runs([e.experiment_id for e in client.search_experiments()]))


def curves_of(store: Store) -> "list[Run]":
    """Returns the runs that hold curves of a sweep, by their start."""
    runs = sorted(runs_of(store), key=lambda run: run.info.start_time)
    return [run for run in runs if "tfbench.curve" in run.data.tags]


def history_of(store: Store, run_id: str, name: str) -> list[tuple[int, float]]:
    return [
        (point.step, point.value) for point in client_of(store).get_metric_history(run_id, name)
    ]


def dump(store: Store) -> list[str]:
    with contextlib.closing(sqlite3.connect(store.database)) as connection:
        return sorted(connection.iterdump())


def test_a_finished_run_is_in_mlflow_with_all_that_describes_it(store: Store) -> None:
    result = build_sized_result(1)
    tracked = finish(store, result)
    run = client_of(store).get_run(tracked.run_id)
    assert (run.info.status, run.info.start_time, run.info.end_time) == (
        "FINISHED",
        1_700_000_001_000,
        1_700_000_014_000,
    )
    assert len(run.data.params) <= 20
    assert run.data.params.items() >= {
        ("model.hidden_units", "[1000, 1000]"),
        ("training.optimizer.name", "adam"),
        ("strategy", "mirrored"),
        ("setup", "mirrored cpu:0"),
        ("global_batch_size", "32"),
    }
    metrics = run.data.metrics
    assert metrics["num_parameters"] == 1_796_000
    assert metrics["batch size as log2"] == 5
    assert metrics["samples_per_second"] == pytest.approx(6299.4, abs=0.1)
    assert metrics["samples per second as log10"] == pytest.approx(3.7993, abs=1e-4)
    assert len(metrics) <= 20
    assert (
        len({name.rpartition("/")[2] for name in metrics}) == len(metrics) - 1
    )  # by_epoch/samples_per_second
    history = client_of(store).get_metric_history(tracked.run_id, "val_accuracy")
    assert [(point.step, point.timestamp) for point in history] == [
        (1, 1_700_000_012_000),
        (2, 1_700_000_013_000),
    ]
    assert [point.value for point in history] == pytest.approx([0.89, 0.90])
    tags = run.data.tags
    assert tags.items() >= fields.tags(result, summarize_run(result)).items()
    assert (tags["tfbench.run_id"], tags["tfbench.cpu"]) == (
        result.request.run_id,
        "Example CPU 3000",
    )
    assert (tags["tfbench.synthetic"], tags["mlflow.runName"].endswith("-synthetic")) == (
        "true",
        True,
    )
    assert "Synthetic data" in tags["mlflow.note.content"].splitlines()[2]
    assert "Synthetic data" not in tags["tfbench.warnings"]
    (fed_with,) = run.inputs.dataset_inputs
    assert (fed_with.dataset.name, fed_with.tags[0].value) == (result.dataset.name, "training")
    experiment = client_of(store).get_experiment(run.info.experiment_id)
    assert "measured by **tfbench**" in experiment.tags["mlflow.note.content"]


def test_the_status_says_how_the_run_ended_and_a_tag_says_why_cut_so_that_it_shows(
    store: Store,
) -> None:
    for index, (status, reason) in enumerate(
        [("FAILED", "x" * 20_000), ("KILLED", "killed by SIGKILL")]
    ):
        exit_ = RunExit(status=status, reason=reason)
        run = client_of(store).get_run(finish(store, build_sized_result(index, exit=exit_)).run_id)
        assert run.info.status == status
        assert run.data.tags["tfbench.reason"] == (
            reason if len(reason) < 8000 else "x" * 7997 + "..."
        )


def test_a_run_grows_epoch_by_epoch_with_its_journal_and_is_running_until_that_has_an_end(
    store: Store,
) -> None:
    result = build_sized_result(0)
    run_id = result.request.run_id
    path = write_journal(store, result, without={"finished", "exit"})
    lines = path.read_bytes().splitlines(keepends=True)
    tracker = new_tracker(store)
    tracker.prepare()
    for num_epochs in (0, 1, 2):
        path.write_bytes(
            b"".join(
                lines[: [b'"kind":"epoch"' in line for line in lines].index(True) + num_epochs]
            )
        )
        tracker.follow(run_id)
        (run,) = runs_of(store)
        assert [step for step, _ in history_of(store, run.info.run_id, "loss")] == list(
            range(1, num_epochs + 1)
        )
        assert run.info.status == "RUNNING"
    other = build_sized_result(1)
    write_journal(store, other)
    tracker.follow(other.request.run_id)
    assert len(runs_of(store)) == 2
    with pytest.raises(TrackingError, match="its journal has no end"):
        tracker.project(run_id)


@pytest.mark.parametrize("leaves_the_old", [False, True])
def test_a_store_that_was_moved_or_copied_finds_its_files_and_writes_new_ones_where_it_is(
    store: Store, leaves_the_old: bool
) -> None:
    (store.root.parent / "files").mkdir()
    (store.root.parent / "files" / "a.txt").write_text("a")
    tracked = finish(store, build_sized_result(0))
    elsewhere = client_of(store).create_experiment(
        "own", artifact_location="file:///elsewhere/artifacts"
    )
    moved = Store(store.root.parent / "moved")
    shutil.copytree(store.root, moved.root)
    if not leaves_the_old:
        shutil.rmtree(store.root)
    second = finish(moved, build_sized_result(1))
    for run in (tracked, second):
        assert (moved.artifacts / run.run_id / "artifacts" / "a.txt").is_file()
        assert [file.path for file in client_of(moved).list_artifacts(run.run_id)] == ["a.txt"]
        assert (
            client_of(moved)
            .get_run(run.run_id)
            .info.artifact_uri.startswith(f"{moved.artifacts.as_uri()}/")
        )
    assert not (store.artifacts / second.run_id).exists()
    assert (
        client_of(moved).get_experiment(elsewhere).artifact_location
        == "file:///elsewhere/artifacts"
    )


@pytest.mark.advice("was deleted. Restore it in MLflow")
def test_a_deleted_experiment_is_an_error_that_names_the_way_out(store: Store) -> None:
    tracked = finish(store, build_sized_result(0))
    client_of(store).delete_experiment(tracked.experiment_id)
    with pytest.raises(
        TrackingError, match=r"experiment 'tfbench' was deleted. Restore it .*--experiment"
    ):
        new_tracker(store).update(build_sized_result(1), None)
    MlflowTracker(store.tracking_uri, "other", store).update(build_sized_result(1), None)
    client_of(store).restore_experiment(tracked.experiment_id)
    new_tracker(store).update(build_sized_result(2), None)


def test_a_run_that_was_sent_is_known_again_in_an_experiment_that_was_renamed_or_deleted(
    store: Store,
) -> None:
    tracked = finish(store, build_sized_result(0))
    client_of(store).rename_experiment(tracked.experiment_id, "renamed")
    before = dump(store)
    assert finish(store, build_sized_result(0)) == tracked
    assert dump(store) == before
    client_of(store).delete_experiment(tracked.experiment_id)
    before = dump(store)
    assert finish(store, build_sized_result(0)) == tracked
    assert dump(store) == before


@pytest.mark.advice("exists, but MLflow does not return it")
def test_an_experiment_that_is_there_and_cannot_be_found_is_not_looked_for_for_ever(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(store, build_sized_result(0))
    find = MlflowTracker._find_experiment

    def hide(tracker: MlflowTracker) -> object:
        return None if tracker._experiment == "tfbench" else find(tracker)

    monkeypatch.setattr(MlflowTracker, "_find_experiment", hide)
    with pytest.raises(
        TrackingError, match="experiment 'tfbench' exists, but MLflow does not return it"
    ):
        new_tracker(store).update(build_sized_result(1), None)
    MlflowTracker(store.tracking_uri, "other", store).update(build_sized_result(1), None)


def figures_of(
    run_ids: Sequence[str], speed: float = 100.0
) -> tuple[tuple[Curve, ...], tuple[str, ...]]:
    """Builds what a sweep of two batch sizes under two setups says."""
    curves = tuple(
        Curve(
            name=setup.label,
            place=place,
            over="batch size",
            labels={"setup": setup.label, "training.global_batch_size": "96, 128"},
            points={size: {"samples_per_second": speed * size} for size in (96, 128)},
            undecided=(96,),
            between_sessions=(128,),
            rounds={96: 5, 128: 3},
            plots=(
                Plot(
                    name="speed.png",
                    title=f"{speed}",
                    x_label="batch size",
                    y_label="speed",
                    panels=PANELS,
                ),
            ),
            run_ids=tuple(run_ids[place::2]),
        )
        for place, setup in enumerate(TWO_SETUPS)
    )
    return curves, ("Use this.", "Not that.")


def test_a_sweep_gets_its_view_and_a_run_a_curve_once(store: Store) -> None:
    results = [
        build_planned_result(PLAN, planned, 100.0 * (1 + planned.number))
        for planned in list_planned_runs(PLAN)
    ]
    tracker = new_tracker(store, "mine")
    for result in results:
        finish(store, result, tracker)
    finish(store, build_sized_result(9), tracker)  # of no sweep
    run_ids = [result.request.run_id for result in results]
    figures = figures_of(run_ids)
    (chosen,) = [run for run in runs_of(store) if run.data.tags.get("tfbench.run_id") == run_ids[3]]
    client_of(store).set_tag(chosen.info.run_id, "mlflow.runColor", "#123456")
    shown = tracker.show_sweep(PLAN, *figures)
    (experiment,) = [one for one in client_of(store).search_experiments() if one.name == "mine"]
    assert shown == TrackedSweep(experiment_id=experiment.experiment_id, run_ids=frozenset(run_ids))
    assert sweep_view(PLAN, figures[0]).tag in experiment.tags.items()
    tracked = {run.data.tags.get("tfbench.run_id", ""): run for run in runs_of(store)}
    drawn = {run.info.run_name: run for run in curves_of(store)}
    assert list(drawn) == [setup.label for setup in TWO_SETUPS]
    for place, (run, color) in enumerate(zip(drawn.values(), SETUP_COLORS, strict=False)):
        history = history_of(store, run.info.run_id, "by_batch_size/samples_per_second")
        assert history == [(96, 9600.0), (128, 12800.0)]
        assert run.data.tags["mlflow.note.content"] == "Use this.\n\nNot that."
        assert run.data.tags["mlflow.runColor"] == color
        assert (
            (store.artifacts / run.info.run_id / "artifacts/speed.png")
            .read_bytes()
            .startswith(b"\x89PNG")
        )
        assert run.data.params == {"setup": TWO_SETUPS[place].label, "global_batch_size": "96, 128"}
        result = (
            "96: 9,600 samples/s in 5 rounds, undecided;"
            " 128: 12,800 samples/s in 3 rounds, between sessions"
        )
        assert (run.data.tags["tfbench.round"], run.data.tags["tfbench.result"]) == ("all", result)
        members = [tracked[run_id].data.tags for run_id in run_ids[place::2]]
        assert [tags["mlflow.parentRunId"] for tags in members] == [run.info.run_id] * 2
        assert [tags["mlflow.runColor"] for tags in members] == [
            color,
            "#123456" if place else color,
        ]
    before = dump(store)
    new_tracker(store, "mine").show_sweep(PLAN, *figures)
    finish(store, results[0])
    assert dump(store) == before


def test_a_ratios_line_ends_before_an_undecided_point(store: Store) -> None:
    plan = build_plan(
        variations=(Variation(key="training.global_batch_size", values=(32, 64, 96, 128)),),
        num_rounds=1,
    )
    result = build_planned_result(plan, list_planned_runs(plan)[0], 100.0)
    finish(store, result, tracker := new_tracker(store))
    known = {"samples_per_second": 1.0, "speedup": 2.0, "speedup_low": 1.9, "speedup_high": 2.1}
    points = {
        32: known,
        64: {"samples_per_second": 1.0},
        96: known,
        128: {"samples_per_second": 1.0},
    }
    curve = dataclasses.replace(
        figures_of([result.request.run_id])[0][0], points=points, undecided=(64, 128)
    )
    tracker.show_sweep(plan, (curve,), ())
    (run,) = curves_of(store)
    history = history_of(store, run.info.run_id, "by_batch_size/speedup")
    assert [(step, str(value)) for step, value in history] == [
        (32, "2.0"),
        (64, "nan"),
        (96, "2.0"),
    ]


def test_a_curve_that_has_changed_and_one_that_was_cut_off_are_made_anew(store: Store) -> None:
    results = [build_planned_result(PLAN, planned, 100.0) for planned in list_planned_runs(PLAN)]
    for result in results:
        finish(store, result)
    run_ids = [result.request.run_id for result in results]
    new_tracker(store).show_sweep(PLAN, *figures_of(run_ids))
    half, _ = curves_of(store)
    client_of(store).set_tag(half.info.run_id, "tfbench.curve", "")
    new_tracker(store).show_sweep(PLAN, *figures_of(run_ids))
    new_tracker(store).show_sweep(PLAN, *figures_of(run_ids, speed=200.0))
    drawn = curves_of(store)
    assert len(drawn) == 2 and half.info.run_id not in {run.info.run_id for run in drawn}
    assert {run.data.metrics["by_batch_size/samples_per_second"] for run in drawn} == {200.0 * 128}
    members = [run.data.tags for run in runs_of(store) if "tfbench.run_id" in run.data.tags]
    parents = {tags["mlflow.parentRunId"] for tags in members}
    assert parents == {run.info.run_id for run in drawn}


def test_curves_whose_picture_cannot_be_stored_are_there_and_are_made_whole_later(
    store: Store,
) -> None:
    result = build_planned_result(PLAN, list_planned_runs(PLAN)[0], 100.0)
    finish(store, result)
    figures = figures_of([result.request.run_id] * 2)
    store.artifacts.rename(aside := store.root / "aside")
    store.artifacts.write_text("no folder")
    with pytest.raises(TrackingError, match="artifacts"):
        new_tracker(store).show_sweep(PLAN, *figures)
    assert [run.data.tags["tfbench.curve"] for run in curves_of(store)] == ["", ""]
    store.artifacts.unlink()
    aside.rename(store.artifacts)
    new_tracker(store).show_sweep(PLAN, *figures)
    assert len(list(store.artifacts.rglob("speed.png"))) == 2
    assert len(curves_of(store)) == 2
    assert all(run.data.tags["tfbench.curve"] for run in curves_of(store))


def test_a_sweep_that_is_not_there_is_not_shown_and_leaves_nothing(new_store: Store) -> None:
    nothing = TrackedSweep(experiment_id="", run_ids=frozenset())
    new_tracker(new_store).prepare()
    assert new_tracker(new_store).show_sweep(build_plan(), (), ()) == nothing
    assert not new_store.root.exists()
    make_database(new_store)
    assert new_tracker(new_store).show_sweep(build_plan(), (), ()) == nothing
    tracked = finish(new_store, build_sized_result(0))
    assert new_tracker(new_store).show_sweep(build_plan(), (), ()).run_ids == frozenset()
    tags = client_of(new_store).get_experiment(tracked.experiment_id).tags
    assert set(tags) == {OVERVIEW.tag[0], *EXPERIMENT_TAGS}


def test_a_sweep_that_cannot_be_shown_says_how_to_try_again(store: Store) -> None:
    store.database.write_bytes(b"no database")
    with pytest.raises(TrackingError, match="file is not a database"):
        new_tracker(store).prepare()
    assert store.database.read_bytes() == b"no database"
    with pytest.raises(
        TrackingError, match=r"lost; `tfbench ui --sweep abc --store \S*/mlruns` tries again"
    ):
        new_tracker(store).show_sweep(build_plan(), (), ())


def test_the_name_of_a_run_of_a_sweep_begins_with_what_tells_it_from_others(store: Store) -> None:
    plan = build_plan()
    result = build_planned_result(plan, list_planned_runs(plan)[0], 100.0)

    def name_of(name: str, *overrides: str) -> str:
        request = dataclasses.replace(result.request, name=name, overrides=overrides)
        return fields.run_name(dataclasses.replace(result, request=request))

    usual = "test-100-b32-default-cpu:0-r1"
    assert name_of(usual, "training.global_batch_size") == "b32-r1-default-cpu:0-100-test-synthetic"
    assert name_of(usual, "model.hidden_units") == "100-b32-r1-default-cpu:0-test-synthetic"
    assert name_of("test-b32-default-r1") == "b32-r1-default-test-synthetic"
    assert name_of("my own") == "my own-synthetic"
    assert fields.params(result)["setup"] == "default cpu:0"


def test_a_database_is_made_once_by_those_that_begin_at_once_and_not_by_halves(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(part: Path, artifacts: str) -> None:
        part.write_text("half")
        raise OSError("killed")

    new = tmp_path / "new" / "mlflow.db"
    new.parent.mkdir()
    for name in ("mlflow.db-wal", "mlflow.db-shm"):  # of a database that was deleted
        new.with_name(name).write_bytes(b"x" * 4096)
    monkeypatch.setattr(database, "_make", fail)
    with pytest.raises(OSError, match="killed"):
        database.create(new)
    assert not new.exists()
    monkeypatch.setattr(
        database, "_make", lambda part, artifacts: shutil.copyfile(store.database, part)
    )
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(database.create, [new] * 3))
    database.require_whole(new)
    assert not list(new.parent.glob("*.part"))
    with contextlib.closing(
        sqlite3.connect(new)
    ) as connection:  # readers and writers pass each other
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_mlflow_s_own_files_are_beside_its_database(new_store: Store) -> None:
    new_tracker(new_store).update(build_sized_result(0), None)
    assert (
        client_of(new_store).get_experiment("0").artifact_location == new_store.artifacts.as_uri()
    )
