"""Processes that tfbench starts, from a folder in which somebody left modules of Python's names."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tfbench.machine import children

PLANTED = (
    'open("ran", "a").write(__file__)\nraise SystemExit("the json.py of the current folder ran")\n'
)


@pytest.fixture
def hostile(in_tmp_path: Path) -> Path:
    """The current folder."""
    for name in ("json", "argparse", "tempfile", "mlflow", "tensorflow"):
        (in_tmp_path / f"{name}.py").write_text(PLANTED, encoding="utf-8")
    return in_tmp_path


def test_a_child_that_is_started_and_what_it_starts_run_nothing_of_the_current_folder(
    hostile: Path,
) -> None:
    (hostile / "users").mkdir()
    code = (
        "import subprocess, sys; subprocess.run([sys.executable, '-m', 'json.tool', '--help'],"
        " check=True)"
    )
    (hostile / "users" / "parent.py").write_text(code, encoding="utf-8")
    with (hostile / "output").open("wb") as output:
        settings = {"PYTHONPATH": str(hostile / "users")}
        assert children.start("parent", output=output, settings=settings).wait(60) == 0
    assert not (hostile / "ran").exists()


def test_tfbench_run_as_a_module_runs_nothing_of_the_current_folder(hostile: Path) -> None:
    command = [sys.executable, "-m", "tfbench", "list", "--format", "json"]
    done = subprocess.run(command, cwd=hostile, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (hostile / "ran").exists()


def test_settings_stand_in_place_of_the_users_and_none_takes_one_away(
    monkeypatch: pytest.MonkeyPatch, in_tmp_path: Path
) -> None:
    for name in ("CHANGED", "TAKEN"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PYTHONPATH", str(in_tmp_path))
    names = ("CHANGED", "TAKEN", "PYTHONSAFEPATH")
    (in_tmp_path / "told.py").write_text(
        f"import os; print([os.environ.get(n) for n in {names}])", "utf-8"
    )
    done = children.ask_child("told", timeout=60, settings={"CHANGED": "2", "TAKEN": None})
    assert done.stdout.strip() == "['2', None, '1']"


def test_a_child_ends_with_a_parent_that_is_killed(in_tmp_path: Path) -> None:
    (in_tmp_path / "child.py").write_text("import signal; signal.pause()", "utf-8")
    start = "children.start('child', output=sys.stdout.buffer)"
    code = (
        f"import signal, sys; from tfbench.machine import children; print({start}.pid, flush=True);"
        " signal.pause()"
    )
    environment = {**os.environ, "PYTHONPATH": str(in_tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment
    ) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    _, alive = psutil.wait_procs([child], timeout=60)
    assert alive == []


@pytest.fixture
def sleeper() -> "Iterator[subprocess.Popen[bytes]]":
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("grace_seconds", [0.0, 0.2])
def test_a_process_that_is_stopped_is_ended(
    sleeper: "subprocess.Popen[bytes]", grace_seconds: float
) -> None:
    sleeper.send_signal(signal.SIGSTOP)
    assert children.end(sleeper, grace_seconds) == -signal.SIGKILL


def test_a_process_that_ends_by_itself_is_not_killed(
    sleeper: "subprocess.Popen[bytes]",
) -> None:
    sleeper.terminate()
    assert children.end(sleeper, 60.0) == -signal.SIGTERM


def test_a_process_that_the_system_does_not_let_go_is_taken_for_ended(
    sleeper: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "END_SECONDS", 0.1)
    monkeypatch.setattr(sleeper, "kill", lambda: None)
    assert children.end(sleeper) == sleeper.returncode == -signal.SIGKILL
    monkeypatch.undo()
    sleeper.returncode = None  # what the fixture ends


def test_patience_lasts_for_as_long_as_a_process_computes() -> None:
    code = "import sys\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        patience = children.Patience(process.pid, seconds=0.3)
        deadline = time.monotonic() + 1.5
        while time.monotonic() < deadline:
            assert not patience.is_over
            time.sleep(0.1)
        process.send_signal(signal.SIGSTOP)
        while not patience.is_over:
            time.sleep(0.1)
        patience.renew()
        assert not patience.is_over
        process.kill()
