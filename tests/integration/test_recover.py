import contextlib
import dataclasses
import fcntl
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fake_tracker import FakeTracker
from journals import begin_elsewhere, build_sized_result, hold, make_database, write_journal
from tfbench import cli
from tfbench.errors import TfbenchError, TrackingError
from tfbench.records.journal import read_records, read_run, replay
from tfbench.records.run import RunResult, Summary, TrackedRun
from tfbench.report.run import plots
from tfbench.runs.journal_import import import_journals
from tfbench.runs.recovery import RecoveredRun, recover
from tfbench.store.store import Store
from tfbench.store.tracking_state import TrackingState
from tfbench.tracking import database
from tfbench.tracking.tracker import Tracker


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "mlruns")


@pytest.fixture
def tracker(store: Store, monkeypatch: pytest.MonkeyPatch) -> FakeTracker:
    monkeypatch.setattr(plots, "write_plots", lambda result, summary, folder: [])  # they take a second
    return FakeTracker(store)


def run_id_of(index: int) -> str:
    return build_sized_result(index).request.run_id


def recover_with(store: Store, tracker: FakeTracker, *, everything: bool = False) -> dict[str, RecoveredRun]:
    found = recover(store, lambda uri, experiment: tracker, everything=everything)
    return {run.id: run for run in found}


def invoke(*arguments: str) -> Result:
    """Runs a command as `main` does, errors turned into messages and exit codes."""
    result = CliRunner().invoke(cli.cli, [*arguments])
    if isinstance(result.exception, TfbenchError):
        result.exit_code = result.exception.exit_code
    return result


def test_a_store_that_is_not_there_has_nothing_to_recover_and_is_not_made(store: Store, tracker: FakeTracker) -> None:
    assert recover_with(store, tracker) == {}
    assert not store.root.exists()


def test_a_run_that_was_not_sent_is_sent_once(store: Store, tracker: FakeTracker) -> None:
    path = write_journal(store, build_sized_result(0))
    run = recover_with(store, tracker)[run_id_of(0)]
    assert (run.status, run.message) == ("recovered", "FINISHED")
    assert tracker.finished[run_id_of(0)] == replay(read_records(path))
    before = {file: file.read_bytes() for file in store.journals.iterdir()}
    assert recover_with(store, tracker) == {}
    assert {file: file.read_bytes() for file in store.journals.iterdir()} == before


def test_a_journal_that_grew_since_it_was_sent_is_sent_again(store: Store, tracker: FakeTracker) -> None:
    path = write_journal(store, build_sized_result(0))
    recover_with(store, tracker)
    with path.open("ab") as file:
        file.write(b'{"kind":"note","time":1.0,"text":"late"}\n')
    assert recover_with(store, tracker)[run_id_of(0)].status == "recovered"
    assert tracker.finished[run_id_of(0)].notes == ("late",)


def test_all_sends_every_run_again(store: Store, tracker: FakeTracker) -> None:
    write_journal(store, build_sized_result(0))
    recover_with(store, tracker)
    assert recover_with(store, tracker, everything=True)[run_id_of(0)].status == "recovered"


def test_a_run_that_noted_its_success_but_not_its_end_is_finished(store: Store, tracker: FakeTracker) -> None:
    write_journal(store, build_sized_result(0), without={"exit"})
    assert recover_with(store, tracker)[run_id_of(0)].message == "FINISHED"


def test_a_run_that_noted_a_failure_but_not_its_end_is_failed_with_the_error(
    store: Store, tracker: FakeTracker
) -> None:
    error = {"type": "ResourceExhaustedError", "message": "no memory left", "traceback": ""}
    write_journal(store, build_sized_result(0, stage="training", error=error, exit=None))
    assert recover_with(store, tracker)[run_id_of(0)].message == "FAILED: out of memory: no memory left"


def test_a_run_that_ended_without_a_word_is_killed_at_its_last_sign_of_life(store: Store, tracker: FakeTracker) -> None:
    path = write_journal(store, build_sized_result(0), without={"exit", "finished"})
    last = read_records(path)[-1]["time"]
    run = recover_with(store, tracker)[run_id_of(0)]
    assert run.message.startswith("KILLED: the process that tracked it and the worker ended without a word")
    result = tracker.finished[run_id_of(0)]
    assert (result.status, result.ended_at) == ("KILLED", last)
    assert len(result.epochs) == 2


