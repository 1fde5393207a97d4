"""Worker processes on this machine that train together.

Watched, and ended once one of them cannot go on.
"""

import contextlib
import signal
import time
from collections.abc import Sequence

from tfbench.errors import describe_recorded
from tfbench.records.json_lines import Record
from tfbench.records.placement import JOINING, WorkerRank
from tfbench.records.run import RunExit, RunRequest
from tfbench.runs.process import Worker
from tfbench.runs.run_status import describe_return

JOIN_SECONDS = 300.0  # for all workers to meet: TensorFlow would wait for ever
STOPPED_SECONDS = 5.0  # a process that a signal stops for so long is not waited for
# without a word of any worker: data is read, networks are compiled, epochs are validated
SILENT_SECONDS = 1800.0


class Group(contextlib.AbstractContextManager["Group"]):
    """Worker processes that train together.

    All begin once all are ready, and end once one cannot go on.

    Where other machines have the rest of the workers, there may be one here: the framework tells it
    of their end.

    Args:
        workers: The first of them is the one whose journal is read.
        requests: What each of them measures.
    """

    def __init__(self, workers: Sequence[Worker], requests: Sequence[RunRequest]) -> None:
        self._watched = [_Watched(*each) for each in zip(workers, requests, strict=True)]
        self._first = workers[0]
        self.fault: RunExit | None = None  # why the run cannot go on, and who is the cause
        self._unread: list[Record] = []
        self._may_begin = self._has_begun = self._is_ending = self._has_failures = False
        self._heard_at = self._epoch_since = time.monotonic()
        self._longest_epoch = 0.0  # seconds

    def __exit__(self, *exception: object) -> None:
        for each in self._watched:
            each.worker.__exit__(*exception)

    @property
    def returncode(self) -> int | None:
        """That of the first worker once all have ended; None before."""
        ended = [each.worker.returncode is not None for each in self._watched]
        return self._first.returncode if all(ended) else None

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
        return sum(each.worker.memory_bytes for each in self._watched)

    def wait(self, seconds: float) -> None:
        """Sleeps; shorter if the first worker ends."""
        if self._first.returncode is None:
            self._first.wait(seconds)
        else:
            time.sleep(seconds)

    def read(self) -> list[Record]:
        """Returns what was added to the first worker's journal.

        That includes word of another worker that rejects the run.
        """
        self._look()
        records = self._unread
        self._unread = []
        return records

    def begin(self) -> None:
        """Lets the measurement begin once all workers are ready."""
        self._may_begin = True

    def terminate(self) -> None:
        """Asks all to write down what they have and end."""
        self._is_ending = True
        for each in self._watched:
            each.worker.terminate()

    def kill(self) -> None:
        """Ends all now that still run."""
        self._is_ending = True
        for each in self._watched:
            each.worker.kill()

    def stderr_tail(self) -> str:
        """Returns the last lines that the first worker complained with."""
        return self._first.stderr_tail()

    def _look(self) -> None:
        """Takes in what was written, and then who has ended.

        Of one that fails since another ended, both are seen.
        """
        is_over = (
            self.returncode is not None
        )  # before reading, so that nothing written before the end is missed
        for each in self._watched:
            records = each.read()
            if records:
                self._heard_at = time.monotonic()
                self._longest_epoch = max(self._longest_epoch, self._heard_at - self._epoch_since)
            if any(record["kind"] == "epoch" for record in records):
                self._epoch_since = self._heard_at
            if each.worker is self._first:
                self._unread += records
            else:
                rejections = [record for record in records if record["kind"] == "rejected"]
                self._unread += [_named(record, each.name) for record in rejections]
        for each in self._watched:
            each.look()
        if self._may_begin and not self._has_begun and all(each.is_ready for each in self._watched):
            self._has_begun = True
            for each in self._watched:
                each.worker.begin()
        if self.fault is None and not self._is_ending:
            self.fault = self._find_fault(is_over=is_over)

    def _find_fault(self, *, is_over: bool) -> RunExit | None:
        failures = [
            (each.blame, each.end)
            for each in self._watched
            if each.end and each.end.status != "FINISHED"
        ]
        if failures and (self._has_failures or is_over):
            return min(failures, key=lambda failure: failure[0])[1]
        self._has_failures = bool(
            failures
        )  # judged at the next look: the cause may not have been read yet
        running = [each for each in self._watched if each.worker.returncode is None]
        faults = (fault for each in running if (fault := each.find_fault()))
        reason = next(faults, "") or self._find_silence()
        return RunExit(status="KILLED", reason=reason) if reason else None

    def _find_silence(self) -> str:
        """Says that nobody makes progress; "" if it is not so, or not for long enough.

        Validation, and what follows the training, writes nothing for as long as it takes: less than
        an epoch did.
        """
        silent = time.monotonic() - self._heard_at
        is_long = silent > max(SILENT_SECONDS, self._longest_epoch)
        return (
            f"no worker has made progress for {silent:,.0f} s: they wait for one another"
            if is_long
            else ""
        )


