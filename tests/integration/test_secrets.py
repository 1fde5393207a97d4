"""Passwords and tokens of a tracking server: used, and found nowhere afterwards, byte for byte."""

import base64
import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from runs import NO_CHECKS, Command, Finished
from servers import LossyProxy, MlflowServer, serving

pytestmark = pytest.mark.slow

SECRET, TOKEN = "pass/w0rd-planted", "t0ken-planted"  # the first as its address has it, and as it is
QUOTED = quote(SECRET, safe="")
PLANTED = [SECRET, QUOTED, TOKEN, base64.b64encode(f"me:{SECRET}".encode()).decode()]
RUN = ("run", "sine_lstm", "--epochs", "1", *NO_CHECKS)
SWEEP = ("sweep", "sine_lstm", "--vary", "training.global_batch_size=16", "--setup", "default cpu:0", "--repeats", "1")


class Watched:
    """Runs commands, and keeps all that can be seen of them: what they print, and how their children are called.

    Args:
        cwd: In which they run.
        settings: Environment variables.
    """

    def __init__(self, cwd: Path, **settings: str) -> None:
        self._cwd, self._settings = cwd, settings
        self.printed: list[str] = []
        self.called: set[str] = set()

    def __call__(self, *arguments: str, exit_code: int = 0, **settings: str) -> Finished:
        command = Command(*arguments, cwd=self._cwd, **self._settings | settings)
        is_over = threading.Event()
        watch = threading.Thread(target=self._watch, args=[command.process.pid, is_over])
        watch.start()
        try:
            done = command.wait()
        finally:
            is_over.set()
            watch.join()
        self.printed += [done.stdout, done.stderr]
        assert done.exit_code == exit_code, (arguments, done.stdout, done.stderr)
        return done

    def _watch(self, pid: int, is_over: threading.Event) -> None:
        while not is_over.is_set():
            with contextlib.suppress(psutil.Error):
                command = psutil.Process(pid)
                for child in command.children(recursive=True):
                    with contextlib.suppress(psutil.Error):
                        if (called := child.cmdline()) != command.cmdline():  # as before it is another program
                            self.called.add(" ".join(called))
            time.sleep(0.02)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield server


@contextlib.contextmanager
def guarded(server: MlflowServer) -> Iterator[LossyProxy]:
    """Lets nobody through to a server who does not know the password."""
    with contextlib.closing(LossyProxy(server, f"Basic {PLANTED[-1]}")) as proxy:
        yield proxy


def require_nowhere(*folders: Path) -> None:
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        for secret in PLANTED:
            assert secret.encode() not in data, path


def require_unseen(seen: Watched) -> None:
    assert any("tfbench.worker" in line for line in seen.called)  # it was looked in time
    for text in (*seen.printed, *seen.called):
        for secret in PLANTED:
            assert secret not in text, text


def test_what_lets_a_user_in_is_used_and_kept_nowhere(server: MlflowServer, tmp_path: Path) -> None:
    with guarded(server) as proxy:
        uri = f"http://me:{QUOTED}@127.0.0.1:{proxy.port}"
        seen = Watched(tmp_path, MLFLOW_TRACKING_URI=uri, MLFLOW_TRACKING_TOKEN=TOKEN)
        seen(*SWEEP, "--set", "measurement.steps=5", *NO_CHECKS)
        assert "is tracked at" in seen("ui", "--sweep", "@last").stderr
        seen("report", "--sweep", "@last", "-o", "report.html")
        seen("compare", "--sweep", "@last", "--format", "markdown")
        for command in ("runs", "recover"):
            seen(command, "--format", "json")
        run = seen("runs", "@last", "--format", "json").document
        assert run["mlflow"]["tracking_uri"] == uri.replace(QUOTED, "***")
        seen("runs", "@last")
        seen("export", "@last", "-o", "run.jsonl")
        seen("import", "run.jsonl", "--store", "other", "--tracking-uri", uri)
    with contextlib.closing(LossyProxy(server, "nobody")) as proxy:  # which rejects all
        seen(*RUN, "--format", "json", MLFLOW_TRACKING_URI=f"http://me:{QUOTED}@127.0.0.1:{proxy.port}")
    require_nowhere(tmp_path, server.files.parent)
    require_unseen(seen)
