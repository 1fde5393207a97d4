"""`tfbench recover`, `export` and `import`.

What becomes of journals, whatever state they are in.
"""

import contextlib
import dataclasses
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from mlflow import MlflowClient

import browser
from contract import wait_until
from journals import begin_elsewhere, build_sized_result, hold, make_database, write_journal
from profile_runs import build_profile_run, write_profile_journal
from sweeps import build_plan, write_sweep
from tfbench.errors import TrackingError
from tfbench.runs.record import RunResult, Summary, TrackedRun
from tfbench.runs.summary import summarize_run
from tfbench.store import json_lines
from tfbench.store.index import read_briefs
from tfbench.store.journal import read_records, read_result, replay
from tfbench.store.recover import RecoveredRun, import_journals, recover
from tfbench.store.store import Store, TrackingState
from tfbench.tracking import database
from tfbench.tracking.mlflow_tracker import MlflowTracker

pytestmark = pytest.mark.usefixtures("without_plots")
Cli = Callable[..., Any]
RESULTS = [build_sized_result(index) for index in range(3)]
IDS = [result.request.run_id for result in RESULTS]


class FakeTracker(MlflowTracker):
    """A tracking server in memory."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.tracking_uri, "tfbench", store)
        self.finished: dict[str, RunResult] = {}
        self.rejected: set[str] = set()
        self.connections = 0

    def prepare(self) -> None:
        self.connections += 1

    def update(self, result: RunResult, summary: Summary | None) -> TrackedRun:
        if result.request.run_id in self.rejected:
            raise TrackingError("server rejects this run")
        return TrackedRun(
            tracking_uri="fake", experiment_id="1", run_id=f"m-{result.request.run_id}"
        )

    def finish(self, result: RunResult, files: Path) -> None:
        assert (files / "journal.jsonl").is_file()
        self.finished[result.request.run_id] = result


@pytest.fixture
def tracker(store: Store) -> FakeTracker:
    return FakeTracker(store)


def recover_with(
    store: Store, tracker: FakeTracker, *, everything: bool = False
) -> dict[str, RecoveredRun]:
    found = recover(store, lambda uri, experiment: tracker, everything=everything)
    return {run.id: run for run in found}


def test_a_run_is_sent_once_and_again_where_its_journal_grew_or_all_are_asked_for(
    store: Store, tracker: FakeTracker
) -> None:
    assert recover_with(store, tracker) == {}
    assert not store.root.exists()
    path = write_journal(store, RESULTS[0])
    run = recover_with(store, tracker)[IDS[0]]
    assert (run.status, run.message) == ("recovered", "FINISHED")
    assert tracker.finished[IDS[0]] == replay(read_records(path))
    before = {file: file.read_bytes() for file in store.journals.iterdir()}
    assert recover_with(store, tracker) == {}
    assert {file: file.read_bytes() for file in store.journals.iterdir()} == before
    with path.open("ab") as file:
        file.write(b'{"kind":"note","time":1.0,"text":"late"}\n')
    assert recover_with(store, tracker)[IDS[0]].status == "recovered"
    assert tracker.finished[IDS[0]].notes == ("late",)
    assert recover_with(store, tracker, everything=True)[IDS[0]].status == "recovered"


def failed(data: bytes) -> bytes:
    error = b'{"type":"ResourceExhaustedError","message":"no memory left","traceback":""}'
    return data + b'{"kind":"failed","time":1700000013.0,"error":' + error + b"}\n"


@pytest.mark.parametrize(
    ("without", "change", "message", "num_epochs", "num_unreadable_lines"),
    [
        ({"exit"}, None, "FINISHED", 2, 0),
        ({"exit", "finished"}, failed, "FAILED: out of memory: no memory left", 2, 0),
        (
            {"exit", "finished"},
            None,
            "KILLED: the process that tracked it and the worker ended without a word",
            2,
            0,
        ),
        ({"exit", "finished"}, lambda data: data + b'{"kind":"epoch","time":17', "KILLED", 2, 1),
        ({"exit", "finished"}, lambda data: data[: data.rindex(b'"epoch":') + 20], "KILLED", 1, 1),
        (
            {"exit", "finished"},
            lambda data: data.replace(b'"kind":"ready"', b'"kind":'),
            "KILLED",
            2,
            1,
        ),
        (
            {"exit", "finished"},
            lambda data: data.replace(b'"kind":"started"', b'"kind":'),
            "KILLED",
            2,
            1,
        ),
    ],
)
def test_a_run_without_an_end_gets_the_one_that_its_journal_tells(
    store: Store,
    tracker: FakeTracker,
    without: set[str],
    change: Callable[[bytes], bytes] | None,
    message: str,
    num_epochs: int,
    num_unreadable_lines: int,
) -> None:
    path = write_journal(store, RESULTS[0], without=without)
    path.with_suffix(".reserve").write_bytes(b"\0" * 1000)
    path.write_bytes(change(path.read_bytes()) if change else path.read_bytes())
    last = max(record["time"] for record in read_records(path))
    assert recover_with(store, tracker)[IDS[0]].message.startswith(message)
    result = tracker.finished[IDS[0]]
    assert (result.status, result.ended_at) == (
        message.partition(":")[0],
        last if "KILLED" in message else 1_700_000_013,
    )
    assert (len(result.epochs), result.num_unreadable_lines) == (num_epochs, num_unreadable_lines)
    assert list(read_records(path))[-1]["kind"] == "exit"
    assert not path.with_suffix(".reserve").exists()


def test_a_profile_that_was_killed_is_recovered_with_its_rounds(
    store: Store, tracker: FakeTracker
) -> None:
    path = write_profile_journal(store, build_profile_run(exit=None))
    assert recover_with(store, tracker)[path.stem].status == "recovered"
    result = tracker.finished[path.stem]
    assert (result.status, summarize_run(result).metrics["profile/full_step_seconds"]) == (
        "KILLED",
        pytest.approx(0.006),
    )


def test_a_run_that_measured_nothing_is_discarded(store: Store, tracker: FakeTracker) -> None:
    write_journal(store, RESULTS[0], without={"ready", "spans", "epoch", "finished", "exit"})
    run = recover_with(store, tracker)[IDS[0]]
    assert (run.status, run.message) == ("discarded", "it ended before anything was measured")
    assert (store.run_ids(), tracker.finished) == ([], {})


@pytest.mark.parametrize("is_just_starting", [False, True])
def test_a_run_that_still_runs_is_left_alone(
    store: Store, tracker: FakeTracker, is_just_starting: bool
) -> None:
    path = write_journal(store, RESULTS[0], without={"exit"})
    if is_just_starting:
        path.write_bytes(b'{"kind":"requ')
    hold(path)
    path.with_suffix(".reserve").touch()
    before = path.read_bytes()
    for everything in (False, True):
        run = recover_with(store, tracker, everything=everything)[IDS[0]]
        assert (run.status, run.message) == (
            "left",
            f"it is {'just starting' if is_just_starting else 'still running'}",
        )
    assert path.read_bytes() == before
    assert path.with_suffix(".reserve").exists()
    assert tracker.finished == {}


def test_a_run_on_another_host_is_left_alone_until_it_ended_or_was_silent_for_an_hour(
    store: Store, tracker: FakeTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = dataclasses.replace(RESULTS[0].epochs[0], finished_at=time.time())
    begin_elsewhere(
        write_journal(
            store, dataclasses.replace(RESULTS[0], epochs=(late,)), without={"exit", "finished"}
        )
    )
    begin_elsewhere(write_journal(store, RESULTS[1]))
    runs = recover_with(store, tracker)
    message = "it may still be running on another machine; recover it there, or in an hour"
    assert (runs[IDS[0]].status, runs[IDS[0]].message, runs[IDS[1]].status) == (
        "left",
        message,
        "recovered",
    )
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3700)
    assert recover_with(store, tracker)[IDS[0]].status == "recovered"


def test_neither_a_damaged_journal_nor_one_that_the_server_rejects_stops_the_others(
    store: Store, tracker: FakeTracker
) -> None:
    paths = [write_journal(store, build_sized_result(index)) for index in range(5)]
    paths[0].write_bytes(
        paths[0].read_bytes().replace(b'"placement":{', b'"placement":{"surprise":1,')
    )
    paths[1].write_bytes(b"no journal\n")
    paths[2].write_bytes(b"\0" * 1000)
    checkpoint = paths[2].with_suffix(".files") / "checkpoints" / "1.h5"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    os.utime(paths[2], (0, 0))
    tracker.rejected.add(paths[3].stem)
    runs = recover_with(store, tracker)
    assert [runs[path.stem].status for path in paths] == [*["failed"] * 4, "recovered"]
    assert runs[paths[3].stem].message == "server rejects this run"
    assert checkpoint.exists()


def test_runs_go_to_the_server_and_experiment_that_they_were_made_for(
    store: Store, tracker: FakeTracker
) -> None:
    for result in RESULTS[:2]:
        write_journal(store, result)
    store.write_state(IDS[1], TrackingState(tracking_uri="http://server:5000", experiment="mine"))
    asked: list[tuple[str, str]] = []

    def make_tracker(uri: str, experiment: str) -> Any:
        asked.append((uri, experiment))
        return tracker

    recover(store, make_tracker)
    assert asked == [(store.tracking_uri, "tfbench"), ("http://server:5000", "mine")]
    state = store.read_state(IDS[1])
    assert state is not None
    assert (state.experiment, state.run and state.run.run_id) == ("mine", f"m-{IDS[1]}")


def test_a_damaged_database_is_named_with_what_makes_it_anew(
    store: Store, tracker: FakeTracker, tfbench: Cli
) -> None:
    make_database(store)
    write_journal(store, RESULTS[0])
    data = bytearray(store.database.read_bytes())
    data[len(data) // 2 : -4096] = b"\xff" * len(data[len(data) // 2 : -4096])
    store.database.write_bytes(data)
    (run,) = recover_with(store, tracker).values()
    assert run.status == "failed"
    assert run.message.startswith(f"{store.database}: is damaged: ")
    assert run.message.endswith(
        f"beside it away, and `tfbench recover --all --store {store.root}` rebuilds it."
    )
    assert tracker.connections == 0
    store.journal_path(IDS[0]).unlink()
    done = tfbench("recover", "--store", str(store.root))
    assert done.exit_code == 2
    assert "mlflow.db: is damaged" in done.stderr


def test_a_database_that_another_process_holds_is_not_called_damaged(
    store: Store, tracker: FakeTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "OPEN_SECONDS", 0.1)
    make_database(store)
    write_journal(store, RESULTS[0])
    with contextlib.closing(sqlite3.connect(store.database)) as holder:
        holder.execute("PRAGMA journal_mode = DELETE")
        holder.execute("BEGIN EXCLUSIVE")
        (run,) = recover_with(store, tracker).values()
    assert (
        run.message
        == f"{store.database}: cannot be read: database is locked. Make sure that no other process"
        " keeps it, and that you may read and write it and its folder; `tfbench recover --store"
        f" {store.root}` tries again."
    )


def test_the_command_says_what_became_of_the_runs(store: Store, tfbench: Cli) -> None:
    root = ("--store", str(store.root))
    assert tfbench("recover", *root)[:2] == (0, f"Store {store.root}: nothing to recover.\n")
    hold(write_journal(store, RESULTS[0]))
    done = tfbench("recover", "--format", "json", *root)
    left = {"id": IDS[0], "status": "left", "message": "it is still running", "tracked": None}
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"format_version": 1, "runs": [left]})
    write_journal(store, RESULTS[1]).write_bytes(b"no journal\n")
    done = tfbench("recover", *root)
    assert done.exit_code == 2
    assert "1 of 2 runs could not be brought into MLflow" in done.stderr


def test_an_export_is_the_journal_and_overwrites_nothing(
    store: Store, in_tmp_path: Path, tmp_path: Path, tfbench: Cli
) -> None:
    path = write_journal(store, RESULTS[0])
    file = Path("run.jsonl")
    root = ("--store", str(store.root))
    for stdout in ("-", "/dev/stdout"):
        assert tfbench("export", "mlp-100-b32-0", "-o", stdout, *root).stdout == path.read_text()
    file.write_text("precious")
    rejected = tfbench("export", "@last", "-o", str(file), *root)
    assert (rejected.exit_code, file.read_text()) == (2, "precious")
    assert f"{file}: is there already." in rejected.stderr
    file.unlink()
    assert tfbench("export", "@last", "-o", str(file), *root).exit_code == 0
    assert file.read_text() == path.read_text()
    for words, message in (
        (
            ("export", "@last", "-o", "none/run.jsonl", *root),
            "cannot be written: No such file or directory.",
        ),
        (("import", "none.jsonl"), "none.jsonl: cannot be read: No such file or directory"),
    ):
        done = tfbench(*words)
        assert (done.exit_code, message in done.stderr) == (2, True)


def test_a_run_without_an_end_is_exported_with_a_warning_and_left_by_an_import(
    store: Store, tmp_path: Path, tfbench: Cli
) -> None:
    write_journal(store, RESULTS[0], without={"exit"})
    file = tmp_path / "run.jsonl"
    exported = tfbench("export", "@last", "-o", str(file), "--store", str(store.root))
    assert exported.exit_code == 0
    assert "has no end, so the file is incomplete" in exported.stdout + exported.stderr
    imported = tfbench("import", str(file), "--store", str(tmp_path / "other"))
    assert imported.exit_code == 0
    assert (
        "left" in imported.stdout and "`tfbench recover` where it was measured" in imported.stdout
    )
    assert not (tmp_path / "other").exists()


NO_REQUEST = "it holds no request"
UNTRUE = [
    (
        b'"num_parameters":',
        b'"num_parameters":1' + b"0" * 400,
        "is damaged: ready.model.num_parameters: must be a finite number",
    ),
    (b'"time":', b'"time":"x","y":', NO_REQUEST),
    (
        b'"epoch_seconds":',
        b'"epoch_seconds":-',
        "epoch.epoch.epoch_seconds: must be greater than or equal to 0",
    ),
    (b'"created":17', b'"created":1e300,"x":17', "request.created: must be less than or equal to"),
    (
        b'"status":"FINISHED"',
        b'"status":"DONE"',
        "exit.status: must be one of RUNNING, FINISHED, FAILED, KILLED",
    ),
    (
        b'"recipe":{"recipe":',
        b'"recipe":5,"x":{"recipe":',
        "request.recipe: must be a table. Received: 5",
    ),
    (b'"spans":[[', b'"spams":[[', "spans.spans: missing"),
    (b'"run_id":"', b'"run_id":"../../', "request.run_id: "),
    (
        b'"format_version":1',
        b'"format_version":99',
        "its format is 99; this version of tfbench reads format 1",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), UNTRUE)
def test_a_field_that_is_not_what_tfbench_writes_is_named_and_nothing_is_imported(
    store: Store, in_tmp_path: Path, tfbench: Cli, old: bytes, new: bytes, message: str
) -> None:
    good = write_journal(store, RESULTS[1])
    bad = Path("bad.jsonl")
    data = write_journal(store, RESULTS[0]).read_bytes()
    assert old in data
    bad.write_bytes(data.replace(old, new))
    other = Path("other")
    done = tfbench("import", str(good), str(bad), "--store", str(other))
    assert done.exit_code == 2
    assert done.stderr.startswith(f"Error: {bad}: ")
    assert message in done.stderr
    assert len(done.stderr) < 500
    assert not other.exists()


def test_an_import_takes_a_run_whole_and_connects_once(store: Store, tmp_path: Path) -> None:
    path = write_journal(store, RESULTS[0])
    other = Store(tmp_path / "other")
    path.write_bytes(path.read_bytes() + b'{"kind":"no')  # no loss: the run had ended
    tracker = FakeTracker(other)
    state = TrackingState(tracking_uri="http://me:s3cret@server", experiment="x")
    (run,) = import_journals(other, [path], lambda *_: tracker, state)
    assert (run.status, tracker.connections) == ("imported", 1)
    reading = read_result(other.journal_path(path.stem))
    assert (reading.num_unreadable_lines, reading.status) == (0, "FINISHED")


def test_an_import_reads_a_journal_once_and_lists_need_not_read_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_journal(store, RESULTS[0])
    other = Store(tmp_path / "other")
    read = []
    read_file = json_lines.read_file
    monkeypatch.setattr(json_lines, "read_file", lambda path: read.append(path) or read_file(path))
    tracker = Mock()
    import_journals(other, [path], lambda *_: tracker, other.default_state)
    tracker.project.assert_called_once_with(path.stem)
    assert [brief.run_id for brief in read_briefs(other, [path.stem]).found] == [path.stem]
    assert read == [path]


@pytest.mark.advice("none of its runs is in MLflow")
@pytest.mark.advice("Serve it with `mlflow server")
def test_a_sweep_that_mlflow_lacks_is_brought_there_and_served_as_advised(
    store: Store, tmp_path: Path, tfbench: Cli
) -> None:
    uri = f"sqlite:///{tmp_path}/elsewhere.db"
    write_sweep(store, build_plan(), lambda planned: 100.0)
    for run_id in store.run_ids():
        store.write_state(run_id, TrackingState(tracking_uri=uri, experiment="x"))
    look = ("ui", "--sweep", "@last", "--tracking-uri", uri, "--store", str(store.root))
    advised, *_ = re.findall(r"`tfbench ([^`]*)`", tfbench(*look).stderr)
    assert tfbench(*shlex.split(advised)).exit_code == 0
    (advised,) = re.findall(r"`(mlflow server [^`]*)`", tfbench(*look).stderr)
    port = browser.free_port()
    command = [sys.executable, "-m", *shlex.split(advised), "--port", str(port), "--workers", "1"]
    alone = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with subprocess.Popen(
        command, env=alone, stderr=subprocess.DEVNULL, start_new_session=True
    ) as server:
        try:
            client = MlflowClient(f"http://127.0.0.1:{port}")
            health = f"http://127.0.0.1:{port}/health"
            wait_until(lambda: browser.answers(health), "MLflow's server")
            assert client.get_experiment_by_name("x") is not None
        finally:
            os.killpg(server.pid, signal.SIGKILL)
