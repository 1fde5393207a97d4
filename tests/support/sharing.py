"""Processes that are forked, once for all tests, from one in which everything is imported.

A command that starts cold imports tfbench, and MLflow or a framework in processes of their own: seconds of processor
time. A forked one has them from the start. All workers of a test session share the server that forks.

    sharing.py serve PATH           is the server
    sharing.py run PATH ARGUMENTS   is `tfbench` in a shell: a forked command
"""

import array
import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import importlib.util
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

COMMAND_LINE = "tfbench.__main__"
MLFLOW_PROCESS = "tfbench.tracking.mlflow_tracker"
_ROOM = 2**20  # bytes of a message
_START_SECONDS = 100.0


class Forked:
    """A process that the server forked, used like one of `subprocess.Popen`."""

    def __init__(
        self,
        server: str,
        module: str,
        arguments: Sequence[str],
        *,
        cwd: str,
        environment: Mapping[str, str],
        output: tuple[int, int],
        pass_fds: Sequence[int] = (),
    ) -> None:
        """Has it forked.

        Args:
            server: Path of the server's socket.
            module: Whose `main` is called.
            arguments: Of its command line.
            cwd: Its folder.
            environment: All of its variables.
            output: Files that receive what it prints, and what it complains of.
            pass_fds: Open files that it has, too, under the same numbers.
        """
        request = {
            "module": module,
            "arguments": [*arguments],
            "cwd": cwd,
            "environment": dict(environment),
            "numbers": [1, 2, *pass_fds],
        }
        self._answers = connect(server)
        ask(self._answers, request, [*output, *pass_fds])
        self.pid = int(self._answers.recv(_ROOM))
        self.args = [module, *arguments]
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Returns the exit code; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end, and returns the exit code."""
        if self.returncode is None:
            self._answers.settimeout(None if timeout is None else max(timeout, 1e-3))
            try:
                answer = self._answers.recv(_ROOM)
            except (TimeoutError, BlockingIOError) as error:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0) from error
            assert answer, "the server has ended"
            self.returncode = int(answer)
            self._answers.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends it a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Ends it at once."""
        self.send_signal(signal.SIGKILL)


def connect(server: str) -> socket.socket:
    """Returns a connection to the server."""
    with contextlib.ExitStack() as undone:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        undone.callback(connection.close)
        connection.connect(server)
        undone.pop_all()
    return connection


