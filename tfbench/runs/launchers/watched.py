"""A measuring process of this machine that trains together with others, which have to know what becomes of it."""

import contextlib
import time
from pathlib import Path
from typing import Protocol

from tfbench.records import events
from tfbench.records.journal import Journal, Replay, request_fields
from tfbench.records.lines import Record
from tfbench.records.run import RunExit, RunRequest
from tfbench.runs.endings import describe_exit
from tfbench.runs.launchers.process import Worker

STOPPED_SECONDS = 5.0  # a process that a signal stops for so long is not waited for by the others
_LOOK_SECONDS = 1.0  # between looks at whether it is stopped


class Peer(Protocol):
    """One of the workers that train together, as the parent sees it that tracks the run."""

    name: str
    end: RunExit | None  # None: it runs
    is_ready: bool
    trouble: str  # why it is not waited for, though it has not ended; "" if there is nothing

    @property
    def is_heard(self) -> bool:
        """Whether what is known of it is of now."""

    @property
    def memory_bytes(self) -> int:
        """What of it is in memory."""

    def look(self) -> list[Record]:
        """Takes in what has become of it, and returns what was added to its journal."""

    def begin(self) -> None:
        """Lets its measurement begin."""

    def terminate(self) -> None:
        """Asks it to write down what it has and end."""

    def kill(self) -> None:
        """Ends it now."""

    def conclude(self, end: RunExit, *, is_kept: bool) -> None:
        """Has its journal say how the run of all of them ended, which is kept unless nothing was measured."""

    def close(self) -> None:
        """Ends it if it runs, and gives up what it takes."""


class WatchedWorker:
    """A measuring process of this machine."""

    is_heard = True

    def __init__(self, request: RunRequest, worker: Worker, journal_path: Path, name: str) -> None:
        self.name = name
        self.worker = worker
        self.end: RunExit | None = None
        self.is_ready = False
        self.trouble = ""
        self._path = journal_path
        self._replay = Replay()  # without spans: how it ended is what is asked for
        self._replay.apply({"kind": "request", "time": request.created, **request_fields(request)})
        self._is_unreadable = False
        self._looked_at = 0.0
        self._stopped_since: float | None = None

    @property
    def memory_bytes(self) -> int:
        """What of it is in memory."""
        return self.worker.memory_bytes

    def look(self) -> list[Record]:
        """Takes in what has become of it, and returns what was added to its journal."""
        returncode = self.worker.returncode  # before reading, so that nothing written before the end is missed
        records = self._read()
        for record in records:
            kind = events.class_of(record)
            self.is_ready = self.is_ready or kind is events.Ready
            if kind is not events.SpansMeasured:
                self._replay.apply(record)
        if returncode is None and not self._is_unreadable:
            self._look_whether_stopped()
        elif returncode is not None and self.end is None:
            self.end = self._describe_end(returncode)
        return records

    def begin(self) -> None:
        """Lets its measurement begin."""
        self.worker.begin()

    def terminate(self) -> None:
        """Asks it to write down what it has and end."""
        self.worker.terminate()

    def kill(self) -> None:
        """Ends it now, even if it is stopped."""
        self.worker.kill()

    def conclude(self, end: RunExit, *, is_kept: bool = True) -> None:
        """Has its journal say how the run of all of them ended, which is kept unless nothing was measured."""
        write_end(self._path, end)

    def close(self) -> None:
        """Ends it if it runs, and gives up what it takes."""
        self.worker.__exit__(None, None, None)

    def _read(self) -> list[Record]:
        try:
            return self.worker.read()
        except OSError as error:
            self._is_unreadable = True
            self.trouble = f"{self.name}: its journal cannot be read any more: {error.strerror}"
            return []

    def _describe_end(self, returncode: int) -> RunExit:
        tail = self.worker.stderr_tail()
        end = describe_exit(self._replay.result(), returncode, stopped_by="", stderr_tail=tail, who=self.name)
        if end.status == "FINISHED" or end.reason.startswith(self.name):
            return end
        return RunExit(status=end.status, reason=f"{self.name}: {end.reason}")

    def _look_whether_stopped(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        if not self.worker.is_stopped:
            self._stopped_since, self.trouble = None, ""
            return
        self._stopped_since = self._stopped_since or now
        if now - self._stopped_since >= STOPPED_SECONDS:
            self.trouble = f"{self.name} does not run: it was stopped by a signal (SIGSTOP)"


def write_end(journal_path: Path, end: RunExit) -> None:
    """Adds how a run ended to the journal of one of its other workers; that the disk is full is passed over."""
    with contextlib.suppress(OSError):
        journal = Journal(journal_path)
        try:
            journal.append("exit", status=end.status, reason=end.reason, worker_seconds=end.worker_seconds)
        finally:
            journal.close()
