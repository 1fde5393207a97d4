import errno
import json
import os
import shutil
from pathlib import Path

import psutil
import pytest

from builders import build_request
from journals import DEAD, build_sized_result, this_process, write_journal
from tfbench.errors import TrackingError, UnknownNameError
from tfbench.records.journal import Journal, read_records, request_fields
from tfbench.records.run import TrackedRun
from tfbench.runs.launchers.launch import describe_this_process
from tfbench.store.liveness import is_running
from tfbench.store.store import Store
from tfbench.store.tracking_state import TrackingState

RUN = "0" * 31 + "1"


def build_state(store: Store, **fields: object) -> TrackingState:
    values: dict[str, object] = {"tracking_uri": store.tracking_uri, "experiment": "tfbench"}
    return TrackingState(**values | fields)


def test_making_a_store_touches_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "mlruns")
    assert store.run_ids() == []
    assert store.heads() == []
    assert list(tmp_path.iterdir()) == []


def test_the_tracking_uri_is_absolute(in_tmp_path: Path) -> None:
    assert Store(Path("mlruns")).tracking_uri == f"sqlite:///{in_tmp_path}/mlruns/mlflow.db"


def test_a_discarded_run_leaves_nothing_behind(tmp_path: Path) -> None:
    store = Store(tmp_path / "mlruns")
    journal = Journal(store.create_journal(RUN))
    journal.reserve()
    journal.append("request", **request_fields(build_request(run_id=RUN)))
    store.write_state(RUN, build_state(store))
    store.discard(RUN)
    assert list(tmp_path.iterdir()) == []


def test_discarding_keeps_what_was_there_before(tmp_path: Path) -> None:
    keep = tmp_path / ".gitkeep"
    keep.touch()
    store = Store(tmp_path)
    write_journal(store, build_sized_result(2))
    store.create_journal(RUN)
    store.discard(RUN)
    assert keep.exists()
    assert store.run_ids() == [f"{2:032x}"]


def test_discarding_a_run_that_is_not_there_does_nothing(tmp_path: Path) -> None:
    Store(tmp_path / "none").discard(RUN)
    assert not (tmp_path / "none").exists()


def test_a_store_that_is_a_file_is_refused_with_its_name(tmp_path: Path) -> None:
    root = tmp_path / "mlruns"
    root.write_text("not a folder")
    with pytest.raises(TrackingError, match=f"store {root}: cannot be used: .*--store"):
        Store(root).create_journal(RUN)
    assert root.read_text() == "not a folder"


def test_a_read_only_store_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere, whatever a folder's mode is
    with pytest.raises(TrackingError, match="cannot be used: it is read-only"):
        Store(tmp_path / "mlruns").create_journal(RUN)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_refused_before_anything_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 2**20))
    with pytest.raises(TrackingError, match=r"its disk is full: 1\.0 MiB are free, 4 are needed"):
        Store(tmp_path / "mlruns").create_journal(RUN)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("run_id", ["../../etc/passwd", "", ".hidden", "a/b", "a" * 200])
