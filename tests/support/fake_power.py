"""A stand-in for what energy is read from: NVIDIA's driver as `pynvml` asks it.

It counts by a clock that a test sets, so that what it tells is known: 10 W are 10 J a second.
"""

import dataclasses
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest


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
    name: str = "H100"
    watts: float = 200.0
    clock_mhz: int = 1980
    celsius: int = 60
    reasons: int = 0
    limit_watts: float = 700.0
    pids: tuple[int, ...] = (4242,)
    is_divided: bool = False
    is_lost: bool = False
    rejected: tuple[str, ...] = ()  # functions that it does not support
    counted_before: float = 5000.0  # joules


class NVMLError(Exception):
    """The driver has no answer."""


class NVMLLibraryMismatchError(Exception):
    """The driver is older than a function of the bindings; no `NVMLError`."""


# What is asked of a card, by the functions of `pynvml`; the two arguments behind it say of what.
ANSWERS: dict[str, Callable[[Card, int, int], Any]] = {
    "nvmlDeviceGetMigMode": lambda card, *_: [int(card.is_divided)] * 2,
    "nvmlDeviceGetName": lambda card, *_: card.name,
    "nvmlDeviceGetUUID": lambda card, *_: f"GPU-{card.address[-7:-5]}".upper(),
    "nvmlDeviceGetPciInfo": lambda card, *_: SimpleNamespace(busId=f"0000{card.address}".upper()),
    "nvmlDeviceGetMemoryInfo": lambda card, *_: SimpleNamespace(total=80 * 2**30),
    "nvmlDeviceGetMaxClockInfo": lambda card, kind, _: {1: 1, 2: 2}[kind] * card.clock_mhz,
    "nvmlDeviceGetEnforcedPowerLimit": lambda card, *_: round(1000 * card.limit_watts),
    "nvmlDeviceGetClockInfo": lambda card, kind, _: {1: card.clock_mhz}[kind],
    "nvmlDeviceGetTemperature": lambda card, kind, _: {0: card.celsius}[kind],
    "nvmlDeviceGetCurrentClocksEventReasons": lambda card, *_: card.reasons,
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda card, *_: card.reasons,
    "nvmlDeviceGetComputeRunningProcesses": lambda card, *_: [
        SimpleNamespace(pid=pid) for pid in card.pids
    ],
}


class FakeNvml:
    """The functions of `pynvml` that tfbench calls; others are not there.

    Args:
        clock: By which energy is counted.
        cards: In the order of their bus.
        is_there: Whether there is a driver.
        lacks: Functions that these bindings do not have.
    """

    NVMLError = NVMLError
    NVMLLibraryMismatchError = NVMLLibraryMismatchError
    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2
    NVML_TEMPERATURE_GPU = 0

    def __init__(
        self, clock: Clock, *cards: Card, is_there: bool = True, lacks: tuple[str, ...] = ()
    ) -> None:
        self._clock = clock
        self._is_there = is_there
        self._lacks = lacks
        self.cards = {card.address: card for card in cards}
        self.open = 0

    def nvmlInit(self) -> None:
        if not self._is_there:
            raise NVMLError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        return "550.54.15"

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:
        return self.nvmlDeviceGetHandleByPciBusId(list(self.cards)[index])

    def nvmlDeviceGetHandleByPciBusId(self, address: str) -> Card:
        if address not in self.cards or self.cards[address].is_lost:
            raise NVMLError("Not Found")
        return self.cards[address]

    def nvmlDeviceGetTotalEnergyConsumption(self, card: Card) -> int:
        self._require("nvmlDeviceGetTotalEnergyConsumption", card)
        return round(1000 * (card.counted_before + card.watts * self._clock()))

    def __getattr__(self, function: str) -> Any:
        if function not in ANSWERS or function in self._lacks:
            raise AttributeError(function)

        def ask(card: Card, kind: int = 0, counter: int = 0) -> Any:
            self._require(function, card)
            return ANSWERS[function](card, kind, counter)

        return ask

    def _require(self, function: str, card: Card) -> None:
        if card.is_lost:
            raise NVMLError("GPU is lost")
        if function in card.rejected:
            raise NVMLError("Not Supported")


def install_nvml(monkeypatch: pytest.MonkeyPatch, driver: FakeNvml) -> FakeNvml:
    """Puts a driver in the place of NVIDIA's."""
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    return driver
