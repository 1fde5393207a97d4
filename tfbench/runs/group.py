"""Worker processes on this machine that train together.

They are watched, and ended once one of them cannot go on.
"""

import contextlib
import math
import signal
import time
from collections.abc import Sequence

from tfbench.errors import describe_recorded
from tfbench.runs.placement_record import JOINING, WorkerRank
from tfbench.runs.process import Worker
from tfbench.runs.record import RunExit, RunRequest
from tfbench.runs.status import describe_return
from tfbench.store.json_lines import Record

JOIN_SECONDS = 300.0  # for all workers to meet: TensorFlow would wait for ever
STOPPED_SECONDS = 5.0  # a process that a signal stops for so long is not waited for
# without a word of any worker: data is read, networks are compiled, epochs are validated
SILENT_SECONDS = 1800.0


class Group(contextlib.AbstractContextManager["Group"]):
    """Worker processes that train together.

    All begin once all are ready, and end once one cannot go on. Where other machines have the rest
    of the workers, there may be only one here: the framework ends it with them.

    Args:
        workers: The first of them is the one whose journal is read.
        requests: What each of them measures.
    """

    def __init__(self, workers: Sequence[Worker], requests: Sequence[RunRequest]) -> None:
        self._members = [
            _Member(worker, request) for worker, request in zip(workers, requests, strict=True)
        ]
        self._first = workers[0]
        self.fault: RunExit | None = None  # why the run cannot go on, and who is the cause
        self._may_begin = self._has_begun = self._is_ending = self._has_failures = False
        self._heard_at = self._epoch_since = time.monotonic()
        self._longest_epoch = 0.0  # seconds

    def __exit__(self, *exception: object) -> None:
        for member in self._members:
            member.worker.__exit__(*exception)

    @property
    def returncode(self) -> int | None:
        """That of the first worker once all have ended; None before."""
        ended = [member.worker.returncode is not None for member in self._members]
        if not all(ended):
            return None
        return self._first.returncode

    @property
    def seconds(self) -> float | None:
        """What the first worker took from before its start to its end; None while it runs."""
        return self._first.seconds

    @property
    def age_seconds(self) -> float:
        """From before the first worker's start until now."""
        return self._first.age_seconds

    @property
    def memory_bytes(self) -> int:
        """What of all workers is in memory."""
        return sum(member.worker.memory_bytes for member in self._members)

    def wait(self, seconds: float) -> None:
        """Sleeps; shorter if the first worker ends."""
        if self._first.returncode is None:
            self._first.wait(seconds)
        else:
            time.sleep(seconds)

    def read(self) -> list[Record]:
        """Returns what was added to the first worker's journal, and rejections by the others."""
        # Before reading, so that nothing written before the end is missed.
        is_over = self.returncode is not None
        # Of a worker that fails because another ended, both ends are seen in this order.
        records = []
        for member in self._members:
            records += self._take_in(member)
        for member in self._members:
            member.look()
        are_ready = all(member.is_ready for member in self._members)
        if are_ready and self._may_begin and not self._has_begun:
            self._has_begun = True
            for member in self._members:
                member.worker.begin()
        if self.fault is None and not self._is_ending:
            self.fault = self._find_fault(is_over)
        return records

    def begin(self) -> None:
        """Lets the measurement begin once all workers are ready."""
        self._may_begin = True

    def terminate(self) -> None:
        """Asks all to write down what they have and end."""
        self._is_ending = True
        for member in self._members:
            member.worker.terminate()

    def kill(self) -> None:
        """Ends all now that still run."""
        self._is_ending = True
        for member in self._members:
            member.worker.kill()

    def stderr_tail(self) -> str:
        """Returns the last lines that the first worker complained with."""
        return self._first.stderr_tail()

    def _take_in(self, member: "_Member") -> list[Record]:
        """Returns what the first worker wrote; of another, only that it rejects the run."""
        records = member.read()
        if records:
            self._heard_at = time.monotonic()
            self._longest_epoch = max(self._longest_epoch, self._heard_at - self._epoch_since)
        if any(record["kind"] == "epoch" for record in records):
            self._epoch_since = self._heard_at
        if member.worker is self._first:
            return records
        rejections = []
        for record in records:
            if record["kind"] == "rejected":
                error = record["error"]
                named = error | {"message": f"{member.name}: {error['message']}"}
                rejections.append(record | {"error": named})
        return rejections

    def _find_fault(self, is_over: bool) -> RunExit | None:
        failed = [member for member in self._members if member.has_failed]
        if failed and (self._has_failures or is_over):
            cause = min(failed, key=lambda member: member.blame)
            return cause.end
        # Judged at the next look: the cause may not have been read yet.
        self._has_failures = bool(failed)
        running = [member for member in self._members if member.worker.returncode is None]
        for member in running:
            if reason := member.find_fault():
                return RunExit(status="KILLED", reason=reason)
        # Validation, and what follows the training, writes nothing for as long as it takes: less
        # than an epoch did.
        silent_seconds = time.monotonic() - self._heard_at
        if silent_seconds <= max(SILENT_SECONDS, self._longest_epoch):
            return None
        reason = (
            f"no worker has made progress for {silent_seconds:,.0f} s: they wait for one another"
        )
        return RunExit(status="KILLED", reason=reason)