def ask(connection: socket.socket, request: Any, files: Sequence[int] = ()) -> None:
    """Sends the server a request, with open files."""
    message = json.dumps(request).encode()
    rights = array.array("i", files)
    connection.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def serve(path: str) -> None:
    """Forks what it is asked for, until every test process that took a lease has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path.append(str(Path(__file__).parent))
    import_all()
    gc.freeze()  # no collection touches, and so copies, what is shared
    server = _Server(path)
    os.write(1, b"ready\n")
    while server.is_wanted:
        if request := server.next_request():
            end_after(become, request)
    shutil.rmtree(Path(path).parent, ignore_errors=True)


def end_after(run: Callable[[dict[str, Any]], None], request: dict[str, Any]) -> NoReturn:
    """Runs a forked process to its end, without taking thousands of modules apart."""
    exit_code = 1
    try:
        run(request)
        exit_code = 0
    except SystemExit as end:
        exit_code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()
        os._exit(exit_code)


class _Server:
    """Listens for requests, and tells who asked how a forked process ended."""

    def __init__(self, path: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(path)
        self._listener.listen(64)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._leases = set[socket.socket]()
        self._forked = dict[int, tuple[int, socket.socket]]()  # by the file of its end
        self.is_wanted = True

    def next_request(self) -> dict[str, Any] | None:
        """Waits for something to happen; returns a request in the process that was forked for it."""
        for key, _ in self._selector.select():
            if request := key.data(key.fileobj):
                return dict(request)
        return None

    @functools.cached_property
    def _link(self) -> socket.socket:
        """To tfbench's own prepared process, which has the framework imported."""
        link = start_framework()
        assert link.recv(100) == b"ready"
        return link

    def _accept(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        self._selector.register(connection, selectors.EVENT_READ, self._answer)

    def _answer(self, connection: socket.socket) -> dict[str, Any] | None:
        try:
            message, files, _, _ = socket.recv_fds(connection, _ROOM, 16)
        except ConnectionError:
            message = b""
        if not message:
            self._forget(connection)
            return None
        request = json.loads(message)
        if request == "lease":
            self._leases.add(connection)
            connection.send(b"leased")
            return None
        link = self._link if request["module"] == COMMAND_LINE else None
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the child hears it
        if pid := os.fork():
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            for number in files:
                os.close(number)
            connection.send(str(pid).encode())
            end = os.pidfd_open(pid)
            self._forked[end] = (pid, connection)
            self._selector.register(end, selectors.EVENT_READ, self._reap)
            return None
        return request | {"files": files, "link": link}

    def _reap(self, end: int) -> None:
        pid, connection = self._forked.pop(end)
        self._selector.unregister(end)
        os.close(end)
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(OSError):  # nobody waits for it
            connection.send(str(os.waitstatus_to_exitcode(status)).encode())

    def _forget(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        connection.close()
        if connection in self._leases:
            self._leases.remove(connection)
            self.is_wanted = bool(self._leases)


def backend_here() -> str:
    """Returns the first backend whose framework is installed."""
    for name in ("tensorflow", "jax", "torch"):
        if importlib.util.find_spec(name):
            return name
    raise ModuleNotFoundError("no framework")


def start_framework() -> socket.socket:
    """Starts the process that measured runs are forked from; its link says when it is ready."""
    from tfbench.runs import forked
    from tfbench.runs.process import worker_variables

    backend = backend_here()
    variables = worker_variables(backend)
    _, link = forked.start_prepared((backend, True), variables)
    return link


def import_all() -> None:
    """Imports what commands and MLflow's process need, so that forked ones have it; no framework."""
    import pkgutil

    for room in ("cli", "comparisons", "profiles", "runs", "show", "store", "sweeps", "tracking"):
        package = importlib.import_module(f"tfbench.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"tfbench.{room}."):
            if module.name != "tfbench.sweeps.ray_engine":
                importlib.import_module(module.name)
    from tfbench.tracking.mlflow_calls import set_up_mlflow

    before = dict(os.environ)
    set_up_mlflow()
    os.environ.clear()
    os.environ.update(before)
    for name in (
        "matplotlib.backends.backend_agg",
        "matplotlib.figure",
        "mlflow.artifacts",
        "mlflow.store.artifact.local_artifact_repo",
        "mlflow.store.tracking.sqlalchemy_store",
        "mlflow.tracking",
        "scipy.special",
    ):
        importlib.import_module(name)
    imported = {"tensorflow", "jax", "torch", "keras"} & set(sys.modules)
    assert not imported, imported


def become(request: dict[str, Any]) -> None:
    """Makes a forked process what was asked for: its files, folder, variables, command line and module."""
    from tfbench.machine import children

    link: socket.socket | None = request["link"]
    _place_files(request["numbers"], request["files"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if link:
        share(link)
        children.start = fork_mlflow(children.start, sys.argv[2])
    sys.argv = [request["module"], *request["arguments"]]
    importlib.import_module(request["module"]).main()


def _place_files(numbers: Sequence[int], files: Sequence[int]) -> None:
    """Gives open files the numbers that are wanted.

    Whatever had one of these numbers before, as a socket of the server's, is closed.
    """
    taken = {*numbers, *files}
    free = max(taken) + 1
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD, free) for file in files]
    for file, number in zip(moved, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)
    for file in set(files) - set(numbers):
        os.close(file)


def share(link: socket.socket) -> None:
    """Has all runs of this process forked from the prepared process of the tests, wherever they can be."""
    from tfbench.runs import forked

    backend = backend_here()

    def prepare(forker: Any, request: Any, *_: object) -> socket.socket | None:
        recipe = request.recipe
        has_own = forker._start == "own" or recipe.distribution.strategy == "multi_worker"
        return None if has_own or recipe.training.backend != backend else link

    assert callable(forked.Forker.prepare)  # by this name, or nothing is shared
    forked.Forker.prepare = prepare


def fork_mlflow(start: Any, server: str = "") -> Any:
    """Returns what starts processes as `children.start` does, but has MLflow's forked.

    By the server of the session, unless one is named. A forked one does not end with the process
    that asked for it, but once nobody holds its connection.
    """

    def start_or_fork(module: str, arguments: Sequence[str] = (), **options: Any) -> Any:
        if module != MLFLOW_PROCESS:
            return start(module, arguments, **options)
        return Forked(
            server or server_of_session(),
            module,
            arguments,
            cwd=str(Path.cwd()),
            environment=os.environ,
            output=(options["output"], options["output"]),
            pass_fds=options["pass_fds"],
        )

    return start_or_fork


_LEASES = list[socket.socket]()  # of this process, until it ends


def server_of_session() -> str:
    """Returns the path of the server that all workers of this test session share; the first one starts it."""
    import tempfile

    session = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"{os.getpid()}"
    folder = Path(tempfile.gettempdir()) / f"tfbench-tests-{os.getuid()}-{session[:12]}"
    path = folder / "server"
    if not _LEASES:
        folder.mkdir(mode=0o700, exist_ok=True)
        with locked(folder / "lock"):
            if not _take_lease(path):
                path.unlink(missing_ok=True)
                _start_server(path)
                assert _take_lease(path)
    return str(path)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps the other workers of the session away."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def call(module: str, *arguments: str) -> int:
    """Runs the `main` of a module to its end, in a forked process, and returns the exit code."""
    process = Forked(
        server_of_session(),
        module,
        arguments,
        cwd=str(Path.cwd()),
        environment=os.environ,
        output=(2, 2),
    )
    return process.wait(_START_SECONDS)


def _take_lease(path: Path) -> bool:
    try:
        connection = connect(str(path))
        ask(connection, "lease")
        is_leased = connection.recv(_ROOM) == b"leased"
    except OSError:
        return False
    if is_leased:
        _LEASES.append(connection)
        atexit.register(connection.close)  # which Python would warn of
    return is_leased


def _start_server(path: Path) -> None:
    from contract import clean_environment

    readable, writable = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, "serve", str(path)],
        stdin=subprocess.DEVNULL,
        stdout=writable,
        env=clean_environment(),
        start_new_session=True,
    )
    os.close(writable)
    assert os.read(readable, 100) == b"ready\n"
    os.close(readable)
    process.returncode = 0  # it ends by itself, after the tests


def main() -> int:
    """Is the server, or a command."""
    mode, server, *arguments = sys.argv[1:]
    if mode == "serve":
        serve(server)
        return 0
    command = Forked(
        server,
        COMMAND_LINE,
        arguments,
        cwd=str(Path.cwd()),
        environment=os.environ,
        output=(1, 2),
    )
    return command.wait()


if __name__ == "__main__":
    sys.exit(main())
