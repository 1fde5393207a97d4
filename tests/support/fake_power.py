"""Stand-ins for what energy is read from: NVIDIA's driver as `pynvml` asks it, and the kernel's tree of RAPL zones.

Both count by a clock that a test sets, so that what they tell is known: 10 W are 10 J a second.
"""

import dataclasses
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

MICRO = 1e-6


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@dataclasses.dataclass
class Card:
    """A GPU: what its driver says, and what it refuses to say."""

    address: str
    watts: float = 200.0
    clock_mhz: int = 1980
    celsius: int = 60
    reasons: int = 0
    limit_watts: float = 700.0
    default_watts: float = 700.0
    ecc_errors: int = 0
    pids: tuple[int, ...] = (4242,)
    is_divided: bool = False
    is_lost: bool = False
    refused: tuple[str, ...] = ()  # functions that it does not support
    counted_before: float = 5000.0  # joules


class NVMLError(Exception):
    """The driver has no answer."""


class NVMLLibraryMismatchError(Exception):
    """The driver is older than a function of the bindings; no `NVMLError`."""


class FakeNvml:
    """The functions of `pynvml` that tfbench calls; others are not there."""

    NVMLError = NVMLError
    NVMLLibraryMismatchError = NVMLLibraryMismatchError
    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0
    NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 0, 1
    NVML_VOLATILE_ECC = 0

    def __init__(self, clock: Clock, *cards: Card, is_there: bool = True) -> None:
        self._clock, self._is_there = clock, is_there
        self.cards = {card.address: card for card in cards}
        self.open = 0
        self.calls: list[str] = []

    def nvmlInit(self) -> None:
        if not self._is_there:
            raise NVMLError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetHandleByPciBusId(self, address: str) -> Card:
        if address not in self.cards:
            raise NVMLError("Not Found")
        return self.cards[address]

    def nvmlDeviceGetMigMode(self, card: Card) -> list[int]:
        return [int(card.is_divided), int(card.is_divided)]

    def nvmlDeviceGetTotalEnergyConsumption(self, card: Card) -> int:
        self._answer("nvmlDeviceGetTotalEnergyConsumption", card)
        return round(1000 * (card.counted_before + card.watts * self._clock()))

    def nvmlDeviceGetClockInfo(self, card: Card, kind: int) -> int:
        self._answer("nvmlDeviceGetClockInfo", card)
        assert kind == self.NVML_CLOCK_SM
        return card.clock_mhz

    def nvmlDeviceGetTemperature(self, card: Card, kind: int) -> int:
        self._answer("nvmlDeviceGetTemperature", card)
        return card.celsius

    def nvmlDeviceGetCurrentClocksEventReasons(self, card: Card) -> int:
        self._answer("nvmlDeviceGetCurrentClocksEventReasons", card)
        return card.reasons

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, card: Card) -> int:
        self._answer("nvmlDeviceGetCurrentClocksThrottleReasons", card)
        return card.reasons

    def nvmlDeviceGetPowerManagementLimit(self, card: Card) -> int:
        self._answer("nvmlDeviceGetPowerManagementLimit", card)
        return round(1000 * card.limit_watts)

    def nvmlDeviceGetPowerManagementDefaultLimit(self, card: Card) -> int:
        self._answer("nvmlDeviceGetPowerManagementDefaultLimit", card)
        return round(1000 * card.default_watts)

    def nvmlDeviceGetTotalEccErrors(self, card: Card, kind: int, counter: int) -> int:
        self._answer("nvmlDeviceGetTotalEccErrors", card)
        return card.ecc_errors if kind == self.NVML_MEMORY_ERROR_TYPE_UNCORRECTED else 0

    def nvmlDeviceGetComputeRunningProcesses(self, card: Card) -> list[Any]:
        self._answer("nvmlDeviceGetComputeRunningProcesses", card)
        return [SimpleNamespace(pid=pid) for pid in card.pids]

    def _answer(self, function: str, card: Card) -> None:
        self.calls.append(function)
        if card.is_lost:
            raise NVMLError("GPU is lost")
        if function in card.refused:
            raise NVMLError("Not Supported")


def install_nvml(monkeypatch: pytest.MonkeyPatch, driver: FakeNvml) -> FakeNvml:
    """Puts a driver in the place of NVIDIA's."""
    monkeypatch.setitem(sys.modules, "pynvml", driver)  # type: ignore[arg-type]
    return driver


class RaplTree:
    """Zones as Linux shows them below /sys, each with a counter that a test sets.

    Args:
        root: Where /sys is to lie.
        range_joules: At which counters begin anew.
    """

    def __init__(self, root: Path, *, range_joules: float = 262_143.0) -> None:
        self.root = root
        self._range = range_joules
        self._folder = root / "sys/class/powercap"
        self._folder.mkdir(parents=True)

    def add(self, zone: str, name: str, joules: float = 0.0) -> Path:
        """Adds a zone, "intel-rapl:0:2", and returns its counter."""
        folder = self._folder / zone
        folder.mkdir()
        (folder / "name").write_text(f"{name}\n", encoding="ascii")
        (folder / "max_energy_range_uj").write_text(f"{round(self._range / MICRO)}\n", encoding="ascii")
        self.set(zone, joules)
        return folder / "energy_uj"

    def set(self, zone: str, joules: float) -> None:
        """Sets what a counter would show had it not begun anew."""
        counter = self._folder / zone / "energy_uj"
        counter.write_text(f"{round(joules % self._range / MICRO)}\n", encoding="ascii")