class _Member:
    """One worker of a group, and what is known of it."""

    def __init__(self, worker: Worker, request: RunRequest) -> None:
        rank = request.worker_rank or WorkerRank(index=0, num_workers=1, addresses=("",))
        self.worker = worker
        self.name = f"worker {rank.index} of {rank.num_workers}"
        self.is_ready = False
        self.end: RunExit | None = None
        # Of several that failed, the smallest is the cause: how it ended, and when.
        self.blame = (0, 0.0)
        self._address = rank.addresses[0]
        self._is_on_jax = request.recipe.training.backend == "jax"
        self._joining_since = math.inf
        self._stopped_since = math.inf

    @property
    def has_failed(self) -> bool:
        """Whether it has ended, and not as it should."""
        return self.end is not None and self.end.status != "FINISHED"

    def read(self) -> list[Record]:
        """Returns what was added to its journal."""
        records = self.worker.read()
        for record in records:
            kind = record["kind"]
            if kind == "ready":
                self.is_ready = True
            elif kind == "stage":
                self._joining_since = math.inf
                if record["name"] == JOINING:
                    self._joining_since = time.monotonic()
            elif kind == "finished":
                self.end = RunExit(status="FINISHED")
            elif kind in ("failed", "rejected") and (self.end is None or self.has_failed):
                reason = f"{self.name}: {describe_recorded(record['error'])}"
                self.end = RunExit(status="FAILED", reason=reason)
                self.blame = (1, record["time"])
        return records

    def look(self) -> None:
        """Notes whether its process has ended, and how, unless its journal says so."""
        returncode = self.worker.returncode
        if returncode is not None and self.end is None:
            self.end = describe_return(returncode, self.worker.stderr_tail(), self.name)
            how = 0
            if self._is_on_jax and returncode == -signal.SIGABRT:
                reason = f"{self.name} was ended by JAX: another worker ended, or answers no more"
                self.end = RunExit(status="FAILED", reason=reason)
                how = 2
            self.blame = (how, time.time())

    def find_fault(self) -> str:
        """Says why it is not waited for although it has not ended; "" if there is nothing."""
        now = time.monotonic()
        self._stopped_since = min(self._stopped_since, now) if self.worker.is_stopped else math.inf
        if now - self._stopped_since >= STOPPED_SECONDS:
            return f"{self.name} was stopped by a signal (SIGSTOP)"
        if now - self._joining_since > JOIN_SECONDS:
            return (
                f"{self.name} has waited {JOIN_SECONDS:.0f} s for the others, who meet at"
                f" {self._address}. Start the same command for each worker, and let no firewall be"
                " between them"
            )
        return ""
