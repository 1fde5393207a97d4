"""The prepared process: imports Keras and a backend once, and forks for each request.

`python -m tfbench.measure.forks LINK BACKEND IS_USERS`. LINK is the number of a socket from which
requests come, each a message with three files: a socket that receives reports of the measuring
process and its end, and the standard input and output of that process. The prepared process ends
with the last holder of the socket's other end. No device is touched before a fork.
"""

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

from tfbench import backends
from tfbench.machine.children import die_with_parent
from tfbench.measure.process_settings import hidden, import_keras, list_unneeded
from tfbench.recipe.backend_support import BackendName
from tfbench.recipe.registry import is_code

_MESSAGE_BYTES = 2**18  # of a request, which holds an environment: as much as a socket takes
_GRACE_SECONDS = 5.0  # from SIGTERM to SIGKILL, once nobody waits for a measuring process any more
# They start threads of OpenBLAS and jemalloc, which handle a fork themselves.
_WITH_THREADS = ("numpy", "scipy.linalg", "pandas", "cv2")


def main() -> None:
    """Imports what is asked for, and forks until the link is closed."""
    link = socket.socket(fileno=int(sys.argv[1]))
    backend = cast(BackendName, sys.argv[2])
    unneeded = list_unneeded(backend, is_users=bool(int(sys.argv[3])))
    for name in _WITH_THREADS:
        with hidden(unneeded), contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    num_threads = _count_threads()
    import_keras(backend, unneeded)
    backends.current()
    for name in ("benchmark", "step_timing"):
        importlib.import_module(f"tfbench.measure.{name}")
    link.send(b"ready")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who watch
    while True:
        message, files, _, _ = socket.recv_fds(link, _MESSAGE_BYTES, 3)
        if not message:
            return
        report_file, *streams = files
        report = socket.socket(fileno=report_file)
        if _count_threads() > num_threads:
            answer = {"problem": "what it imported has threads, which a fork would lose"}
            report.send(json.dumps(answer).encode())
        else:
            request = json.loads(message)
            _make_data_ahead(Path(request["path"]))
            if not os.fork():
                link.close()
                _watch(report, request, streams)
        report.close()
        for stream in streams:
            os.close(stream)


def _make_data_ahead(path: Path) -> None:
    """Makes synthetic samples before the fork, so that all runs of a round share them."""
    from tfbench.measure import data
    from tfbench.store.journal import read_request

    with contextlib.suppress(Exception):  # the measuring process meets it again, and says so
        recipe = read_request(json.loads(path.read_text(encoding="utf-8"))).recipe
        if recipe.dataset.data == "synthetic" and not is_code(recipe.dataset.name):
            data.load_data(recipe.dataset, None, seed=recipe.training.seed)


def _watch(report: socket.socket, request: dict[str, Any], streams: list[int]) -> None:
    """Forks the measuring process, reports which it is and how it ended, and ends.

    It ends the measuring process once nobody listens.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if not pid:
        report.close()
        _become_worker(request, streams)
    for stream in streams:
        os.close(stream)
    pidfd = os.pidfd_open(pid)
    own_pidfd = os.pidfd_open(os.getpid())
    socket.send_fds(report, [json.dumps({"pid": pid}).encode()], [pidfd, own_pidfd])
    os.close(own_pidfd)
    poll = select.poll()
    for file in (pidfd, report.fileno()):
        poll.register(file, select.POLLIN)
    if pidfd not in dict(poll.poll()):
        poll.unregister(report)
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(pidfd, number)
            if poll.poll(_GRACE_SECONDS * 1000):
                break
    with contextlib.suppress(OSError):
        _, status = os.waitpid(pid, 0)
        answer = {"returncode": os.waitstatus_to_exitcode(status)}
        report.send(json.dumps(answer).encode())
    os._exit(0)


def _become_worker(request: dict[str, Any], streams: list[int]) -> None:
    """Makes this process a measuring process, as if it had been started, and measures.

    Never returns.
    """
    os.setsid()
    die_with_parent()
    stdin, output = streams
    for source, target in ((stdin, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    for stream in streams:
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # of the environment before
    time.tzset()
    sys.argv[1:] = [request["path"]]
    from tfbench.measure.__main__ import main as measure

    measure()


def _count_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


if __name__ == "__main__":
    main()
