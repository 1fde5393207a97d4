import platform
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from builders import build_request
from journals import begin_elsewhere, build_sized_result, write_journal
from tfbench.errors import TrackingError, UnknownNameError
from tfbench.store.journal import Journal, request_fields
from tfbench.store.liveness import is_running, run_lock
from tfbench.store.recover import recover
from tfbench.store.store import SHOWN_CANDIDATES, Store

RUN = "0" * 31 + "1"


def test_a_discarded_run_leaves_nothing_behind_and_all_else_as_it_was(tmp_path: Path) -> None:
    for root, others in ((tmp_path / "mlruns", []), (tmp_path, [tmp_path / ".gitkeep"])):
        for path in others:
            path.touch()
        store = Store(root)
        journal = Journal(store.create_journal(RUN))
        journal.reserve()
        journal.append("request", **request_fields(build_request(run_id=RUN)))
        store.write_state(RUN, store.default_state)
        for _ in range(2):  # the second time it is not there
            store.discard(RUN)
        assert list(tmp_path.iterdir()) == others


@pytest.mark.advice("cannot be used: {}. Choose another one")
def test_a_store_that_is_a_file_is_rejected_with_its_name(tmp_path: Path) -> None:
    root = tmp_path / "mlruns"
    root.write_text("not a folder")
    with pytest.raises(TrackingError, match=f"store {root}: cannot be used: .*--store"):
        Store(root).create_journal(RUN)
    assert root.read_text() == "not a folder"
    assert Store(tmp_path / "other").create_journal(RUN).parent.is_dir()


def test_a_full_disk_is_rejected_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 2**20)
    )
    with pytest.raises(TrackingError, match=r"its disk is full: 1\.0 MiB are free, 4 are needed"):
        Store(tmp_path / "mlruns").create_journal(RUN)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("run_id", ["../../etc/passwd", "", ".", "..", ".hidden", "a/b", "a" * 200])
def test_an_id_that_is_no_file_name_is_rejected(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(TrackingError, match="must be letters and digits"):
        Store(tmp_path).journal_path(run_id)


def test_the_state_of_a_moved_store_names_the_new_place(tmp_path: Path) -> None:
    store = Store(tmp_path / "old")
    store.write_state(RUN, store.default_state)
    (tmp_path / "old").rename(tmp_path / "new")
    moved = Store(tmp_path / "new")
    assert moved.read_state(RUN) == moved.default_state


DAMAGED_STATES = (
    "",
    "[]",
    '{"tracking_uri": null}',
    '{"tracking_uri": null, "experiment": []}',
    '{"tracking_uri": 5}',
)


@pytest.mark.parametrize("text", DAMAGED_STATES)
def test_a_damaged_state_counts_as_none(store: Store, text: str) -> None:
    store.journals.mkdir(parents=True)
    (store.journals / f"{RUN}.tracked.json").write_text(text)
    assert store.read_state(RUN) is None


def test_finds_a_run_by_what_a_user_types(store: Store) -> None:
    for index in (0, 1, 2):
        write_journal(store, build_sized_result(index))
    first = f"{0:032x}"
    second = f"{1:032x}"
    assert store.find(first) == first
    assert store.find("mlp-1000-b32-1") == second
    (store.journals / "broken.jsonl").write_bytes(b'{"kind": "requ')
    assert store.find("@last") == f"{2:032x}"


@pytest.mark.parametrize("token", ["@last", "abc", ""])
def test_an_empty_store_says_that_it_holds_no_runs_and_is_not_made(
    tmp_path: Path, token: str
) -> None:
    store = Store(tmp_path / "none")
    with pytest.raises(UnknownNameError, match="holds no runs"):
        store.find(token)
    assert (store.run_ids(), store.heads(), list(tmp_path.iterdir())) == ([], [], [])


def test_leftovers_of_dead_runs_are_removed_and_those_of_others_kept(store: Store) -> None:
    for index in (0, 1):
        path = write_journal(store, build_sized_result(index))
        path.with_suffix(".reserve").touch()
        path.with_suffix(".x1.work").mkdir()
    (store.journals / "gone.x1.work").mkdir()
    (store.journals / "gone.csv").touch()  # whatever it is
    orphan = store.journals / "gone.tracked.json"
    orphan.touch()
    store.remove_leftovers(lambda run_id: run_id == f"{0:032x}")
    left = [path.name for path in store.journals.iterdir() if path.suffix != ".jsonl"]
    assert sorted(left) == [f"{1:032x}.reserve", f"{1:032x}.x1.work", "gone.csv"]


def test_a_run_goes_on_while_its_lock_is_held_by_whatever_process(tmp_path: Path) -> None:
    path = write_journal(Store(tmp_path), build_sized_result(0))
    assert is_running(path) is False
    with run_lock(path):
        assert is_running(path) is True
        # By which another host, which does not see the lock, knows whose the run is.
        assert path.with_suffix(".lock").read_text() == platform.node()
    assert is_running(path) is False
    assert not path.with_suffix(".lock").exists()
    begin_elsewhere(path)
    assert is_running(path) is None


def test_the_lock_of_a_run_goes_with_the_process_that_tracks_it_and_not_with_what_that_started(
    tmp_path: Path,
) -> None:
    path = write_journal(Store(tmp_path), build_sized_result(0))
    code = f"""
import pathlib, subprocess, sys
from tfbench.store.liveness import run_lock
with run_lock(pathlib.Path({str(path)!r})):
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    print(child.pid, flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        child = psutil.Process(int(holder.stdout.readline()))
        assert is_running(path) is True
        holder.kill()
        holder.wait()
        assert (is_running(path), child.is_running()) == (False, True)
        child.kill()


def test_the_lock_of_a_run_that_was_killed_before_its_journal_is_removed_and_one_that_is_held_is_not(
    store: Store,
) -> None:
    killed = store.create_journal("a" * 32)
    starting = store.create_journal("b" * 32)
    killed.with_suffix(".lock").write_text(platform.node(), encoding="utf-8")
    with run_lock(starting):
        assert recover(store, lambda *_: pytest.fail("nothing is to be sent")) == []
        assert [path.stem for path in store.journals.iterdir()] == ["b" * 32]


def test_runs_that_may_be_meant_are_listed_and_further_ones_counted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for index in range(SHOWN_CANDIDATES + 2):
        write_journal(store, build_sized_result(index))
        with pytest.raises(UnknownNameError) as raised:
            store.find("nobody")
        _, *lines = str(raised.value).splitlines()
        expected = [f"  {head.run_id}  {head.name}" for head in store.heads()]
        num_more = len(expected) - SHOWN_CANDIDATES
        if num_more > 0:
            expected[SHOWN_CANDIDATES:] = [f"  ... and {num_more} more"]
        assert lines == expected