def test_a_line_that_was_half_written_is_ended_before_the_end_is_noted(store: Store, tracker: FakeTracker) -> None:
    path = write_journal(store, build_sized_result(0), without={"exit", "finished", "trained"})
    with path.open("ab") as file:
        file.write(b'{"kind":"epoch","time":17')
    assert recover_with(store, tracker)[run_id_of(0)].status == "recovered"
    assert [record["kind"] for record in read_records(path)][-3:] == ["epoch", "unreadable", "exit"]
    assert tracker.finished[run_id_of(0)].num_unreadable_lines == 1


def test_a_run_that_measured_nothing_is_discarded(store: Store, tracker: FakeTracker) -> None:
    write_journal(store, build_sized_result(0), without={"ready", "spans", "epoch", "finished", "exit"})
    run = recover_with(store, tracker)[run_id_of(0)]
    assert (run.status, run.message) == ("discarded", "it ended before anything was measured")
    assert store.run_ids() == []
    assert tracker.finished == {}


def test_a_run_that_still_runs_is_left_alone(store: Store, tracker: FakeTracker) -> None:
    path = write_journal(store, build_sized_result(0), without={"exit"})
    hold(path)
    path.with_suffix(".reserve").touch()
    before = path.read_bytes()
    for everything in (False, True):
        run = recover_with(store, tracker, everything=everything)[run_id_of(0)]
        assert (run.status, run.message) == ("left", "it is still running")
    assert path.read_bytes() == before
    assert path.with_suffix(".reserve").exists()
    assert tracker.finished == {}


def test_a_run_that_is_just_starting_is_left_alone(store: Store, tracker: FakeTracker) -> None:
    path = store.create_journal(run_id_of(0))
    path.write_bytes(b'{"kind":"requ')
    hold(path)
    assert recover_with(store, tracker)[run_id_of(0)].status == "left"
    assert path.exists()


def test_a_run_on_another_host_is_left_alone_until_it_was_silent_for_an_hour(
    store: Store, tracker: FakeTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = build_sized_result(0)
    late = dataclasses.replace(result, epochs=(dataclasses.replace(result.epochs[0], finished_at=time.time()),))
    begin_elsewhere(write_journal(store, late, without={"exit", "finished"}))
    run = recover_with(store, tracker)[run_id_of(0)]
    assert (run.status, run.message) == (
        "left",
        "it may still be running on another machine; recover it there, or in an hour",
    )
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3700)
    assert recover_with(store, tracker)[run_id_of(0)].status == "recovered"


def test_a_run_on_another_host_that_has_ended_is_sent(store: Store, tracker: FakeTracker) -> None:
    begin_elsewhere(write_journal(store, build_sized_result(0)))
    assert recover_with(store, tracker)[run_id_of(0)].status == "recovered"


def test_a_damaged_journal_does_not_stop_the_others(store: Store, tracker: FakeTracker) -> None:
    for index in (0, 1, 2):
        write_journal(store, build_sized_result(index))
    path = store.journal_path(run_id_of(0))
    path.write_bytes(path.read_bytes().replace(b'"placement":{', b'"placement":{"surprise":1,'))
    store.journal_path(run_id_of(1)).write_bytes(b"no journal\n")
    outcomes = {run.id: run.status for run in recover_with(store, tracker).values()}
    assert outcomes == {run_id_of(0): "failed", run_id_of(1): "failed", run_id_of(2): "recovered"}


@pytest.mark.parametrize("content", [b"\n", b"garbage \xff\0\n", b"[]\n" * 3, b'{"kind":5,"time":1}\n'])
def test_a_run_that_cannot_be_read_stops_no_command_over_all_runs(store: Store, content: bytes) -> None:
    for index in (0, 1, 2):
        write_journal(store, build_sized_result(index))
    store.journal_path(run_id_of(1)).write_bytes(content)
    for arguments in (("compare", "--all"), ("report", "--all", "--no-mlflow", "-o", str(store.root / "r.html"))):
        result = invoke(*arguments, "--store", str(store.root))
        assert result.exit_code == 2
        message = str(result.exception)
        assert message.startswith(f"1 run could not be read, and all else was done without:\n  {run_id_of(1)}: ")
        assert f"`{store.command('recover', '--drop', run_id_of(1))}` moves the files of this run aside" in message
        assert result.stdout
    assert f"run {run_id_of(1)} is left out" in (store.root / "r.html").read_text()
    document = json.loads(invoke("compare", "--all", "--format", "json", "--store", str(store.root)).stdout)
    assert set(document["unreadable"]) == {run_id_of(1)}
    assert invoke("show", "--effective", "@last", "--store", str(store.root)).exit_code == 0


