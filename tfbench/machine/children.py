"""Starts all Python processes of tfbench so that they run installed code only, and ends them.

Python puts the current folder in front of what it imports for `-m`; a json.py that lies there would
be executed.

Helpers are not waited for without a deadline: one that answers a question at once has
`ANSWER_SECONDS`, one that works has `Patience`, one that was killed has `END_SECONDS`. Only a
command that the system cannot kill, as while a driver hangs, is waited for.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import IO, Protocol

ANSWER_SECONDS = 10.0  # for what takes no work: a fork, or how a process ended
_LONGEST_LOOK_SECONDS = 5.0  # that count between two looks at a process
STILL_SECONDS = 60.0  # without any computing, as a process that hangs or is stopped
END_SECONDS = 10.0  # after SIGKILL: only a driver or a file system holds a process for longer

# Lets the kernel send SIGTERM when the parent ends, however it does (prctl, PR_SET_PDEATHSIG), and
# becomes the command, unless the parent has ended by then.
_BOUND = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15, 0, 0, 0)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
_PR_SET_PDEATHSIG = 1
FORKS_MODULE = "tfbench.measure.forks"  # of a prepared process
# What a child starts in turn reads it, too, which the child's command line would not reach.
_FIXED = {"PYTHONSAFEPATH": "1"}


def start(
    module: str,
    arguments: Iterable[str] = (),
    *,
    output: IO[bytes] | int,
    stdin: int = subprocess.DEVNULL,
    folder: str | None = None,
    settings: Mapping[str, str | None] | None = None,
    environment: Mapping[str, str] | None = None,
    pass_fds: Collection[int] = (),
) -> "subprocess.Popen[bytes]":
    """Starts `python -m MODULE` in a session of its own, which Ctrl-C does not reach.

    It is asked to end once the calling thread has ended.

    Args:
        module: What is run.
        arguments: Of its command line.
        output: Receives what it prints, on either stream.
        stdin: As of `subprocess.Popen`.
        folder: It is started in; None: the current one.
        settings: Environment variables set in place of the user's; None takes one away.
        environment: All of its variables; None: those of this process, with the settings.
        pass_fds: Open files that it has, too, under the same numbers.
    """
    bound = [sys.executable, "-I", "-S", "-c", _BOUND, str(os.getpid())]
    return subprocess.Popen(
        [*bound, sys.executable, "-m", module, *arguments],
        stdin=stdin,
        stdout=output,
        stderr=output,
        cwd=folder,
        env=environment_with(settings or {}, os.environ if environment is None else environment),
        start_new_session=True,
        pass_fds=pass_fds,
    )


def ask_child(
    module: str, *, timeout: float, settings: Mapping[str, str | None], question: str | None = None
) -> "subprocess.CompletedProcess[str]":
    """Runs `python -m MODULE` to its end, and returns what it printed.

    Args:
        module: What is run.
        timeout: Seconds.
        settings: As of `start`.
        question: Given on its standard input; None: it has the caller's.

    Raises:
        subprocess.TimeoutExpired: It took longer.
    """
    return subprocess.run(
        [sys.executable, "-m", module],
        input=question,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        env=environment_with(settings),
        check=False,
    )


class Patience:
    """How long a process is waited for that has work to do: for as long as it computes.

    Args:
        pid: Of the process.
        seconds: That it may go without computing.
    """

    def __init__(self, pid: int, seconds: float = STILL_SECONDS) -> None:
        self.seconds = seconds
        self._pid = pid
        self.renew()

    def renew(self) -> None:
        """Begins to wait anew, as for another piece of work."""
        self._waited_seconds = 0.0
        self._looked_at = time.monotonic()
        self._computed = _read_processor_time(self._pid)

    @property
    def is_over(self) -> bool:
        """Whether it has not computed for so long."""
        if _read_processor_time(self._pid) != self._computed:
            self.renew()
        now = time.monotonic()
        # Both may have been stopped meanwhile, as by Ctrl-Z or by a laptop that sleeps.
        self._waited_seconds += min(now - self._looked_at, _LONGEST_LOOK_SECONDS)
        self._looked_at = now
        return self._waited_seconds > self.seconds


def _read_processor_time(pid: int) -> int:
    """Returns what a process has computed, in ticks of the system's clock; 0 once it is gone."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    fields = status.rpartition(")")[2].split()
    user, system = fields[11:13]
    return int(user) + int(system)


class Child(Protocol):
    """A process as `subprocess.Popen` has one."""

    returncode: int | None

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end, and returns its exit code."""

    def kill(self) -> None:
        """Sends SIGKILL."""


def end(process: Child, grace_seconds: float = 0.0) -> int:
    """Ends a process, and returns its exit code.

    Args:
        process: Any that was started here.
        grace_seconds: Within which it may end by itself.
    """
    try:
        return process.wait(grace_seconds)
    # Ctrl-C may come at the end of a command that is done.
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
    try:
        return process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:  # it ends once the system lets it, and computes no more
        process.returncode = -int(signal.SIGKILL)
        return process.returncode


def environment_with(
    settings: Mapping[str, str | None], inherited: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Returns inherited variables with some set in their place; None takes one away."""
    wanted = {**inherited, **settings, **_FIXED}
    return {name: value for name, value in wanted.items() if value is not None}


def die_with_parent() -> None:
    """Lets the kernel send SIGTERM to this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
