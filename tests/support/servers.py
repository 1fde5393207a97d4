"""Servers as somebody else would run them: MLflow's, killed and started again.

And one that loses answers.
"""

import contextlib
import http.client
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from browser import answers, free_port
from contract import wait_until
from journals import make_database
from runs import end_family
from tfbench.runs.record import RunResult
from tfbench.runs.summary import summarize_run
from tfbench.store.store import Store
from tfbench.tracking import fields

if TYPE_CHECKING:
    from mlflow.entities import Run


class MlflowServer:
    """An MLflow server that takes artifacts, too; it runs from `start` to `close`.

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
        self._command = [sys.executable, "-m", "mlflow", "server", "--port", str(self.port)]
        self._command += ["--workers", str(workers), "--artifacts-destination", str(self.files)]
        self._settings = {
            # It has a password in it, and is no argument therefore.
            "MLFLOW_BACKEND_STORE_URI": database,
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        with (self._folder / "mlflow.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=os.environ | self._settings,
            )
        process = self._process
        wait_until(
            lambda: answers(f"{self.uri}/health") or process.poll() is not None, "the MLflow server"
        )
        assert process.poll() is None, (self._folder / "mlflow.log").read_text()[-2000:]

    def close(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ends it, if it runs; by SIGKILL with all its processes at once."""
        if self._process:
            end_family(self._process, number)


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[MlflowServer]:
    """Yields a running MLflow server, with its own database and files in a folder.

    It stands for one that somebody else runs.
    """
    served = Store(folder / "server")
    make_database(served)
    with contextlib.closing(MlflowServer(folder, served.tracking_uri)) as server:
        server.start()
        yield server


def search_runs(server: MlflowServer, experiment: str) -> "list[Run]":
    """Returns all runs of an experiment."""
    from mlflow import MlflowClient

    client = MlflowClient(server.uri)
    found = client.get_experiment_by_name(experiment)
    assert found
    runs = list[Any]()
    token = None
    while token != "":
        page = client.search_runs([found.experiment_id], page_token=token)
        runs += page
        token = page.token or ""
    return runs


def require_tracked(server: MlflowServer, run: "Run", result: RunResult, store: Store) -> None:
    """Holds a run that a server has against what was measured."""
    from mlflow import MlflowClient

    client = MlflowClient(server.uri)
    summary = summarize_run(result)
    for name in fields.epoch_metrics(result.epochs[0]):
        history = client.get_metric_history(run.info.run_id, name)
        expected = [(one.epoch, fields.epoch_metrics(one)[name]) for one in result.epochs]
        assert [(point.step, point.value) for point in history] == expected, name
    whole = fields.summary_metrics(summary)
    assert run.data.metrics.items() >= whole.items()
    for name in whole:
        assert len(client.get_metric_history(run.info.run_id, name)) == 1, name
    assert run.data.params == fields.params(result)
    assert run.data.tags.items() >= fields.tags(result, summary).items()
    ended_at = round(1000 * (result.ended_at or 0))
    assert (run.info.status, run.info.end_time) == (result.status, ended_at)
    files = server.files / run.info.experiment_id / run.info.run_id / "artifacts"
    journal = store.journal_path(result.request.run_id)
    assert (files / "journal.jsonl").read_bytes() == journal.read_bytes()
    assert json.loads((files / "result.json").read_text())["mlflow"]["run_id"] == run.info.run_id


class LossyProxy:
    """Stands before an MLflow server and loses answers.

    The server does what it is asked, and nobody hears of it.

    Args:
        server: That answers.
        authorization: The header without which nobody is let in; None: all are.
    """

    def __init__(self, server: MlflowServer, authorization: str | None = None) -> None:
        self.lost: dict[str, int] = {}  # by the end of a path: answers that are still to be lost
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                path = self.path.partition("?")[0]
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name: value for name, value in self.headers.items() if name != "Host"}
                if authorization is not None and self.headers.get("Authorization") != authorization:
                    self.reply(401, b"You are not authenticated.")
                    return
                status, answer = self.forward(body, headers)
                end = next(
                    (end for end, number in proxy.lost.items() if number and path.endswith(end)),
                    None,
                )
                if end:
                    proxy.lost[end] -= 1
                    self.close_connection = True
                    return
                self.reply(status, answer)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

            def forward(self, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
                with contextlib.closing(
                    http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
                ) as connection:
                    connection.request(self.command, self.path, body, headers)
                    response = connection.getresponse()
                    return response.status, response.read()

            def reply(self, status: int, answer: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

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