def test_every_command_reads_a_run_whose_journal_has_a_half_written_line(store: Store, tracker: FakeTracker) -> None:
    write_journal(store, build_sized_result(1))
    path = write_journal(store, build_sized_result(0), without={"exit"})
    lines = path.read_bytes().splitlines(keepends=True)
    place = max(number for number, line in enumerate(lines) if b'"kind":"epoch"' in line)
    path.write_bytes(b"".join(lines[:place]) + lines[place][:37])
    assert recover_with(store, tracker)[run_id_of(0)].message.startswith("KILLED")
    result = tracker.finished[run_id_of(0)]
    assert (len(result.epochs), result.num_unreadable_lines) == (1, 1)
    for arguments in (
        ("compare", "--all"),
        ("compare", *store.run_ids()),
        ("diff", *store.run_ids()),
        ("show", "--effective", run_id_of(0)),
        ("report", "--all", "--no-mlflow", "-o", str(store.root / "r.html")),
    ):
        assert invoke(*arguments, "--store", str(store.root)).exit_code == 0
    exported = invoke("export", run_id_of(0), "-o", "-", "--store", str(store.root))
    assert exported.stdout_bytes == path.read_bytes()
    copy = store.root / "copy.jsonl"
    copy.write_bytes(exported.stdout_bytes)
    other = Store(store.root / "other")
    state = TrackingState(tracking_uri=other.tracking_uri, experiment="x")
    assert import_journals(other, [copy], lambda uri, experiment: tracker, state)[0].status == "imported"


def test_a_run_that_measured_and_whose_beginning_of_the_training_is_lost_is_kept(
    store: Store, tracker: FakeTracker
) -> None:
    for index, kind in enumerate((b'"kind":"ready"', b'"kind":"started"')):
        path = write_journal(store, build_sized_result(index), without={"exit", "finished"})
        path.write_bytes(path.read_bytes().replace(kind, b'"kind":'))
        run = recover_with(store, tracker)[run_id_of(index)]
        assert run.message.startswith("KILLED")
        assert len(tracker.finished[run_id_of(index)].epochs) == 2


def test_a_journal_without_a_line_is_not_discarded_with_the_snapshots_beside_it(
    store: Store, tracker: FakeTracker
) -> None:
    path = write_journal(store, build_sized_result(0))
    path.write_bytes(b"\0" * 1000)
    os.utime(path, (0, 0))
    snapshot = path.with_suffix(".files") / "snapshots" / "1.h5"
    snapshot.parent.mkdir(parents=True)
    snapshot.touch()
    assert recover_with(store, tracker)[run_id_of(0)].status == "failed"
    assert snapshot.exists()


def test_a_run_is_dropped_by_moving_its_files_aside(store: Store) -> None:
    for index in (0, 1):
        write_journal(store, build_sized_result(index))
    path = store.journal_path(run_id_of(1))
    path.write_bytes(b"no journal\n")
    (path.with_suffix(".files")).mkdir()
    (path.with_suffix(".files") / "model.keras").write_text("weights")
    result = invoke("recover", "--drop", run_id_of(1), "--store", str(store.root))
    (folder,) = (store.root / "dropped").iterdir()
    assert (result.exit_code, result.stdout) == (0, f"{run_id_of(1)}  dropped    its files are in {folder}\n")
    assert (folder / path.name).read_bytes() == b"no journal\n"
    assert (folder / f"{run_id_of(1)}.files" / "model.keras").read_text() == "weights"
    assert store.run_ids() == [run_id_of(0)]
    assert invoke("compare", "--all", "--store", str(store.root)).exit_code == 0


