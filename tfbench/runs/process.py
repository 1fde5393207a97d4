"""The parent's side of a measuring process.

It starts the process, follows its journal, watches the machine meanwhile, and ends it.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from tfbench.machine import children
from tfbench.machine.energy_counters import EnergyMeter, addresses_in_use
from tfbench.runs.forked import Forked, is_readable
from tfbench.runs.record import RunExit, RunRequest
from tfbench.schema import to_plain
from tfbench.store import events
from tfbench.store import json_lines as record_lines
from tfbench.store.journal import request_fields
from tfbench.store.json_lines import Follower, Record
from tfbench.store.run_folder import work_folder

STOP_SECONDS = 5.0  # for a worker to end by itself once it was asked to
_STDERR_LINES = 12  # of a crashed worker, to be shown
_STDERR_BYTES = 2**16
# What TensorFlow and XLA log in runs of which nothing is wrong.
_CHATTER = re.compile(
    r"WARNING: All log messages before|WARNING:tensorflow:|[\d: .-]*I\d* .*\.cc:"
    r"|.*\.cc:\d+\] (Unable to register cu|computation placer already|failed call to cuInit)"
)
FIRST_SECONDS = 1.0  # between looks, at the beginning
LONGEST_SECONDS = 30.0
_SHARE = 1 / 600  # of the time so far: a run of a day is looked at 5,000 times
_PATIENCE_SECONDS = 2.0  # with a driver that does not answer


class Worker(contextlib.AbstractContextManager["Worker"]):
    """One measuring process.

    It runs in a session of its own, so that Ctrl-C reaches only the parent, and it ends by itself
    once the pipe to its standard input is closed, however the parent ends.
    """

    def __init__(
        self,
        request: RunRequest,
        journal_path: Path,
        *,
        run_path: Path | None = None,
        settings: Mapping[str, str] | None = None,
        link: socket.socket | None = None,
    ) -> None:
        """Starts it.

        Args:
            request: What it measures.
            journal_path: What it writes to.
            run_path: The journal of the run, beside which it gets a folder for a while; None: it is
                the same.
            settings: Environment variables of this process alone.
            link: To a prepared process that forks it; None: it is started.
        """
        # From before its start to when `returncode` first showed its end.
        self.seconds: float | None = None
        self._follower = Follower(journal_path)
        self._watch = MachineWatch(journal_path)
        with contextlib.ExitStack() as undone:
            folder = Path(undone.enter_context(work_folder(run_path or journal_path)))
            # It has no name to be deleted by.
            self._stderr = undone.enter_context(tempfile.TemporaryFile(dir=folder))
            self._process = self._start(request, journal_path, folder, settings or {}, link)
            self._pidfd = _open_pidfd(self._process.pid)
            self._kept = undone.pop_all()

    def __exit__(self, *exception: object) -> None:
        self.kill()
        self._watch.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
        self._kept.close()

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        returncode = self._process.poll()
        if returncode is not None and self.seconds is None:
            self.seconds = self.age_seconds
            self._watch.close()
        return returncode

    @property
    def fault(self) -> RunExit | None:
        """Why the run cannot go on, where neither the journal nor the exit code says it."""
        problem = self._process.problem if isinstance(self._process, Forked) else ""
        return RunExit(status="KILLED", reason=problem) if problem else None

    @property
    def age_seconds(self) -> float:
        """From before its start until now."""
        return (time.perf_counter_ns() - self._launched_ns) * 1e-9

    @property
    def memory_bytes(self) -> int:
        """What of it is in memory; 0 once it has ended."""
        with contextlib.suppress(psutil.Error):
            return int(psutil.Process(self._process.pid).memory_info().rss)
        return 0

    @property
    def is_stopped(self) -> bool:
        """Whether a signal keeps it from running, until another lets it go on."""
        with contextlib.suppress(psutil.Error):
            return bool(psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED)
        return False

    def wait(self, seconds: float) -> None:
        """Sleeps until it ends, `seconds` at most."""
        if self._pidfd is None:
            time.sleep(seconds)
        else:
            is_readable(self._pidfd, seconds=seconds)

    def read(self) -> list[Record]:
        """Returns what was added to the journal since the last call."""
        records = self._follower.read()
        for record in records:
            self._watch.take_in(record)
        return records

    def begin(self) -> None:
        """Lets the measurement begin."""
        if self._process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(b"\n")
                self._process.stdin.flush()

    def terminate(self) -> None:
        """Asks the process to write down what it has and end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the process now, if it still runs."""
        self._process.kill()
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        children.end(self._process)

    def stderr_tail(self) -> str:
        """Returns the last lines that the process, or the libraries in it, complained with."""
        number = self._stderr.fileno()
        start = max(0, os.fstat(number).st_size - _STDERR_BYTES)
        text = os.pread(number, _STDERR_BYTES, start).decode(errors="replace").strip()
        lines = [line for line in text.splitlines() if not _CHATTER.match(line)]
        return "\n".join(lines[-_STDERR_LINES:])

    def _start(
        self,
        request: RunRequest,
        journal_path: Path,
        folder: Path,
        settings: Mapping[str, str],
        link: socket.socket | None,
    ) -> subprocess.Popen[bytes] | Forked:
        """Starts the process; what it needs for as long as it runs is in `folder`."""
        request_path = folder / "request.json"
        fields = {"journal": str(journal_path.absolute()), **request_fields(request)}
        # All processes of the machine read the same monotonic clock, so that the worker knows what
        # its start took.
        self._launched_ns = time.perf_counter_ns()
        fields["launched_ns"] = self._launched_ns
        request_path.write_text(json.dumps(fields), encoding="utf-8")
        variables = worker_variables(request.recipe.training.backend)
        variables["TMPDIR"] = str(folder)  # AutoGraph leaves files there
        variables |= settings
        if link:
            return Forked(link, request_path, self._stderr, children.environment_with(variables))
        return children.start(
            "tfbench.measure",
            [str(request_path)],
            stdin=subprocess.PIPE,
            output=self._stderr,
            settings=variables,
        )


def _open_pidfd(pid: int) -> int | None:
    """Returns a file that becomes readable when a process ends; None where there is none."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def worker_variables(backend: str) -> dict[str, str | None]:
    """Returns the environment variables of a worker.

    They keep the user's environment from changing what the recipe sets.
    """
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # gpu:0 is the card that nvidia-smi calls 0
        "CUBLAS_WORKSPACE_CONFIG": None,  # set with training.deterministic alone
        "KERAS_BACKEND": backend,
        # None: gRPC carries what workers exchange, and would send it through http_proxy.
        "grpc_proxy": "",
        "JAX_COMPILATION_CACHE_DIR": None,
        "JAX_ENABLE_X64": None,
        "KERAS_MAX_EPOCHS": None,
        "KERAS_MAX_STEPS_PER_EPOCH": None,
        "KERAS_TORCH_DEVICE": None,
        "NVIDIA_TF32_OVERRIDE": None,  # training.tensor_float_32 says whether there is any
        "TF_CONFIG": None,  # each worker learns from its parent who the workers are
        "PYTHONUNBUFFERED": "1",
        "TORCHINDUCTOR_CACHE_DIR": None,
        "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2"),
    }


