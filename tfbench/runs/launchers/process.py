"""The parent's side of a measuring process: start it, follow its journal, end it."""

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import psutil

from tfbench.machine import children
from tfbench.records.journal import request_fields, work_folder
from tfbench.records.json_lines import Follower, Record
from tfbench.records.run import RunExit, RunRequest
from tfbench.runs.machine_watch import MachineWatch

STOP_SECONDS = 5.0  # for a worker to end by itself once it was asked to
_STDERR_LINES = 12  # of a crashed worker, to be shown
_STDERR_BYTES = 2**16


class Worker:
    """One measuring process.

    It runs in a session of its own, so that Ctrl-C reaches only the parent, and it ends by itself once the pipe to its
    standard input is closed, however the parent ends.
    """

    def __init__(
        self,
        request: RunRequest,
        journal_path: Path,
        *,
        run_path: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Starts it.

        Args:
            request: What it measures.
            journal_path: What it writes to.
            run_path: The journal of the run, beside which it gets a folder for a while; None: it is the same.
            settings: Environment variables of this process alone.
        """
        self._seconds: float | None = None
        self._follower = Follower(journal_path)
        self._watch = MachineWatch(journal_path)
        with contextlib.ExitStack() as undone:
            folder = Path(undone.enter_context(work_folder(run_path or journal_path)))
            self._stderr = undone.enter_context(tempfile.TemporaryFile(dir=folder))  # has no name to be deleted by
            self._process = self._start(request, journal_path, folder, settings or {})
            self._pidfd = _open_pidfd(self._process.pid)
            self._kept = undone.pop_all()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._watch.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
        self._kept.close()

    @property
    def fault(self) -> RunExit | None:
        """Why the run cannot go on although its process may; None: of one process, its end says all."""
        return None

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        returncode = self._process.poll()
        if returncode is not None and self._seconds is None:
            self._seconds = (time.perf_counter_ns() - self._launched_ns) * 1e-9
            self._watch.close()
        return returncode

    @property
    def seconds(self) -> float | None:
        """From before its start to when `returncode` first told of its end; None while it runs."""
        return self._seconds

    @property
    def age_seconds(self) -> float:
        """From before its start until now."""
        return (time.perf_counter_ns() - self._launched_ns) * 1e-9

    @property
    def memory_bytes(self) -> int:
        """What of it is in memory; 0 once it has ended."""
        try:
            return int(psutil.Process(self._process.pid).memory_info().rss)
        except psutil.Error:
            return 0

    @property
    def is_stopped(self) -> bool:
        """Whether a signal keeps it from running, until another lets it go on."""
        try:
            return bool(psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED)
        except psutil.Error:
            return False

    def wait(self, seconds: float) -> None:
        """Sleeps until it ends, `seconds` at most."""
        if self._pidfd is None:
            time.sleep(seconds)
        else:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            poll.poll(seconds * 1000)

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
        if self._process.poll() is None:
            self._process.kill()
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self._process.wait()

    def stderr_tail(self) -> str:
        """Returns the last lines that the process, or the libraries in it, complained with."""
        size = os.fstat(self._stderr.fileno()).st_size
        text = os.pread(self._stderr.fileno(), _STDERR_BYTES, max(0, size - _STDERR_BYTES)).decode(errors="replace")
        return "\n".join(text.strip().splitlines()[-_STDERR_LINES:])

    def _start(
        self, request: RunRequest, journal_path: Path, folder: Path, own: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Starts the process; what it needs for as long as it runs is in `folder`."""
        request_path = folder / "request.json"
        fields = {"journal": str(journal_path.absolute()), **request_fields(request)}
        # All processes of the machine read the same monotonic clock, so that the worker knows what its start took.
        self._launched_ns = time.perf_counter_ns()
        request_path.write_text(json.dumps(fields | {"launched_ns": self._launched_ns}), encoding="utf-8")
        # AutoGraph leaves files there.
        settings = worker_variables(request.recipe.training.backend) | {"TMPDIR": str(folder), **own}
        return children.start(
            "tfbench.worker", [str(request_path)], stdin=subprocess.PIPE, output=self._stderr, settings=settings
        )


def _open_pidfd(pid: int) -> int | None:
    """Returns a file that tells of a process's end; None where the system has none."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def worker_variables(backend: str) -> dict[str, str | None]:
    """Returns what is set in the worker's environment, so that nothing changes the run behind the recipe's back."""
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # gpu:0 is the card that nvidia-smi calls 0
        "CUBLAS_WORKSPACE_CONFIG": None,  # set with training.deterministic alone
        "KERAS_BACKEND": backend,
        "grpc_proxy": "",  # none: gRPC carries what workers exchange, and would send it through http_proxy
        "JAX_COMPILATION_CACHE_DIR": None,
        "JAX_ENABLE_X64": None,
        "KERAS_MAX_EPOCHS": None,
        "KERAS_MAX_STEPS_PER_EPOCH": None,
        "KERAS_TORCH_DEVICE": None,
        "NVIDIA_TF32_OVERRIDE": None,  # training.tensor_float_32 says whether there is any
        "TF_CONFIG": None,  # who the workers are, each is told by its parent
        "PYTHONUNBUFFERED": "1",
        "TORCHINDUCTOR_CACHE_DIR": None,
        "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2"),
    }
