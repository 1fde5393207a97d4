"""Counters of energy of the devices that a run is on, and the state of its GPUs.

NVIDIA's driver shows those of the GPUs in use, and the kernel those of all processor packages with
their memory. Nothing else of a machine is counted: no fans, disks, network cards, power supplies,
and no processor of a virtual machine that shows none. What cannot be read is reported; nothing is
made up for it.

A counter says how much it has counted since some moment; so only differences mean anything, and
only over stretches that are long beside the time after which a counter is renewed. That is for
`analysis.run.energy` to judge.

The kernel (RAPL, of Intel and of AMD) lists zones within zones: a package, and in it its cores, its
graphics and on servers its memory. A package's counter holds its cores and its graphics but not its
memory, so that packages and memory are read, and nothing else: what is within a package would be
counted twice, and so would "psys", the whole platform. Zones called intel-rapl-mmio are the same
packages by another way.
"""

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tfbench.machine.energy_readings import (
    EnergyPart,
    EnergyReading,
    EnergySource,
    EnergySources,
    MachineState,
    Moment,
)
from tfbench.machine.facts import Gpu
from tfbench.machine.gpus import WatchedGpu, ask_nvml, why_not
from tfbench.machine.kernel import read_text

ROOT = Path("/")
_FOLDER = "sys/class/powercap"
# The kernel's counters move about once in a millisecond (Intel SDM 3B, 15.10).
_RESOLUTION_SECONDS = 0.001
_MICRO = 1e-6


def addresses_in_use(devices: Sequence[str], visible: Sequence[str]) -> list[str]:
    """Returns the addresses on the bus of the GPUs that a run is placed on; "" for one not known.

    Args:
        devices: Of the placement: "gpu:1", counted among the GPUs that there are before any is
            hidden.
        visible: Addresses of those that its process sees, which are these and no others, in the
            same order; empty: not known.
    """
    num_gpus = sum(name.startswith("gpu:") for name in devices)
    return list(visible) if len(visible) == num_gpus else [""] * num_gpus


def find_energy_sources(gpus: Sequence[Gpu], root: Path = ROOT) -> EnergySources:
    """Returns what could be read of a run on all of some GPUs, and why anything else could not.

    Args:
        gpus: As their driver describes them.
        root: Where /sys lies.
    """
    with contextlib.closing(EnergyMeter([gpu.bus_id or "" for gpu in gpus], root)) as meter:
        return meter.sources


class EnergyMeter:
    """Reads the counters that there are.

    It is made when devices are in use, so that the driver is awake and knows all of them.

    Args:
        addresses: Of the GPUs in use; "" for one whose address is not known.
        root: Where /sys lies.
    """

    def __init__(self, addresses: Sequence[str], root: Path = ROOT) -> None:
        self._has_driver = False
        self._gpus: list[WatchedGpu] = []
        self._counters: list[WatchedGpu | RaplZone] = []
        problems = self._open_gpus(addresses)
        try:
            self._counters += open_zones(root)
        except OSError as error:
            problems.append(f"CPU: {error}")
        self.sources = EnergySources(
            sources=tuple(counter.source for counter in self._counters), problems=tuple(problems)
        )

    def close(self) -> None:
        """Closes the driver; nothing can be read any more."""
        if self._has_driver:
            self._has_driver = False
            ask_nvml("nvmlShutdown")

    @property
    def watches(self) -> bool:
        """Whether there is anything to see, of energy or of GPUs."""
        return bool(self._gpus or self._counters)

    def read(self, moment: Moment) -> EnergyReading:
        """Returns what the counters show now."""
        return EnergyReading(moment=moment, seconds=time.monotonic(), joules=self._read_joules())

    def look(self) -> MachineState:
        """Returns what the counters show now, and what the GPUs do."""
        seconds = time.monotonic()
        joules = self._read_joules()
        states = {}
        for gpu in self._gpus:
            if state := gpu.read_state():
                states[gpu.source.name] = state
        return MachineState(seconds=seconds, gpus=states, joules=joules)

    def _read_joules(self) -> dict[str, float]:
        readings = {}
        for counter in self._counters:
            joules = counter.read()
            if joules is not None:
                readings[counter.source.name] = joules
        return readings

    def _open_gpus(self, addresses: Sequence[str]) -> list[str]:
        """Opens the GPUs and returns why the energy of some is not counted."""
        if not addresses:
            return []
        if problem := why_not("nvmlInit"):
            return [f"GPUs: NVIDIA's driver cannot be asked: {problem}"]
        self._has_driver = True
        problems = []
        for address in dict.fromkeys(addresses):
            if not address:
                problems.append(
                    "GPUs: the driver does not tell which of the machine's GPUs are in use"
                )
            elif problem := why_not("nvmlDeviceGetHandleByPciBusId", address):
                problems.append(f"GPU {address}: the driver does not know it: {problem}")
            else:
                gpu = WatchedGpu(address)
                self._gpus.append(gpu)
                if problem := gpu.why_not_counted():
                    problems.append(f"GPU {address}: {problem}")
                else:
                    self._counters.append(gpu)
        return problems


class RaplZone(NamedTuple):
    """One counter: of a package, or of its memory."""

    source: EnergySource
    path: Path

    def read(self) -> float | None:
        """Returns joules; None if it cannot be read any more."""
        text = read_text(self.path)
        return int(text) * _MICRO if text.isdecimal() else None


def open_zones(root: Path) -> list[RaplZone]:
    """Returns all counters.

    Args:
        root: Where /sys lies.

    Raises:
        OSError: There are none, or one cannot be read: the figure of one of two would be taken for
            that of both.
    """
    zones = []
    for folder in sorted((root / _FOLDER).glob("intel-rapl:*")):
        source = _describe(folder)
        if source is None:
            continue
        counter = folder / "energy_uj"
        try:
            counter.read_text(encoding="ascii")
        except PermissionError as error:
            raise OSError(
                f"{counter}: permission denied: only root may read it (CVE-2020-8694). `sudo chmod"
                f" a+r {root / _FOLDER}/intel-rapl:*/energy_uj` allows it to all until the machine"
                " restarts"
            ) from error
        zones.append(RaplZone(source, counter))
    if not zones:
        raise OSError(f"no RAPL counters in {root / _FOLDER} (usual in VMs and containers)")
    return zones


def _describe(folder: Path) -> EnergySource | None:
    """Returns what a zone counts; None for one that another holds."""
    name = read_text(folder / "name")
    part: EnergyPart = "dram" if name == "dram" else "package"
    if part == "dram":
        parent = folder.name.rpartition(":")[0]
        name = f"{read_text(folder.with_name(parent) / 'name') or parent} dram"
    elif not name.startswith("package"):  # "package-0", or "package-0-die-1"
        return None
    text = read_text(folder / "max_energy_range_uj")
    range_joules = int(text) * _MICRO if text.isdecimal() else None
    return EnergySource(
        name=name, part=part, resolution_seconds=_RESOLUTION_SECONDS, range_joules=range_joules
    )
