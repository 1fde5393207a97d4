"""MLflow's server, started for a user interface and ended with everything that it started.

As a program, this is MLflow's command line, whose server imports MLflow once: `mlflow server`
starts uvicorn in another process, which imports all of it again. That is half of the time until it
answers.
"""

import contextlib
import errno
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfbench.errors import TrackingError
from tfbench.machine import children
from tfbench.store.store import Store
from tfbench.tracking import database

HOST = "127.0.0.1"
_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - only where somebody asks for it
DEFAULT_PORT = 5000
TRIED_PORTS = 50
START_SECONDS = 300.0  # the first start after an installation reads hundreds of megabytes
STOP_SECONDS = 5.0
POLL_SECONDS = 0.2
LOG_LINES = 8
# Seconds for requests under way, once it is to end: uvicorn would wait for the slowest of them.
_GRACE = "--timeout-graceful-shutdown 3"

_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # It would be eight more processes and 800 MB, for jobs that nobody starts.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}


def choose_port(wanted: int | None, host: str = HOST) -> int:
    """Returns a port to listen on: the one that is wanted, or the first free one from 5000 on.

    Raises:
        TrackingError: The wanted port, or every one that was tried, is in use; or it cannot be
            listened on.
    """
    ports = range(DEFAULT_PORT, DEFAULT_PORT + TRIED_PORTS) if wanted is None else [wanted]
    for port in ports:
        if _is_free(port, host):
            return port
    more = "" if wanted else f", and so is every one up to {ports[-1]}"
    raise TrackingError(f"port {ports[0]} of {host} is in use{more}. Name another one with --port.")


def public_name(host: str) -> str:
    """Returns the name by which another machine finds what listens on an address."""
    return socket.gethostname() if host == _ALL_ADDRESSES else host


@contextlib.contextmanager
def serve(store: Store, port: int, host: str = HOST) -> "Iterator[subprocess.Popen[bytes]]":
    """Runs MLflow's server on a store for as long as the context lasts.

    The server answers when the context begins.

    Args:
        store: Whose database it shows.
        port: To listen on.
        host: Address to listen on. MLflow answers to no names but those of this machine, whatever
            the address: a page of somebody else's that a user has open could ask it otherwise.

    Raises:
        TrackingError: The server did not start; with what it wrote last.
    """
    with contextlib.suppress(sqlite3.Error):  # one that may only be read is shown as it is
        database.relocate(store.database, store.artifacts)
    arguments = [
        "server",
        "--host",
        host,
        "--port",
        str(port),
        "--workers",
        "1",
        "--uvicorn-opts",
        _GRACE,
        "--backend-store-uri",
        store.tracking_uri,
        "--default-artifact-root",
        store.artifacts.absolute().as_uri(),
    ]
    if host != HOST:
        names = []
        for name in _own_names(host):
            names += [f"{name}:{port}", name]  # browsers leave port 80 out
        arguments += ["--allowed-hosts", ",".join(names)]
        arguments += ["--cors-allowed-origins", ",".join(f"http://{name}" for name in names)]
    with tempfile.TemporaryDirectory(prefix="tfbench-") as folder:
        log = Path(folder) / "server.log"
        with log.open("wb") as output:
            # In a folder of its own: MLflow makes files in the current one, and uvicorn imports
            # from it.
            process = children.start(
                __name__, arguments, output=output, folder=folder, settings=_SETTINGS
            )
        try:
            _wait_until_it_answers(process, HOST if host == _ALL_ADDRESSES else host, port, log)
            yield process
        finally:
            _stop(process)


def _own_names(host: str) -> list[str]:
    """Returns the names under which a browser may find what listens on a host's address."""
    import psutil

    names = ["localhost", HOST, host, socket.gethostname(), socket.getfqdn()]
    if host == _ALL_ADDRESSES:
        for addresses in psutil.net_if_addrs().values():
            names += [address.address for address in addresses if address.family == socket.AF_INET]
    return list(dict.fromkeys(name.lower() for name in names))  # as browsers send them


def _is_free(port: int, host: str) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host or "no address", port))  # "" would be all of them
        except (OSError, TypeError, ValueError) as error:  # the latter two of what can be no name
            if getattr(error, "errno", None) == errno.EADDRINUSE:
                return False
            why = getattr(error, "strerror", None) or error
            raise TrackingError(
                f"host {host}, port {port}: cannot listen there: {why}. A host is an IPv4 address"
                " or a name of this machine; 0.0.0.0 means all of them."
            ) from error
        return True


def _wait_until_it_answers(
    process: "subprocess.Popen[bytes]", host: str, port: int, log: Path
) -> None:
    # A user's proxy does not know this machine.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), direct.open(f"http://{host}:{port}/health", timeout=5):
            return
        time.sleep(POLL_SECONDS)
    # It ends with code 0 when the port is in use: somebody took it since it was looked at.
    text = log.read_text(encoding="utf-8", errors="replace").strip()
    tail = "\n".join(text.splitlines()[-LOG_LINES:])
    raise TrackingError(
        f"MLflow's server did not start on port {port} of {host}. It wrote last:\n{tail}"
    )


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Ends the server, which is one process: see `_serve_here`."""
    process.terminate()
    children.end(process, STOP_SECONDS)


def _serve_here(command: list[str], *, extra_env: Mapping[str, str], **_: object) -> object:
    """Becomes what MLflow would start in a process of its own: `python -m uvicorn ...`."""
    os.environ.update(extra_env)
    for name in list(sys.modules):
        if name.startswith("mlflow.server"):
            del sys.modules[name]  # it looks at these variables while it is imported
    import uvicorn

    return uvicorn.main(command[command.index("uvicorn") + 1 :])


if __name__ == "__main__":
    import mlflow.server
    from mlflow.cli import cli

    mlflow.server._exec_cmd = _serve_here
    cli.main(prog_name="mlflow")
