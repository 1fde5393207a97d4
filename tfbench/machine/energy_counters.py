"""Counters of energy of the GPUs that a run is on, and the state of these GPUs.

NVIDIA's driver shows both. Nothing else of a machine is counted: no processors, fans, disks,
network cards and power supplies. What cannot be read is reported; nothing is made up for it.

A counter says how much it has counted since some moment; so only differences mean anything, and
only over stretches that are long beside the time after which a counter is renewed. That is for
`runs.energy` to judge.
"""

import contextlib
import time
from collections.abc import Sequence

from tfbench.machine.energy_readings import (
    EnergyReading,
    EnergySources,
    GpuState,
    MachineState,
    Moment,
)
from tfbench.machine.facts import Gpu
from tfbench.machine.gpus import WatchedGpu, ask_nvml, why_not


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


def find_energy_sources(gpus: Sequence[Gpu]) -> EnergySources:
    """Returns what could be read of a run on all of some GPUs, and why anything else could not.

    Args:
        gpus: As their driver describes them.
    """
    with contextlib.closing(EnergyMeter([gpu.bus_id or "" for gpu in gpus])) as meter:
        return meter.sources


class EnergyMeter:
    """Reads the counters that there are.

    It is made when devices are in use, so that the driver is awake and knows all of them.

    Args:
        addresses: Of the GPUs in use; "" for one whose address is not known.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self._has_driver = False
        self._gpus: list[WatchedGpu] = []
        self._counters: list[WatchedGpu] = []  # those of them whose energy is counted
        problems = self._open_gpus(addresses)
        self.sources = EnergySources(
            sources=tuple(gpu.source for gpu in self._counters), problems=tuple(problems)
        )

    def close(self) -> None:
        """Closes the driver; nothing can be read any more."""
        if self._has_driver:
            self._has_driver = False
            ask_nvml("nvmlShutdown")

    @property
    def watches(self) -> bool:
        """Whether there is a GPU to look at."""
        return bool(self._gpus)

    def read(self, moment: Moment) -> EnergyReading:
        """Returns what the counters show now."""
        seconds = time.monotonic()
        readings = {}
        for gpu in self._counters:
            joules = gpu.read()
            if joules is not None:
                readings[gpu.source.name] = joules
        return EnergyReading(moment=moment, seconds=seconds, joules=readings)

    def look(self) -> MachineState:
        """Returns what the GPUs do now."""
        seconds = time.monotonic()
        states: dict[str, GpuState] = {}
        for gpu in self._gpus:
            if state := gpu.read_state():
                states[gpu.source.name] = state
        return MachineState(seconds=seconds, gpus=states)

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
