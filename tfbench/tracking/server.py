"""MLflow's server, started for a user interface and ended with everything that it started."""

import contextlib
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tfbench.errors import TrackingError
from tfbench.machine import children
from tfbench.store.store import Store

HOST = "127.0.0.1"
DEFAULT_PORT = 5000
TRIED_PORTS = 50
START_SECONDS = 120.0  # the first start after an installation reads hundreds of megabytes
STOP_SECONDS = 5.0
POLL_SECONDS = 0.2
LOG_LINES = 8

_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # eight more processes and 800 MB, for jobs that nobody starts
}


def choose_port(wanted: int | None) -> int:
    """Returns a port to listen on: the one that is wanted, or the first free one from 5000 on.

    Raises:
        TrackingError: The wanted port, or every one that was tried, is in use.
    """
    if wanted is not None:
        if not _is_free(wanted):
            raise TrackingError(
                f"port {wanted} of {HOST} is in use. Name another one with --port, or none to let tfbench choose."
            )
        return wanted
    for port in range(DEFAULT_PORT, DEFAULT_PORT + TRIED_PORTS):
        if _is_free(port):
            return port
    raise TrackingError(
        f"ports {DEFAULT_PORT} to {DEFAULT_PORT + TRIED_PORTS - 1} of {HOST} are all in use. Use --port."
    )


@contextlib.contextmanager
def serve(store: Store, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Runs MLflow's server on a store for as long as the context lasts; it answers when the context begins.

    Raises:
        TrackingError: The server did not start; with what it wrote last. Or the store holds links.
    """
    store.require_plain_database()
    arguments = ["server", "--host", HOST, "--port", str(port), "--workers", "1"]
    arguments += ["--backend-store-uri", store.tracking_uri]
    arguments += ["--default-artifact-root", store.artifacts.absolute().as_uri()]
    with tempfile.TemporaryDirectory(prefix="tfbench-") as folder:
        log = Path(folder) / "server.log"
        with log.open("wb") as output:
            # In a folder of its own: MLflow makes files in the current one, and uvicorn imports from it.
            process = children.start("mlflow", arguments, output=output, folder=folder, settings=_SETTINGS)
        try:
            _wait_until_it_answers(process, port, log)
            yield process
        finally:
            _stop(process)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _wait_until_it_answers(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a user's proxy does not know this machine
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), direct.open(f"http://{HOST}:{port}/health", timeout=5):
            return
        time.sleep(POLL_SECONDS)
    # It ends with code 0 when the port is in use: somebody took it since it was looked at.
    tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-LOG_LINES:])
    raise TrackingError(f"MLflow's server did not start on port {port} of {HOST}. It wrote last:\n{tail}")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Ends the server and its descendants, whom a killed server would leave behind."""
    import psutil

    try:
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        family = []
    process.terminate()
    _, alive = psutil.wait_procs(family, timeout=STOP_SECONDS)
    for relative in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            relative.kill()
    process.wait()
