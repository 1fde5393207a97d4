"""Servers as somebody else would run them: MLflow's, killed and started again; and one that loses answers."""

import contextlib
import http.client
import http.server
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil

from browser import free_port, wait_for
from journals import make_database
from tfbench.store.store import Store

STOP_SECONDS = 20.0


class MlflowServer:
    """An MLflow server that takes artifacts, too; it runs from `start` to `kill` or `close`.

    Args:
        folder: Of its files and of what it writes.
        database: Address of what it keeps runs in.
        workers: Processes that answer.
    """

    def __init__(self, folder: Path, database: str, *, workers: int = 1) -> None:
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self.files = folder / "served"
        self._folder = folder
        self._command = [sys.executable, "-m", "mlflow", "server", "--port", str(self.port), "--workers", str(workers)]
        self._command += ["--artifacts-destination", str(self.files)]
        self._settings = {
            "MLFLOW_BACKEND_STORE_URI": database,  # which has a password in it, and is no argument therefore
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        with (self._folder / "mlflow.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, cwd=self._folder, env=os.environ | self._settings
            )
        process = self._process
        wait_for(lambda: self._answers() or process.poll() is not None, "the MLflow server")
        assert process.poll() is None, (self._folder / "mlflow.log").read_text()[-2000:]

    def kill(self) -> None:
        """Kills it with all its processes at once."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """Ends it, if it runs."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        end_family(self._process, number)
        self._process = None

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.uri}/health", timeout=5):
            return True
        return False


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[MlflowServer]:
    """Yields a server that runs, with a database and files of its own in a folder, as somebody else would run it."""
    served = Store(folder / "server")
    make_database(served)
    with contextlib.closing(MlflowServer(folder, served.tracking_uri)) as server:
        server.start()
        yield server


class LossyProxy:
    """Stands before an MLflow server and loses answers: the server does what it is asked, and nobody hears of it.

    Args:
        server: That answers.
        authorization: The header without which nobody is let in; None: all are.
    """

    def __init__(self, server: MlflowServer, authorization: str | None = None) -> None:
        self.lost: dict[str, int] = {}  # by the end of a path: answers that are still to be lost
        self.late: list[str] = []  # ends of paths whose next call gets no answer, and arrives after the one after it
        self.asked: list[str] = []
        proxy, held = self, dict[str, tuple[bytes, dict[str, str]]]()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                path = self.path.partition("?")[0]
                proxy.asked.append(path)
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name: value for name, value in self.headers.items() if name != "Host"}
                if authorization is not None and self.headers.get("Authorization") != authorization:
                    self.reply(401, b"You are not authenticated.")
                    return
                end = next((end for end in proxy.late if path.endswith(end)), None)
                if end:
                    proxy.late.remove(end)
                    held[path] = body, headers
                    self.hang_up()
                    return
                status, answer = self.forward(body, headers)
                if path in held:
                    self.forward(*held.pop(path))
                end = next((end for end, number in proxy.lost.items() if number and path.endswith(end)), None)
                if end:
                    proxy.lost[end] -= 1
                    self.hang_up()
                    return
                self.reply(status, answer)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

            def forward(self, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
                with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
                    connection.request(self.command, self.path, body, headers)
                    response = connection.getresponse()
                    return response.status, response.read()

            def reply(self, status: int, answer: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def hang_up(self) -> None:
                self.close_connection = True

            def log_message(self, *arguments: object) -> None:
                pass

        self._listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._listening.server_port
        self.uri = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._listening.serve_forever)
        self._thread.start()

    def close(self) -> None:
        """Ends it; whoever asks then is rejected."""
        self._listening.shutdown()
        self._listening.server_close()
        self._thread.join()


def end_family(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    """Sends a signal to a process, and to what it started if that is to kill; kills what does not end."""
    with contextlib.suppress(psutil.NoSuchProcess):
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for relative in family if number == signal.SIGKILL else family[:1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                relative.send_signal(number)
        for alive in psutil.wait_procs(family, timeout=STOP_SECONDS)[1]:
            alive.kill()
    process.wait()
