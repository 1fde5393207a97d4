"""What a run needs for a while lies beside its journal, and goes with it."""

import contextlib
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from builders import build_request, build_result
from journals import write_journal
from runs import wait_until
from tfbench.machine import children
from tfbench.records.journal import WORK_SUFFIX, work_folder
from tfbench.runs import process
from tfbench.runs.process import Worker
from tfbench.store.store import Store


def left_in(store: Store) -> list[str]:
    return [path.name for path in store.journals.glob(f"*{WORK_SUFFIX}")]


def start(monkeypatch: pytest.MonkeyPatch, store: Store, code: str) -> Worker:
    """Starts a process that does something else than to measure."""
    real = process.subprocess.Popen

    def popen(command: list[str], **options: Any) -> Any:
        return real([sys.executable, "-S", "-c", code], **options)

    monkeypatch.setattr(process.subprocess, "Popen", popen)
    path = store.create_journal("abc")
    path.touch()
    return Worker(build_request(run_id="abc"), path)


def test_a_worker_has_a_folder_for_temporary_files_that_goes_with_it_and_what_it_said_is_known_without_it(
    monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    code = "import sys, tempfile; sys.stderr.write(tempfile.gettempdir()); sys.stdin.read(1); sys.stderr.write('!')"
    with start(monkeypatch, store, code) as worker:
        wait_until(lambda: worker.stderr_tail() != "", "the first word")
        (name,) = left_in(store)
        shutil.rmtree(store.journals / name)  # as a cleaner does
        worker.begin()
        worker.wait(60)
        assert worker.stderr_tail() == f"{(store.journals / name).absolute()}!"
    assert left_in(store) == []


def test_a_worker_that_cannot_be_started_leaves_no_folder(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    monkeypatch.setattr(children.sys, "executable", "/nowhere/python")
    path = store.create_journal("abc")
    with pytest.raises(FileNotFoundError):
        Worker(build_request(run_id="abc"), path)
    assert left_in(store) == []


def test_folders_of_dead_runs_and_of_none_are_removed_and_those_of_others_kept(store: Store) -> None:
    for run_id in ("dead", "alive"):
        write_journal(store, build_result(request=build_request(run_id=run_id)))
    with contextlib.ExitStack() as kept:
        folders = [
            Path(kept.enter_context(work_folder(store.journal_path(name)))) for name in ("dead", "alive", "none")
        ]
        store.remove_leftovers({"dead"})
        assert [folder.is_dir() for folder in folders] == [False, True, False]
