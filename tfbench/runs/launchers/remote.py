"""A worker on another machine, as the parent sees it that tracks the run: by what that worker's own parent tells."""

import os
import time
from pathlib import Path

from tfbench.records import events, lines
from tfbench.records.lines import Record
from tfbench.records.run import RunExit
from tfbench.runs.launchers.connection import BEAT_SECONDS, LOST_SECONDS, Connection, Message
from tfbench.runs.launchers.process import STOP_SECONDS
from tfbench.runs.launchers.watched import write_end


class RemoteWorker:
    """A worker on another machine; what it writes to its journal there is written here, too."""

    def __init__(self, connection: Connection, journal_path: Path, name: str) -> None:
        self.name = name
        self.end: RunExit | None = None
        self.is_ready = False
        self.trouble = ""
        self.memory_bytes = 0
        self._connection = connection
        self._path = journal_path
        self._file: int | None = None
        self._can_write = True  # until a disk is full
        self._is_written_there = False  # its parent has the same store, and writes the journal itself
        self._killed_at: float | None = None

    @property
    def is_heard(self) -> bool:
        """Whether what is known of it is of now."""
        return self.end is not None or self._connection.silent_seconds < 2 * BEAT_SECONDS

    def look(self) -> list[Record]:
        """Takes in what its parent has told, and returns what was added to its journal."""
        is_cut = bool(self._connection.problem)  # before the last look
        records = []
        while message := self._connection.receive():
            records += self._take_in(message)
        if self.end is None:
            self._judge(is_cut=is_cut)
        return records

    def begin(self) -> None:
        """Lets its measurement begin."""
        self._connection.send("begin")

    def terminate(self) -> None:
        """Asks it to write down what it has and end."""
        self._connection.send("terminate")

    def kill(self) -> None:
        """Has it ended now; if no word of that comes, it is taken as gone."""
        if self._killed_at is None:
            self._killed_at = time.monotonic()
            self._connection.send("kill")

    def conclude(self, end: RunExit, *, is_kept: bool) -> None:
        """Has its journals, here and there, say how the run of all of them ended."""
        self._connection.send("end", status=end.status, reason=end.reason, is_kept=is_kept)
        if self._can_write and self._path.exists() and (self._connection.problem or not self._is_written_there):
            write_end(self._path, end)

    def close(self) -> None:
        """Ends the connection, which ends the worker if it runs."""
        self._connection.close()
        if self._file is not None:
            os.close(self._file)

    def _take_in(self, message: Message) -> list[Record]:
        match message:
            case {"kind": "started", "shares_store": bool(shares)}:
                self._is_written_there = shares
            case {"kind": "state", "memory_bytes": int(memory), "trouble": str(trouble)}:
                self.memory_bytes, self.trouble = memory, trouble
            case {"kind": "record", "record": dict(record)}:
                return self._keep(record)
            case {"kind": "ended", "status": "FINISHED" | "FAILED" | "KILLED" as status, "reason": str(reason)}:
                self.end = RunExit(status=status, reason=reason)
        return []

    def _keep(self, record: Record) -> list[Record]:
        try:
            line = lines.encode([record])
            lines.parse(line)
        except ValueError:
            return []
        if self._can_write and not self._is_written_there:
            try:
                if self._file is None:
                    self._path.parent.mkdir(parents=True, exist_ok=True)
                    self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
                lines.append(self._file, line)
            except OSError:  # a disk that is full here: its parent keeps it all, and half of it here would mislead
                self._can_write = False
        self.is_ready = self.is_ready or events.class_of(record) is events.Ready
        return [record]

    def _judge(self, *, is_cut: bool) -> None:
        if is_cut:
            what = "was cut off: its parent was killed, or its machine or the network is gone"
            self.end = RunExit(status="KILLED", reason=f"the connection to {self.name} {what}")
        elif self._connection.silent_seconds > LOST_SECONDS:
            what = f"has not been heard of for {LOST_SECONDS:.0f} s: its machine or the network is gone"
            self.end = RunExit(status="KILLED", reason=f"{self.name} {what}")
        elif self._killed_at and time.monotonic() - self._killed_at > STOP_SECONDS:
            self.end = RunExit(status="KILLED", reason=f"{self.name} did not end when it was asked to")