class _Watched:
    """One worker, and what is known of it."""

    def __init__(self, worker: Worker, request: RunRequest) -> None:
        rank = request.worker_rank or WorkerRank(index=0, num_workers=1, addresses=("",))
        self.worker = worker
        self.name = f"worker {rank.index} of {rank.num_workers}"
        self.is_ready = False
        self.end: RunExit | None = None
        self.blame = (
            0,
            0.0,
        )  # of several that failed, the smallest is the cause: how it ended, and when
        self._address = rank.addresses[0]
        self._is_on_jax = request.recipe.training.backend == "jax"
        self._joining_since: float | None = None
        self._stopped_since: float | None = None

    def read(self) -> list[Record]:
        """Returns what was added to its journal."""
        records = self.worker.read()
        for record in records:
            kind = record["kind"]
            self.is_ready = self.is_ready or kind == "ready"
            if kind == "stage":
                self._joining_since = time.monotonic() if record["name"] == JOINING else None
            elif kind == "finished":
                self.end = RunExit(status="FINISHED")
            elif kind in ("failed", "rejected") and not (
                self.end and self.end.status == "FINISHED"
            ):
                self.end = RunExit(
                    status="FAILED", reason=f"{self.name}: {describe_recorded(record['error'])}"
                )
                self.blame = (1, record["time"])
        return records

    def look(self) -> None:
        """Notes whether its process has ended, and how, unless its journal says so."""
        returncode = self.worker.returncode
        if returncode is not None and self.end is None:
            self.end = describe_return(returncode, self.worker.stderr_tail(), self.name)
            self.blame = (0, time.time())
            if self._is_on_jax and returncode == -signal.SIGABRT:
                reason = f"{self.name} was ended by JAX: another worker ended, or answers no more"
                self.end = RunExit(status="FAILED", reason=reason)
                self.blame = (2, time.time())

    def find_fault(self) -> str:
        """Says why it is not waited for although it has not ended; "" if there is nothing."""
        now = time.monotonic()
        self._stopped_since = (self._stopped_since or now) if self.worker.is_stopped else None
        if self._stopped_since is not None and now - self._stopped_since >= STOPPED_SECONDS:
            return f"{self.name} was stopped by a signal (SIGSTOP)"
        if self._joining_since is not None and now - self._joining_since > JOIN_SECONDS:
            return (
                f"{self.name} has waited {JOIN_SECONDS:.0f} s for the others, who meet at"
                f" {self._address}. Start the same command for each worker, and let no firewall be"
                " between them"
            )
        return ""


def _named(record: Record, name: str) -> Record:
    """Returns a rejection with the name of the worker that it is of."""
    error = record["error"]
    return record | {"error": error | {"message": f"{name}: {error['message']}"}}
