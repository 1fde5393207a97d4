"""Several measuring processes that train together, in the place of one.

No framework notices in time that one of them is gone: JAX took 79 s for one that was killed, and TensorFlow waits for
ever for one that is stopped, deaf to requests to end. So all are watched from here, and one that cannot go on ends all.
"""

import time
from collections.abc import Sequence
from types import TracebackType

from tfbench.records import events
from tfbench.records.lines import Record
from tfbench.records.run import RunExit
from tfbench.runs.launchers.watched import Peer, WatchedWorker

CAUSE_SECONDS = 1.0  # one that fails may do so since another was killed, of which word comes a little later
STARTING_SECONDS = 1800.0  # without a word of anyone before the first step: data is read, networks are compiled
SILENT_SECONDS = 600.0  # and from then on, unless longer silences were seen
SILENCE_FACTOR = 20.0  # of the longest silence seen


class Group:
    """Workers that train together; all begin once all are ready, and end once one cannot go on.

    Args:
        first: The worker whose journal is the run's.
        others: All other workers, in the order of their numbers.
    """

    def __init__(self, first: WatchedWorker, others: Sequence[Peer]) -> None:
        self._first = first
        self._peers: tuple[Peer, ...] = (first, *others)
        self._others = tuple(others)
        self._fault: RunExit | None = None
        self._unread: list[Record] = []
        self._may_begin = self._has_begun = self._trains = self._is_ending = self._is_concluded = False
        self._failing_since: float | None = None
        self._silence = _Silence()
        self._refusal = "the run was given up before it began"

    def __enter__(self) -> "Group":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_concluded:
            reason = str(error) or type(error).__name__ if error else self._refusal
            for peer in self._others:
                peer.conclude(RunExit(status="KILLED", reason=reason), is_kept=False)
        for peer in self._peers:
            peer.close()

    @property
    def fault(self) -> RunExit | None:
        """Why the run cannot go on, and who is the cause; None while there is nothing."""
        return self._fault

    @property
    def returncode(self) -> int | None:
        """That of the first worker once all have ended; None before."""
        self._look()
        return None if any(peer.end is None for peer in self._peers) else self._first.worker.returncode

    @property
    def seconds(self) -> float | None:
        """What the first worker took from before its start to its end; None while it runs."""
        return self._first.worker.seconds

    @property
    def age_seconds(self) -> float:
        """From before the first worker's start until now."""
        return self._first.worker.age_seconds

    @property
    def memory_bytes(self) -> int:
        """What of all workers is in memory."""
        return sum(peer.memory_bytes for peer in self._peers)

    def wait(self, seconds: float) -> None:
        """Sleeps; shorter if the first worker ends."""
        if self._first.end is None:
            self._first.worker.wait(seconds)
        else:
            time.sleep(seconds)

    def read(self) -> list[Record]:
        """Returns what was added to the first worker's journal, and word of another that refuses the run."""
        self._look()
        records, self._unread = self._unread, []
        return records

    def begin(self) -> None:
        """Lets the measurement begin once all workers are ready."""
        self._may_begin = True

    def terminate(self) -> None:
        """Asks all to write down what they have and end."""
        self._is_ending = True
        for peer in self._peers:
            peer.terminate()

    def kill(self) -> None:
        """Ends all now that still run."""
        self._is_ending = True
        for peer in self._peers:
            if peer.end is None:
                peer.kill()

    def conclude(self, end: RunExit) -> None:
        """Has the journals of all other workers say how the run ended."""
        self._is_concluded = True
        for peer in self._others:
            peer.conclude(end, is_kept=True)

    def stderr_tail(self) -> str:
        """Returns the last lines that the first worker complained with."""
        return self._first.worker.stderr_tail()

    def _look(self) -> None:
        for peer in self._peers:
            records = peer.look()
            kinds = [events.class_of(record) for record in records]
            self._trains = self._trains or events.SpansMeasured in kinds
            if records:
                self._silence.end(trains=self._trains, ends_epoch=events.EpochEnded in kinds)
            for kind, record in zip(kinds, records, strict=True):
                if kind is events.Refused:
                    self._refusal = f"{peer.name}: {record['error']['message']}"
                    if peer is not self._first:
                        record = record | {"error": record["error"] | {"message": self._refusal}}
                        self._unread.append(record)
            if peer is self._first:
                self._unread += records
        if self._may_begin and not self._has_begun and all(peer.is_ready for peer in self._peers):
            self._has_begun = True
            for peer in self._peers:
                peer.begin()
        if self._fault is None and not self._is_ending:
            self._fault = self._find_fault()

    def _find_fault(self) -> RunExit | None:
        for peer in self._peers:
            if peer.trouble and peer.end is None:
                return RunExit(status="KILLED", reason=peer.trouble)
        ends = [peer.end for peer in self._peers if peer.end and peer.end.status != "FINISHED"]
        if not ends:
            return self._silence.find_fault()
        if killed := [end for end in ends if end.status == "KILLED"]:
            return killed[0]
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        is_settled = now - self._failing_since >= CAUSE_SECONDS and all(peer.is_heard for peer in self._peers)
        return ends[0] if is_settled or len(ends) == len(self._peers) else None


class _Silence:
    """How long no worker has written anything, and whether that is longer than what was seen makes likely."""

    def __init__(self) -> None:
        self._heard_at = time.monotonic()
        self._epoch_since: float | None = None  # when training began, or its last epoch ended
        self._longest = 0.0  # silence since training began
        self._longest_epoch = 0.0

    def end(self, *, trains: bool, ends_epoch: bool = False) -> None:
        """Takes in that a worker has written something."""
        now = time.monotonic()
        if self._epoch_since is not None:
            self._longest = max(self._longest, now - self._heard_at)
            self._longest_epoch = max(self._longest_epoch, now - self._epoch_since)
        if (self._epoch_since is None and trains) or ends_epoch:
            self._epoch_since = now
        self._heard_at = now

    def find_fault(self) -> RunExit | None:
        """Says that nobody makes progress; None: not so, or not for long enough.

        Validation after an epoch writes nothing for as long as it takes, which is less than an epoch did.
        """
        silent = time.monotonic() - self._heard_at
        limit = STARTING_SECONDS
        if self._epoch_since is not None:
            limit = max(SILENT_SECONDS, SILENCE_FACTOR * self._longest, self._longest_epoch)
        if silent <= limit:
            return None
        return RunExit(
            status="KILLED", reason=f"no worker has made progress for {silent:,.0f} s: they wait for one another"
        )
