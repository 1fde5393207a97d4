"""What a run needs for a while lies beside its journal, and goes with it."""

import shutil
import sys
from typing import Any

import pytest

from builders import build_request
from runs import wait_until
from tfbench.runs import process
from tfbench.runs.process import Worker
from tfbench.store.run_folder import WORK_SUFFIX
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
    code = (
        "import sys, tempfile; sys.stderr.write(tempfile.gettempdir()); sys.stdin.read(1);"
        " sys.stderr.write('!')"
    )
    with start(monkeypatch, store, code) as worker:
        wait_until(lambda: worker.stderr_tail() != "", "the first word")
        (name,) = left_in(store)
        shutil.rmtree(store.journals / name)  # as a cleaner does
        worker.begin()
        worker.wait(60)
        assert worker.stderr_tail() == f"{(store.journals / name).absolute()}!"
    assert left_in(store) == []
