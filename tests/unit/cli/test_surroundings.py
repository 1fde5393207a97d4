"""A command ends in one line on unusable surroundings or a request to stop."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kinds import Cli
from tfbench.recipe import files

pytestmark = pytest.mark.usefixtures("in_tmp_path")


def python(
    code: str, *arguments: str | bytes, **options: Any
) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, check=False, **options
    )


START = "from tfbench.__main__ import main\nmain()"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_every_request_to_stop_ends_a_command_alike(
    tfbench: Cli, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    # Not ignored, whoever started the tests.
    before = {kind: signal.signal(kind, signal.SIG_DFL) for kind in (signal.SIGTERM, signal.SIGHUP)}
    monkeypatch.setattr(files, "list_recipes", lambda: os.kill(os.getpid(), number))
    try:
        done = tfbench("list")
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
    assert (done.exit_code, done.stdout, done.stderr.strip()) == (130, "", "Interrupted.")


def test_a_command_that_is_interrupted_ends_although_a_thread_of_it_waits() -> None:
    waiting = """
import sys, threading
from tfbench import cli
def interrupt(**options):
    threading.Thread(target=sys.stdin.buffer.read, daemon=True).start()
    raise KeyboardInterrupt
cli.cli.main = interrupt
"""
    with subprocess.Popen(
        [sys.executable, "-c", waiting + START], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as command:
        assert (command.stderr.read(), command.wait()) == (b"Interrupted.\n", 130)


@pytest.mark.parametrize(
    "moment", ['name == "tfbench.errors"', 'name not in ("tfbench", "tfbench.__main__")']
)
def test_an_interruption_while_the_command_line_is_imported_is_no_traceback(moment: str) -> None:
    interrupted = f"""
import sys
class Finder:
    def find_spec(self, name, *rest):
        if {moment}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
"""
    done = python(interrupted + START)
    assert (done.returncode, done.stderr) == (130, b"")


def test_a_recovery_that_is_stopped_says_how_to_go_on(
    tfbench: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tfbench.store.recover.recover", stop)
    done = tfbench("recover", "--tracking-uri", "http://u:p@h")
    assert (done.exit_code, done.stdout) == (130, "")
    assert (
        "`tfbench recover --tracking-uri 'http://u:***@h'` goes on where it was stopped."
        in done.stderr
    )


def test_an_argument_that_is_no_text_is_rejected() -> None:
    done = python(START, "show", b"caf\xe9.toml")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"Error: 'caf\\udce9.toml': must be UTF-8 text.\n"


def test_a_current_folder_that_is_gone_is_rejected(
    tfbench: Cli, in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = in_tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert tfbench("list").stderr.startswith(
        "Error: the current folder cannot be used: No such file or directory."
    )


@pytest.mark.parametrize("home", ["me", "/nonexistent", None])
def test_a_home_that_is_none_stops_no_command_and_is_not_made(
    tfbench: Cli, in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    monkeypatch.setattr(
        "pwd.getpwuid", lambda uid: {}[uid]
    )  # as of a user whom the system does not know
    for name in ("XDG_CONFIG_HOME", "TFBENCH_CACHE_DIR", "HOME"):
        monkeypatch.delenv(name)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    assert (
        "no runs to compare" in tfbench("compare", "--all").stderr
    )  # by prices that may be below it
    assert list(in_tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("NoSuchOption", "list --no-such-option --format json"),
        ("UnknownNameError", "runs no_such_run --format json"),
        ("RecipeError", "show mnist_mlp --set training.epochs=0 --format json"),
    ],
)
def test_an_error_is_the_one_document_where_one_was_asked_for(
    tfbench: Cli, kind: str, line: str
) -> None:
    done = tfbench(*line.split())
    assert done.exit_code == 2
    document = done.document
    assert document.keys() == {"error"} and document["error"].keys() == {"type", "message"}
    assert document["error"]["type"] == kind
    assert document["error"]["message"].split()[0] in done.stderr


def test_an_error_is_no_second_document(tfbench: Cli) -> None:
    done = tfbench("validate", "mnist_mlp", "no_such_recipe", "--format", "json")
    assert done.exit_code == 2
    assert [one["ok"] for one in done.document["recipes"]] == [True, False]
