"""Measuring processes forked from one that has imported the framework, which takes seconds."""

import contextlib
import itertools
import json
import os
import select
import signal
import socket
import subprocess
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, NamedTuple

from tfbench.errors import MeasurementError, RecipeError
from tfbench.machine import children
from tfbench.machine.children import ANSWER_SECONDS, Patience
from tfbench.machine.gpus import read_gpus
from tfbench.runs.record import RunRequest
from tfbench.sweeps.plan import round_of
from tfbench.tags import TRIAL_TAG

START_VARIABLE = "TFBENCH_START"
_STARTS = ("own", "prepared")  # "own": every run is a process of its own, as a single run is
_WAIT_SECONDS = 0.1  # between looks at whether anyone still waits
_ANSWER_BYTES = 2**12
_FORK_SECONDS = 30.0  # for a fork, before which synthetic samples may be made
_MOST_AT_ONCE = 4  # prepared processes: one of TensorFlow holds 200 MB, before it makes samples


_Imported = tuple[str, bool]  # the backend, and whether all that users' networks may need


class _Prepared(NamedTuple):
    """A prepared process."""

    pid: int
    link: socket.socket
    end: Callable[[], object]  # ends it; what it has forked goes on


class Forker:
    """Prepared processes from which the runs of a round are forked.

    There is one per backend and, for users' networks, one that imports everything.

    What a process decides at its start (where memory lies, the seed of hashes) is the same for all
    setups of a round, and differs between rounds. The processes of several rounds are started at
    once, one per core, since an import keeps only one core busy. They wait without computing.

    Raises:
        RecipeError: TFBENCH_START is neither "own" nor "prepared".
    """

    def __init__(self) -> None:
        self._start = os.environ.get(START_VARIABLE) or "prepared"
        if self._start not in _STARTS:
            raise RecipeError(
                f"{START_VARIABLE}: must be one of {', '.join(_STARTS)}. Received: '{self._start}'."
            )
        self.shown_reasons: set[str] = set()  # why runs are not forked
        self._turn: object = None
        self._used: dict[_Imported, _Prepared | None] = {}  # in this round; None: there is none
        self._spare: dict[_Imported, list[_Prepared]] = {}  # for the rounds to come

    def prepare(
        self, request: RunRequest, settings: Mapping[str, str | None], is_over: Callable[[], object]
    ) -> socket.socket | None:
        """Returns the link to a process that is ready to fork what measures a request.

        Args:
            request: The run.
            settings: Variables of its process.
            is_over: Whether nobody waits for the run any more.

        Returns:
            None: the run is to be a process of its own, or several.

        Raises:
            MeasurementError: It cannot be forked, as others of its kind are.
        """
        recipe = request.recipe
        turn = round_of(request.tags) or TRIAL_TAG in request.tags
        if not turn:
            self.close()
        elif turn != self._turn:
            self._end_round()
        self._turn = turn
        if not turn or self._start == "own" or recipe.distribution.strategy == "multi_worker":
            return None
        backend = recipe.training.backend
        if backend == "torch" and read_gpus():
            raise MeasurementError(
                "PyTorch looks for GPUs when Keras imports it, and cannot use one after a fork"
            )
        imported = (backend, recipe.is_users)
        prepared = self._used.get(imported)
        if prepared and is_readable(prepared.link):  # nothing but its end comes from it
            prepared.end()
            del self._used[imported]
        if imported not in self._used:
            self._used[imported] = None  # also where the next one hangs
            self._used[imported] = self._take_spare(imported, settings, is_over)
        prepared = self._used[imported]
        return prepared.link if prepared else None

    def close(self) -> None:
        """Ends the prepared processes; what they have forked goes on."""
        self._end_round()
        for prepared in itertools.chain(*self._spare.values()):
            prepared.end()
        self._spare.clear()

    def _end_round(self) -> None:
        for prepared in self._used.values():
            if prepared:
                prepared.end()
        self._used.clear()

    def _take_spare(
        self,
        imported: _Imported,
        settings: Mapping[str, str | None],
        is_over: Callable[[], object],
    ) -> _Prepared | None:
        """Returns a prepared process that nothing was forked from; None if none gets ready.

        A process of its own will then show why.

        Raises:
            MeasurementError: It hangs.
        """
        num_cores = len(os.sched_getaffinity(0))
        if imported not in self._spare:
            num_cores -= 1  # MLflow's process starts at the same time
        spare = self._spare.setdefault(imported, [])
        while spare:
            prepared = spare.pop()
            if not is_readable(prepared.link):
                return prepared
            prepared.end()  # it has ended
        num_processes = max(1, min(num_cores, _MOST_AT_ONCE))
        if self._turn is True:  # of trials, which have one process
            num_processes = 1
        spare += self._start_several(num_processes, imported, settings, is_over)
        return spare.pop() if spare else None

    def _start_several(
        self,
        num_processes: int,
        imported: _Imported,
        settings: Mapping[str, str | None],
        is_over: Callable[[], object],
    ) -> list[_Prepared]:
        """Starts prepared processes side by side, and returns those that get ready.

        Raises:
            MeasurementError: One hangs.
        """
        started: list[_Prepared] = []
        ready = []
        try:
            for _ in range(num_processes):
                process, link = start_prepared(imported, settings)
                end = weakref.finalize(self, _end_prepared, link, process)
                started.append(_Prepared(process.pid, link, end))
            for prepared in started:
                if _is_ready(prepared, is_over):
                    ready.append(prepared)
                else:
                    prepared.end()
        except BaseException:  # also of a stop
            for prepared in started:
                prepared.end()
            raise
        return ready