def test_dropping_makes_no_store(tmp_path: Path) -> None:
    result = invoke("recover", "--drop", "3f2a", "--store", str(tmp_path / "nowhere"))
    assert str(result.exception) == f"store {tmp_path / 'nowhere'}: holds no runs."
    assert not (tmp_path / "nowhere").exists()


def test_what_a_run_left_that_is_in_mlflow_already_is_removed_once_its_processes_are_gone(
    store: Store, tracker: FakeTracker
) -> None:
    paths = [write_journal(store, build_sized_result(index)) for index in (0, 1)]
    hold(paths[1])
    for path in paths:
        run_id = path.stem
        store.write_state(
            run_id,
            TrackingState(tracking_uri="x", experiment="x", run=None, projected_bytes=path.stat().st_size),
        )
        (store.journals / f"{run_id}.abc123.work").mkdir()
    assert recover_with(store, tracker) == {}
    assert [path.with_suffix(".abc123.work").is_dir() for path in paths] == [False, True]


def test_what_cannot_be_dropped_is_said(store: Store) -> None:
    for index in (0, 1):
        hold(write_journal(store, build_sized_result(index)))
    for token, message in (
        ("x", "run 'x': no run's id begins with it"),
        ("", "run '': no run's id begins with it"),
        ("0", "run '0': 2 runs begin with it. Use more of an id"),
        (run_id_of(0), f"run {run_id_of(0)} is still running"),
    ):
        result = invoke("recover", "--drop", token, "--store", str(store.root))
        assert result.exit_code == 2
        assert message in str(result.exception)
    assert len(store.run_ids()) == 2
    assert "--drop sends nothing" in invoke("recover", "--all", "--drop", "x", "--store", str(store.root)).output


def test_a_run_that_the_server_refuses_does_not_stop_the_others(store: Store, tracker: FakeTracker) -> None:
    for index in (0, 1):
        write_journal(store, build_sized_result(index))
    tracker.refused.add(run_id_of(0))
    runs = recover_with(store, tracker)
    assert (runs[run_id_of(0)].status, runs[run_id_of(0)].message) == ("failed", "server refuses this run")
    assert runs[run_id_of(1)].status == "recovered"


def test_a_server_that_is_down_is_waited_for_once_and_the_runs_are_sent_later(
    store: Store, tracker: FakeTracker
) -> None:
    for index in (0, 1, 2):
        write_journal(store, build_sized_result(index))
    tracker.is_down = True
    assert {run.status for run in recover_with(store, tracker).values()} == {"failed"}
    assert tracker.connections == 1
    tracker.is_down = False
    assert {run.status for run in recover_with(store, tracker).values()} == {"recovered"}


def test_runs_go_to_the_server_and_experiment_that_they_were_made_for(store: Store, tracker: FakeTracker) -> None:
    write_journal(store, build_sized_result(0))
    write_journal(store, build_sized_result(1))
    store.write_state(run_id_of(1), TrackingState(tracking_uri="http://server:5000", experiment="mine"))
    asked: list[tuple[str, str]] = []

    def make_tracker(uri: str, experiment: str) -> FakeTracker:
        asked.append((uri, experiment))
        return tracker

    recover(store, make_tracker)
    assert asked == [(store.tracking_uri, "tfbench"), ("http://server:5000", "mine")]
    state = store.read_state(run_id_of(1))
    assert state is not None
    assert (state.experiment, state.run and state.run.run_id) == ("mine", f"m-{run_id_of(1)}")


def test_space_set_aside_by_a_dead_run_is_given_back(store: Store, tracker: FakeTracker) -> None:
    reserve = write_journal(store, build_sized_result(0), without={"exit"}).with_suffix(".reserve")
    reserve.write_bytes(b"\0" * 1000)
    recover_with(store, tracker)
    assert not reserve.exists()


def test_a_second_recover_waits_for_the_first(store: Store) -> None:
    write_journal(store, build_sized_result(0))
    with store.lock("recover"), (store.root / ".recover.lock").open("ab") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_store_that_cannot_be_written_to_is_an_error(
    store: Store, tracker: FakeTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_journal(store, build_sized_result(0))

    def refuse(self: Store, name: str) -> contextlib.AbstractContextManager[None]:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Store, "lock", refuse)
    with pytest.raises(TrackingError, match=f"store {store.root}: cannot be written to: Read-only file system"):
        recover_with(store, tracker)