class MachineWatch:
    """Looks while a worker trains, and writes what it sees into the worker's journal.

    Nothing of the disk space that is set aside for what was measured is given up for it: where a
    line cannot be written, there are no more. Where nothing can be seen, nothing is done.

    Args:
        journal_path: Of the worker.
    """

    def __init__(self, journal_path: Path) -> None:
        self._path = journal_path
        self._meter: EnergyMeter | None = None
        self._thread: threading.Thread | None = None
        self._ends = threading.Event()
        self._writing = threading.Lock()  # so that no line comes after the end

    def take_in(self, record: Record) -> None:
        """Takes in a record of the worker, upon which it opens the counters, looks, or ends."""
        kind = record["kind"]
        if self._ends.is_set():
            return
        if kind == "ready":
            fields = events.read_fields(record)
            self._meter = EnergyMeter(
                addresses_in_use(fields["placement"].devices, fields["settings"].gpu_addresses)
            )
        elif kind == "started" and self._meter and self._meter.watches:
            self._thread = threading.Thread(target=self._watch, args=(self._meter,), daemon=True)
            self._thread.start()
        elif kind == "trained":
            self.close()

    def close(self) -> None:
        """Ends it; nothing is written any more."""
        with self._writing:
            self._ends.set()
        if self._thread:
            self._thread.join(_PATIENCE_SECONDS)
            # It is in the driver, which would not be closed any sooner than it answers.
            if self._thread.is_alive():
                return
        if self._meter:
            self._meter.close()

    def _watch(self, meter: EnergyMeter) -> None:
        began = time.monotonic()
        # A look never costs a run; nor does it make a journal that is gone.
        with (
            contextlib.suppress(Exception),
            os.fdopen(os.open(self._path, os.O_RDWR | os.O_APPEND), "r+b") as file,
        ):
            while True:
                state = meter.look()
                with self._writing:
                    if self._ends.is_set():
                        return
                    record = {"kind": "machine", "time": time.time(), "state": to_plain(state)}
                    record_lines.append(file.fileno(), record_lines.encode([record]))
                if self._ends.wait(pause_seconds(time.monotonic() - began)):
                    return


def pause_seconds(elapsed_seconds: float) -> float:
    """Returns how long to wait until the next look, after so much time of looking."""
    return min(LONGEST_SECONDS, max(FIRST_SECONDS, elapsed_seconds * _SHARE))