def start_prepared(
    imported: _Imported, settings: Mapping[str, str | None]
) -> "tuple[subprocess.Popen[bytes], socket.socket]":
    """Starts a prepared process, and returns it with the link to it.

    The link becomes readable when the process is ready, and when it has ended.

    Args:
        imported: The backend, and whether all that a user's network or data may need comes with it.
        settings: As of `children.start`.
    """
    backend, is_users = imported
    with contextlib.ExitStack() as undone:
        link, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        undone.enter_context(link)
        with other:
            number = other.fileno()
            process = children.start(
                children.FORKS_MODULE,
                [str(number), backend, str(int(is_users))],
                output=subprocess.DEVNULL,
                settings=settings,
                pass_fds=[number],
            )
        undone.pop_all()
    return process, link


def _end_prepared(link: socket.socket, process: "subprocess.Popen[bytes]") -> None:
    link.close()
    children.end(process)


def _is_ready(prepared: _Prepared, is_over: Callable[[], object]) -> bool:
    """Waits until a prepared process is ready, and says whether it is.

    Raises:
        MeasurementError: It hangs.
    """
    patience = Patience(prepared.pid)
    while not is_readable(prepared.link, seconds=_WAIT_SECONDS):
        if is_over():
            return False
        if patience.is_over:
            raise MeasurementError(
                f"the prepared process has not computed for {patience.seconds:.0f} s (hung, or"
                " stopped by SIGSTOP), and was killed"
            )
    return bool(prepared.link.recv(_ANSWER_BYTES))


def is_readable(*files: socket.socket | int, seconds: float | None = 0.0) -> bool:
    """Says whether a file has something to read; it waits at most `seconds`; None: for ever."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


class Forked:
    """A forked process, as `subprocess.Popen` has one that it started.

    Another process watches it, which alone can say how it ended.
    """

    def __init__(
        self, link: socket.socket, path: Path, output: IO[bytes], environment: Mapping[str, str]
    ) -> None:
        """Has it forked.

        Args:
            link: To the prepared process.
            path: Of the request that it measures.
            output: Receives what it prints.
            environment: All of its variables.

        Raises:
            MeasurementError: It cannot be forked.
        """
        self.returncode: int | None = None
        self.problem = ""  # why its end is not known
        with contextlib.ExitStack() as undone:
            self._answers, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            undone.callback(self._answers.close)
            self._answers.settimeout(_FORK_SECONDS)
            link.settimeout(ANSWER_SECONDS)
            inside, outside = os.pipe()
            self.stdin = undone.enter_context(os.fdopen(outside, "wb"))
            message = json.dumps(
                {
                    "path": str(path),
                    "folder": str(Path.cwd()),
                    "environment": dict(environment),
                }
            )
            try:
                with theirs:
                    socket.send_fds(
                        link, [message.encode()], [theirs.fileno(), inside, output.fileno()]
                    )
                answer, files, _, _ = socket.recv_fds(self._answers, _ANSWER_BYTES, 2)
            except OSError as error:
                with contextlib.suppress(OSError):
                    link.shutdown(socket.SHUT_RDWR)  # as its end would look; it is not asked again
                raise MeasurementError(f"the prepared process does not answer: {error}") from error
            finally:
                os.close(inside)
            report = json.loads(answer or "{}")
            if not files:
                raise MeasurementError(report.get("problem", "the prepared process has ended"))
            self.pid = report["pid"]
            self._pidfd, self._watcher = files
            undone.pop_all()

    def poll(self) -> int | None:
        """Returns the exit code; None while it runs."""
        if self.returncode is None and is_readable(self._answers, self._pidfd):
            self._take_answer()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless it has ended."""
        if self.poll() is None:
            _signal(self._pidfd, number)

    def kill(self) -> None:
        """Sends SIGKILL, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end, `timeout` seconds at most.

        Raises:
            subprocess.TimeoutExpired: It goes on.
        """
        if self.poll() is None:
            is_readable(self._answers, self._pidfd, seconds=timeout)
        returncode = self.poll()
        if returncode is None:
            raise subprocess.TimeoutExpired(children.FORKS_MODULE, timeout or 0.0)
        return returncode

    def _take_answer(self) -> None:
        """Reads how it ended.

        Where nobody can say so any more, neither it nor what watched it goes on.
        """
        answer = b""
        if is_readable(self._answers, seconds=ANSWER_SECONDS):
            answer = self._answers.recv(_ANSWER_BYTES)
        if answer:
            self.returncode = json.loads(answer)["returncode"]
        else:
            self.problem = (
                "the process that watched the measuring process was killed, or stopped by SIGSTOP"
            )
            for pidfd in (self._watcher, self._pidfd):
                _signal(pidfd, signal.SIGKILL)
            is_readable(self._pidfd, seconds=children.END_SECONDS)
            self.returncode = -signal.SIGKILL
        self._answers.close()
        for pidfd in (self._watcher, self._pidfd):
            os.close(pidfd)


def _signal(pidfd: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)
