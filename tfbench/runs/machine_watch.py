"""The machine beside a training, looked at by a thread of the parent about once a second: GPUs, counters of energy."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tfbench.machine.energy import EnergyMeter, addresses_in_use
from tfbench.records import events
from tfbench.records import json_lines as record_lines
from tfbench.records.json_lines import Record
from tfbench.schema import to_plain

FIRST_SECONDS = 1.0  # between looks, at the beginning
LONGEST_SECONDS = 30.0  # within which no counter of a processor comes to its end twice
_SHARE = 1 / 600  # of the time so far: a run of a day is looked at 5,000 times
_PATIENCE_SECONDS = 2.0  # with a driver that does not answer


class MachineWatch:
    """Looks while a worker trains, and writes what it sees into the worker's journal.

    Nothing of the disk space that is set aside for what was measured is given up for it: where a line cannot be
    written, there are no more. Where nothing can be seen, nothing is done.

    Args:
        journal_path: Of the worker.
        make_meter: From the addresses of the GPUs in use to what is looked at.
    """

    def __init__(self, journal_path: Path, make_meter: Callable[[Sequence[str]], EnergyMeter] = EnergyMeter) -> None:
        self._path = journal_path
        self._make_meter = make_meter
        self._meter: EnergyMeter | None = None
        self._thread: threading.Thread | None = None
        self._ends = threading.Event()
        self._writing = threading.Lock()  # so that no line comes after the end

    def take_in(self, record: Record) -> None:
        """Takes in a record of the worker: it opens what there is to see, begins to look, or ends."""
        kind = events.class_of(record)
        if self._ends.is_set():
            return
        if kind is events.Ready and isinstance(event := events.read_event(record), events.Ready):
            in_use = addresses_in_use(event.placement.devices, event.settings.gpu_addresses)
            self._meter = self._make_meter(list(in_use.values()))
        elif kind is events.Started and self._meter and self._meter.watches:
            self._thread = threading.Thread(target=self._watch, args=(self._meter,), daemon=True)
            self._thread.start()
        elif kind is events.Trained:
            self.close()

    def close(self) -> None:
        """Ends it; nothing is written any more."""
        with self._writing:
            self._ends.set()
        if self._thread:
            self._thread.join(_PATIENCE_SECONDS)
            if self._thread.is_alive():  # in the driver, which would not be closed any sooner than it answers
                return
        if self._meter:
            self._meter.close()

    def _watch(self, meter: EnergyMeter) -> None:
        began = time.monotonic()
        with contextlib.suppress(OSError):
            file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            try:
                while True:
                    state = meter.look()
                    with self._writing:
                        if self._ends.is_set():
                            return
                        record = {"kind": "machine", "time": time.time(), "state": to_plain(state)}
                        record_lines.append(file, record_lines.encode([record]))
                    if self._ends.wait(pause_seconds(time.monotonic() - began)):
                        return
            finally:
                os.close(file)


def pause_seconds(elapsed_seconds: float) -> float:
    """Returns how long to wait until the next look, after so much time of looking."""
    return min(LONGEST_SECONDS, max(FIRST_SECONDS, elapsed_seconds * _SHARE))