def leave_writes_beside(database: Path) -> None:
    """Deletes a database that a process was killed at, which leaves its last writes beside it."""
    code = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("PRAGMA wal_autocheckpoint = 0")
connection.execute("CREATE TABLE other (text)")
connection.executemany("INSERT INTO other VALUES (?)", [("x" * 3000,)] * 300)
connection.commit()
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code, str(database)], check=True)
    database.unlink()
    assert database.with_name("mlflow.db-wal").stat().st_size


def test_a_database_that_is_made_anew_takes_nothing_over_from_one_that_was_deleted(store: Store) -> None:
    make_database(store)
    template = store.root / "template.db"
    template.write_bytes(store.database.read_bytes())
    leave_writes_beside(store.database)
    database.create(store.database, store.artifacts, lambda part: part.write_bytes(template.read_bytes()))
    database.require_whole(store.database)
    with contextlib.closing(sqlite3.connect(store.database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert not connection.execute("SELECT * FROM sqlite_master WHERE name = 'other'").fetchall()


def test_a_process_that_has_a_deleted_database_open_does_not_spoil_the_new_one(store: Store) -> None:
    make_database(store)
    template = store.root / "template.db"
    template.write_bytes(store.database.read_bytes())
    old = sqlite3.connect(store.database)
    old.execute("CREATE TABLE old (text)")
    old.commit()
    store.database.unlink()
    database.create(store.database, store.artifacts, lambda part: part.write_bytes(template.read_bytes()))
    with contextlib.closing(sqlite3.connect(store.database)) as new:
        new.execute("CREATE TABLE new (text)")
        new.commit()
        with contextlib.suppress(sqlite3.Error):  # SQLite may notice
            old.execute("INSERT INTO old VALUES ('x')")
            old.commit()
        old.close()
        new.execute("INSERT INTO new VALUES ('y')")
        new.commit()
    with contextlib.closing(sqlite3.connect(store.database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT * FROM new").fetchall() == [("y",)]


def test_a_damaged_database_is_named_with_what_makes_it_anew(store: Store, tracker: FakeTracker) -> None:
    make_database(store)
    write_journal(store, build_sized_result(0))
    data = bytearray(store.database.read_bytes())
    data[len(data) // 2 : -4096] = b"\xff" * len(data[len(data) // 2 : -4096])
    store.database.write_bytes(data)
    (run,) = recover_with(store, tracker).values()
    assert run.status == "failed"
    assert run.message.startswith(f"{store.database}: is damaged: ")
    assert run.message.endswith(f"beside it away, and `tfbench recover --all --store {store.root}` makes it anew.")
    assert tracker.connections == 0
    store.journal_path(run_id_of(0)).unlink()
    result = invoke("recover", "--store", str(store.root))
    assert result.exit_code == 2
    assert "mlflow.db: is damaged" in str(result.exception)


def test_a_database_that_another_process_holds_is_not_called_damaged(
    store: Store, tracker: FakeTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "OPEN_SECONDS", 0.1)
    make_database(store)
    write_journal(store, build_sized_result(0))
    with contextlib.closing(sqlite3.connect(store.database)) as holder:
        holder.execute("PRAGMA journal_mode = DELETE")
        holder.execute("BEGIN EXCLUSIVE")
        (run,) = recover_with(store, tracker).values()
    assert run.message == (
        f"{store.database}: cannot be read: database is locked. Make sure that no other process keeps it, and that you "
        f"may read and write it and its folder; `tfbench recover --store {store.root}` tries again."
    )


def test_recovering_twice_into_mlflow_changes_nothing(store: Store) -> None:
    make_database(store)
    write_journal(store, build_sized_result(0), without={"exit", "finished"})
    make: Callable[[str, str], Tracker] = lambda uri, name: Tracker(uri, name, store)  # noqa: E731

    def dump() -> list[str]:
        with contextlib.closing(sqlite3.connect(store.database)) as connection:
            return sorted(connection.iterdump())

    assert [run.status for run in recover(store, make)] == ["recovered"]
    before = dump()
    assert recover(store, make) == []
    assert [run.status for run in recover(store, make, everything=True)] == ["recovered"]
    assert dump() == before


def test_the_command_prints_one_json_object(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(write_journal(store, build_sized_result(0)))
    result = invoke("recover", "--store", str(store.root), "--format", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "format_version": 1,
        "runs": [{"id": run_id_of(0), "status": "left", "message": "it is still running", "tracked": None}],
    }


def test_the_command_says_that_there_is_nothing_to_do(store: Store) -> None:
    result = invoke("recover", "--store", str(store.root))
    assert (result.exit_code, result.stdout) == (0, f"Store {store.root}: nothing to recover.\n")


def test_the_command_ends_with_exit_code_2_if_a_run_could_not_be_recovered(store: Store) -> None:
    write_journal(store, build_sized_result(0))
    store.journal_path(run_id_of(0)).write_bytes(b"no journal\n")
    result = invoke("recover", "--store", str(store.root))
    assert result.exit_code == 2
    assert "1 of 1 runs could not be brought into MLflow" in str(result.exception)


def test_export_to_stdout_writes_the_journal_and_nothing_else(store: Store) -> None:
    path = write_journal(store, build_sized_result(0))
    result = invoke("export", "mlp-100-b32-0", "-o", "-", "--store", str(store.root))
    assert result.stdout_bytes == path.read_bytes()


def test_export_does_not_overwrite_a_file_unless_told_to(store: Store, tmp_path: Path) -> None:
    write_journal(store, build_sized_result(0))
    file = tmp_path / "run.jsonl"
    file.write_text("precious")
    refused = invoke("export", "@last", "-o", str(file), "--store", str(store.root))
    assert refused.exit_code == 2
    assert str(refused.exception).startswith(f"{file}: is there already. Use --force")
    assert file.read_text() == "precious"
    assert invoke("export", "@last", "-o", str(file), "--force", "--store", str(store.root)).exit_code == 0
    assert file.read_text() != "precious"


def test_export_to_a_folder_that_is_not_there_is_one_clear_error(store: Store, tmp_path: Path) -> None:
    write_journal(store, build_sized_result(0))
    result = invoke("export", "@last", "-o", str(tmp_path / "none" / "run.jsonl"), "--store", str(store.root))
    assert result.exit_code == 2
    assert str(result.exception).endswith("cannot be written: No such file or directory.")


def test_a_run_without_an_end_is_exported_with_a_warning_and_left_by_an_import(store: Store, tmp_path: Path) -> None:
    write_journal(store, build_sized_result(0), without={"exit"})
    file = tmp_path / "run.jsonl"
    exported = invoke("export", "@last", "-o", str(file), "--store", str(store.root))
    assert exported.exit_code == 0
    assert "has not ended, or not been recovered" in exported.output
    imported = invoke("import", str(file), "--store", str(tmp_path / "other"))
    assert imported.exit_code == 0
    assert "left" in imported.output and "`tfbench recover` where it was measured" in imported.output
    assert not (tmp_path / "other").exists()


UNTRUE = [
    (b'"num_parameters":', b'"num_parameters":1' + b"0" * 400, "is damaged: OverflowError"),
    (b'"time":', b'"time":"x","y":', "it does not begin with a request"),
    (b'"epoch_seconds":', b'"epoch_seconds":-', "epoch.epoch.epoch_seconds: must be greater than or equal to 0"),
    (b'"epoch_seconds":', b'"epoch_seconds":NaN,"x":', "epoch.epoch.epoch_seconds: must be a finite number"),
    (b'"created":17', b'"created":1e300,"x":17', "request.created: must be less than or equal to"),
    (b'"steps_per_epoch":30', b'"steps_per_epoch":"x"', "ready.steps_per_epoch: must be a valid integer"),
    (b'"pid":', b'"pid":-', "worker.pid: must be greater than or equal to 0"),
    (b'"name":"mlp-', b'"name":{},"x":"mlp-', "request.name: must be a valid string. Received: {}"),
    (b'"tags":{}', b'"tags":{"a":1}', "request.tags.a: must be a valid string. Received: 1"),
    (b'"status":"FINISHED"', b'"status":"DONE"', "exit.status: must be one of RUNNING, FINISHED, FAILED, KILLED"),
    (b'"recipe":{"recipe":', b'"recipe":5,"x":{"recipe":', "request.recipe: must be a table. Received: 5"),
]


@pytest.mark.parametrize(("old", "new", "message"), UNTRUE, ids=[message for _, _, message in UNTRUE])
def test_a_field_that_is_not_what_tfbench_writes_is_named(
    store: Store, tmp_path: Path, old: bytes, new: bytes, message: str
) -> None:
    data = write_journal(store, build_sized_result(0)).read_bytes()
    assert old in data
    file = tmp_path / "bad.jsonl"
    file.write_bytes(data.replace(old, new, 1))
    other = tmp_path / "other"
    result = invoke("import", str(file), "--store", str(other))
    assert result.exit_code == 2
    assert str(result.exception).startswith(f"{file}: ")
    assert message in str(result.exception)
    assert len(str(result.exception)) < 500
    assert not other.exists()


def test_a_half_written_line_after_the_end_of_a_run_is_no_loss_to_whoever_imports_it(
    store: Store, tmp_path: Path
) -> None:
    path = write_journal(store, build_sized_result(0))
    path.write_bytes(path.read_bytes() + b'{"kind":"no')
    other = tmp_path / "other"
    assert invoke("import", str(path), "--store", str(other)).exit_code == 0
    reading = read_run(Store(other).journal_path(path.stem))
    assert reading.num_unreadable_lines == 0
    assert reading.exit


def test_an_import_connects_once_to_a_server_with_a_password(
    store: Store, tmp_path: Path, tracker: FakeTracker
) -> None:
    path, other = write_journal(store, build_sized_result(0)), Store(tmp_path / "other")
    state = TrackingState(tracking_uri="http://me:s3cret@server", experiment="x")
    (run,) = import_journals(other, [path], lambda *_: tracker, state)
    assert (run.status, tracker.connections) == ("imported", 1)


def test_recover_waits_until_an_imported_run_is_in_mlflow(
    store: Store, tmp_path: Path, tracker: FakeTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = write_journal(store, build_sized_result(0)), Store(tmp_path / "other")
    update = tracker.update

    def update_alone(result: RunResult, summary: Summary | None) -> TrackedRun:
        with (other.root / ".recover.lock").open("ab") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return update(result, summary)

    monkeypatch.setattr(tracker, "update", update_alone)
    state = TrackingState(tracking_uri=other.tracking_uri, experiment="x")
    (run,) = import_journals(other, [path], lambda *_: tracker, state)
    assert run.status == "imported"


def test_a_run_that_is_imported_while_its_server_is_down_waits_in_the_store(
    store: Store, tmp_path: Path, tracker: FakeTracker
) -> None:
    path, other = write_journal(store, build_sized_result(0)), Store(tmp_path / "other")
    tracker.is_down = True
    state = TrackingState(tracking_uri="http://127.0.0.1:1", experiment="x")
    (run,) = import_journals(other, [path], lambda *_: tracker, state)
    assert (run.status, "server is down" in run.message) == ("failed", True)
    tracker.is_down = False
    assert [one.status for one in recover(other, lambda *_: tracker)] == ["recovered"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"not a journal\n",
        lambda data: data[10:],
        lambda data: data.replace(b'"spans":[[', b'"spams":[['),
        lambda data: data.replace(b"[1,1,10", b'["one",1,10'),
        lambda data: data.replace(b'"run_id":"', b'"run_id":"../../'),
        lambda data: data.replace(b'"format_version":1', b'"format_version":99'),
    ],
    ids=["empty", "text", "cut at the front", "missing key", "wrong type", "id that is a path", "newer format"],
)
def test_nothing_is_imported_if_one_file_is_damaged(
    store: Store, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_bytes(write_journal(store, build_sized_result(0)).read_bytes())
    data = write_journal(store, build_sized_result(1)).read_bytes()
    bad.write_bytes(damage(data))
    assert bad.read_bytes() != data
    result = invoke("import", str(good), str(bad), "--store", str(tmp_path / "other"))
    assert result.exit_code == 2, result.output
    assert not (tmp_path / "other").exists()


def test_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    result = invoke("import", str(tmp_path / "none.jsonl"), "--store", str(tmp_path / "store"))
    assert result.exit_code == 2
    assert str(result.exception).endswith("none.jsonl: cannot be read: No such file or directory")
