"""Where a measuring process's time goes.

Each moment is in one entry of the time breakdown, or not accounted for.
"""

import contextlib
import time
from collections.abc import Callable, Iterator

from tfbench.machine.facts import BreakdownRecord
from tfbench.metrics import BREAKDOWN_ENTRIES

_NS = 1e-9


class Breakdown:
    """Adds up the time of each entry; one is open at a time, or none.

    Args:
        started_ns: When the process was asked for, on the clock that `now` reads; "startup" is open
            from then on.
        now: Reads a monotonic clock that all processes of the machine share, in nanoseconds.
    """

    def __init__(self, started_ns: int, *, now: Callable[[], int] = time.perf_counter_ns) -> None:
        self._now = now
        self._started_ns = self._since_ns = started_ns
        self._open: str | None = "startup"
        self._nanoseconds = dict.fromkeys(BREAKDOWN_ENTRIES, 0)

    def switch(self, entry: str | None) -> str | None:
        """Closes the open entry and opens another; returns the one that was open."""
        before = self._open
        time_ns = self._now()
        if before is not None:
            self._nanoseconds[before] += time_ns - self._since_ns
        self._open = entry
        self._since_ns = time_ns
        return before

    @contextlib.contextmanager
    def entry(self, name: str) -> Iterator[None]:
        """Opens an entry, and then again the one that was open before."""
        before = self.switch(name)
        try:
            yield
        finally:
            self.switch(before)

    def record(self) -> BreakdownRecord:
        """Returns what has been added up until now, the open entry included."""
        self.switch(self._open)
        return BreakdownRecord(
            entries={
                name: nanoseconds * _NS
                for name, nanoseconds in self._nanoseconds.items()
                if nanoseconds
            },
            elapsed_seconds=(self._since_ns - self._started_ns) * _NS,
        )