def test_an_id_that_is_no_file_name_is_refused(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(TrackingError, match="run id"):
        Store(tmp_path).journal_path(run_id)


def test_a_state_is_read_back_as_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    tracked = TrackedRun(tracking_uri="http://server:5000", experiment_id="3", run_id="abc")
    state = build_state(store, tracking_uri="http://server:5000", run=tracked, projected_bytes=17)
    store.write_state(RUN, state)
    assert store.read_state(RUN) == state
    assert [path.name for path in store.journals.iterdir()] == [f"{RUN}.tracked.json"]


def test_the_state_of_a_moved_store_names_the_new_place(tmp_path: Path) -> None:
    store = Store(tmp_path / "old")
    store.write_state(RUN, build_state(store))
    (tmp_path / "old").rename(tmp_path / "new")
    moved = Store(tmp_path / "new")
    assert moved.read_state(RUN) == build_state(moved)


DAMAGED_STATES = [
    *("", "{", "[]", '{"tracking_uri": null}', '{"run": {"a": 1}, "tracking_uri": ""}'),
    *(
        json.dumps({"tracking_uri": None, "experiment": "x", "run": None, "projected_bytes": 0} | wrong)
        for wrong in ({"tracking_uri": 5}, {"experiment": []}, {"run": 5}, {"projected_bytes": "x"}, {"run": {"a": 5}})
    ),
]


@pytest.mark.parametrize("text", DAMAGED_STATES)
def test_a_damaged_state_counts_as_none(tmp_path: Path, text: str) -> None:
    store = Store(tmp_path)
    store.journals.mkdir()
    (store.journals / f"{RUN}.tracked.json").write_text(text)
    assert store.read_state(RUN) is None


def test_a_state_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    store.write_state(RUN, build_state(store))

    def fail(self: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        store.write_state(RUN, build_state(store, projected_bytes=5))
    assert store.read_state(RUN) == build_state(store)
    assert len(list(store.journals.iterdir())) == 1


def test_finds_a_run_by_what_a_user_types(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for index in (0, 1, 2):
        write_journal(store, build_sized_result(index))
    first, second = f"{0:032x}", f"{1:032x}"
    tracked = TrackedRun(tracking_uri=store.tracking_uri, experiment_id="1", run_id="feedbeef")
    store.write_state(first, build_state(store, run=tracked))
    assert store.find(first) == first
    assert store.find("feed") == first
    assert store.find("mlp-1000-b32-1") == second
    assert store.find("@last") == f"{2:032x}"


def test_a_run_name_that_several_runs_have_lists_them(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for index in (0, 1):
        result = build_sized_result(index)
        write_journal(store, result)
    with pytest.raises(UnknownNameError, match="run '000': 2 runs are meant by it") as caught:
        store.find("000")
    assert "mlp-100-b32-0" in str(caught.value)
    assert "mlp-1000-b32-1" in str(caught.value)


def test_an_unknown_run_gets_a_hint(tmp_path: Path) -> None:
    store = Store(tmp_path)
    write_journal(store, build_sized_result(0))
    with pytest.raises(UnknownNameError, match=r"Did you mean 'mlp-100-b32-0'\?"):
        store.find("mlp-100-b32")


@pytest.mark.parametrize("token", ["@last", "abc", ""])
def test_an_empty_store_says_that_it_holds_no_runs(tmp_path: Path, token: str) -> None:
    with pytest.raises(UnknownNameError, match="holds no runs"):
        Store(tmp_path / "none").find(token)


def test_a_damaged_journal_does_not_hide_the_others(tmp_path: Path) -> None:
    store = Store(tmp_path)
    write_journal(store, build_sized_result(0))
    (store.journals / "broken.jsonl").write_bytes(b'{"kind": "requ')
    assert store.find("@last") == f"{0:032x}"


def test_leftovers_of_dead_runs_are_removed_and_those_of_others_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for index in (0, 1):
        write_journal(store, build_sized_result(index)).with_suffix(".reserve").touch()
    orphan = store.journals / "gone.tracked.json"
    orphan.touch()
    store.remove_leftovers({f"{0:032x}"})
    assert [path.name for path in store.journals.glob("*.reserve")] == [f"{1:032x}.reserve"]
    assert not orphan.exists()


def test_a_run_whose_parent_is_alive_is_running(tmp_path: Path) -> None:
    path = write_journal(Store(tmp_path), build_sized_result(0), parent=this_process())
    assert is_running(read_records(path)) is True


def test_a_run_whose_worker_is_alive_is_running() -> None:
    me = this_process()
    worker = {"kind": "worker", "pid": me["pid"], "created": me["created"]}
    assert is_running([{"kind": "request", "parent": DEAD | {"boot": me["boot"]}}, worker]) is True


def test_a_run_whose_processes_are_gone_is_not_running(tmp_path: Path) -> None:
    path = write_journal(Store(tmp_path), build_sized_result(0))
    assert is_running(read_records(path)) is False


def test_another_process_with_the_same_number_is_not_taken_for_the_run() -> None:
    parent = this_process()
    assert is_running([{"kind": "request", "parent": parent | {"created": parent["created"] - 100}}]) is False


def test_a_process_started_before_the_machine_was_restarted_is_not_running() -> None:
    day = 86_400.0
    parent = this_process()
    earlier = parent | {"created": parent["created"] - 365 * day, "boot": parent["boot"] - 365 * day}
    assert is_running([{"kind": "request", "parent": earlier}]) is False


def test_a_clock_that_was_set_does_not_make_a_run_seem_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    parent = this_process()
    monkeypatch.setattr(psutil, "boot_time", lambda: parent["boot"] - 3)
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: parent["created"] - 3)
    assert is_running([{"kind": "request", "parent": parent}]) is True


def test_nor_does_one_that_was_set_before_the_run_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """As earlier versions of psutil reckon a process's start: from the boot time that was last read."""
    last_read, age = [psutil.boot_time()], psutil.Process().create_time() - psutil.boot_time()
    booted = last_read[0] + 3

    def read() -> float:
        last_read.append(booted)
        return booted

    monkeypatch.setattr(psutil, "boot_time", read)
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: last_read[-1] + age)
    parent = describe_this_process()
    last_read.append(booted - 3)
    assert is_running([{"kind": "request", "parent": parent}]) is True


def test_of_a_run_on_another_host_it_cannot_be_known() -> None:
    assert is_running([{"kind": "request", "parent": this_process() | {"host": "elsewhere"}}]) is None


def test_a_run_without_a_parent_is_not_running() -> None:
    assert is_running([{"kind": "request"}]) is False
