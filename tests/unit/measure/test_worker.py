"""The measuring process: what it leaves behind where its journal takes nothing more."""

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runs import wait_until
from tfbench import backends
from tfbench.errors import DatasetError
from tfbench.measure import __main__ as worker
from tfbench.store.journal import Journal

DEAF = """
import time
from pathlib import Path
from tfbench.measure import __main__ as worker

def hear_nothing(*_):
    while True:
        try:
            Path("begun").touch()
            time.sleep(60)
        except BaseException:
            pass

worker._run = hear_nothing
worker._GRACE_SECONDS = 60.0  # for its last record, however slow the disk is
worker.main()
"""


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """A journal on a disk that takes nothing more."""

    def reject(journal: Journal, *args: Any, **fields: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Journal, "append", reject)
    return Journal(tmp_path / "run.jsonl")


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device"),
            ["OSError: [Errno 28] No space left on device"],
        ),
        (DatasetError("mnist: is not there."), ["DatasetError: mnist: is not there."]),
        (
            ZeroDivisionError("a bug"),
            ["ZeroDivisionError: a bug", ""],
        ),  # a traceback, had it been raised
    ],
)
def test_what_ended_a_run_whose_journal_is_full_is_told_to_its_parent(
    full: Journal, error: Exception, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    is_own = isinstance(error, DatasetError)
    assert worker._record_failure(full, "failed", error, 1, with_traceback=not is_own) == 1
    assert capsys.readouterr().err.split("\n")[:-1] == lines


def test_memory_that_could_not_be_had_is_the_reason_also_where_it_made_something_else_fail(
    tmp_path: Path,
) -> None:
    import tensorflow as tf

    backends.current()  # as it is where its errors come up
    journal = Journal(tmp_path / "run.jsonl")
    try:
        try:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
        finally:
            raise RuntimeError("weights are gone")
    except RuntimeError as error:
        worker._record_failure(journal, "failed", error, 1, with_traceback=True)
    (record,) = [json.loads(line) for line in journal.path.read_text(encoding="utf-8").splitlines()]
    assert (record["error"]["type"], record["error"]["message"]) == (
        "out of memory",
        "OOM when allocating tensor",
    )
    assert "weights are gone" in record["error"]["traceback"]


def test_a_process_that_is_asked_to_stop_before_it_is_ready_ends_whatever_passes_over_exceptions(
    tmp_path: Path,
) -> None:
    journal = tmp_path / "run.jsonl"
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"journal": str(journal)}), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", DEAF, str(request)],
        stdin=subprocess.PIPE,
        cwd=tmp_path,
        start_new_session=True,
    )
    try:
        wait_until((tmp_path / "begun").exists, "its work begins")
        process.terminate()
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.communicate()
    assert [
        json.loads(line)["kind"] for line in journal.read_text(encoding="utf-8").splitlines()
    ] == ["breakdown"]
