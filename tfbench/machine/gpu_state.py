"""What NVIDIA's driver says of a GPU in use: its counter of energy, and what it does at the moment."""

from collections.abc import Callable
from typing import Any

from tfbench.machine.nvml import ask, why_not
from tfbench.records.energy import EnergySource, GpuState

_RESOLUTION_SECONDS = 0.1  # the counter is renewed every 20 to 100 ms, by the kind of the GPU
_MILLI = 1e-3


class WatchedGpu:
    """One GPU that the driver knows, which stays open until `close_driver`.

    Args:
        address: On the bus: "0000:3b:00.0".
    """

    def __init__(self, address: str) -> None:
        self.source = EnergySource(name=address, part="gpu", resolution_seconds=_RESOLUTION_SECONDS)
        self._handle = ask("nvmlDeviceGetHandleByPciBusId", address)

    def why_not_counted(self) -> str:
        """Says why its energy cannot be told; "" if it can."""
        if (mode := ask("nvmlDeviceGetMigMode", self._handle)) and mode[0]:
            return "it is divided (MIG), and its counter is of all parts together"
        problem = why_not("nvmlDeviceGetTotalEnergyConsumption", self._handle)
        return f"the driver does not count its energy ({problem})" if problem else ""

    def read(self) -> float | None:
        """Returns the joules since the driver was loaded; None if the driver does not say."""
        return _scaled(ask("nvmlDeviceGetTotalEnergyConsumption", self._handle))

    def read_state(self) -> GpuState | None:
        """Returns what it does at the moment; None if it does not answer at all."""
        state = GpuState(**{name: read(self._handle) for name, read in _READERS.items()})
        return None if state == GpuState() else state


def _read_reasons(handle: Any) -> int | None:
    reasons: int | None = ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if reasons is None:  # a driver from before they were called so
        reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    return reasons


def _count_ecc_errors(handle: Any) -> int | None:
    """Counts those that were corrected, and those that were not."""
    import pynvml

    kinds = (pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
    counts = [ask("nvmlDeviceGetTotalEccErrors", handle, kind, pynvml.NVML_VOLATILE_ECC) for kind in kinds]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _count_others(handle: Any) -> int | None:
    """Counts the processes that compute on a GPU beside the run's own, of which there is one.

    Not by its number, which in a container is not the one that the driver knows.
    """
    processes = ask("nvmlDeviceGetComputeRunningProcesses", handle)
    return None if processes is None else max(0, len({process.pid for process in processes}) - 1)


def _scaled(value: int | None) -> float | None:
    return None if value is None else value * _MILLI


_SM_CLOCK, _TEMPERATURE = 1, 0  # NVML_CLOCK_SM, NVML_TEMPERATURE_GPU

# What a GPU does, by the fields of the record.
_READERS: dict[str, Callable[[Any], Any]] = {
    "clock_mhz": lambda handle: ask("nvmlDeviceGetClockInfo", handle, _SM_CLOCK),
    "temperature_celsius": lambda handle: ask("nvmlDeviceGetTemperature", handle, _TEMPERATURE),
    "clock_reasons": _read_reasons,
    "power_limit_watts": lambda handle: _scaled(ask("nvmlDeviceGetPowerManagementLimit", handle)),
    "default_power_limit_watts": lambda handle: _scaled(ask("nvmlDeviceGetPowerManagementDefaultLimit", handle)),
    "ecc_errors": _count_ecc_errors,
    "num_other_processes": _count_others,
}
