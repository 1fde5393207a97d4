"""The counters of energy, read at the borders of epochs and of the steady part; never within a span."""

import time
from collections.abc import Callable

from tfbench.machine.energy import EnergyMeter
from tfbench.records.energy import Moment
from tfbench.records.journal import Journal
from tfbench.schema import to_plain

MAX_SHARE = 0.01  # of the time that readings may take; beyond it, epochs are passed over

ReadEnergy = Callable[[Moment, int], None]


class EnergyBorders:
    """Writes into the journal what can be read of energy, and then what is read.

    Of an epoch, all borders are read or none. The first is, and that in which the warm-up ends; another unless readings
    took more than `MAX_SHARE` of the time since then, as they do where an epoch has few and short steps.

    Args:
        journal: Receives "energy_sources" and "energy" records.
        meter: What is read.
        now: Reads a clock, in seconds.
    """

    def __init__(self, journal: Journal, meter: EnergyMeter, *, now: Callable[[], float] = time.perf_counter) -> None:
        self._journal = journal
        self._meter = meter
        self._now = now
        self._began: float | None = None
        self._spent = 0.0
        self._reads = False
        to_plain(meter.read("epoch", 0))  # what takes longer the first time is not to be in the time of an epoch
        journal.append("energy_sources", energy=to_plain(meter.sources))

    @property
    def reader(self) -> ReadEnergy | None:
        """What to call at a border of an epoch; None where nothing can be read."""
        return self._read if self._meter.sources.sources else None

    def _read(self, moment: Moment, epoch: int) -> None:
        start = self._now()
        if self._began is None:
            self._began = start
        if moment == "epoch":
            self._reads = self._spent <= MAX_SHARE * (start - self._began)
        self._reads |= moment == "steady"  # without which nothing would be known of the steady part
        if self._reads:
            self._journal.append("energy", reading=to_plain(self._meter.read(moment, epoch)))
            self._spent += self._now() - start
