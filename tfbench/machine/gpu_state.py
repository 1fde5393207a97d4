"""What NVIDIA's driver says of a GPU in use: its counter of energy, and what it does at the moment."""

from typing import Any

from tfbench.machine import nvml
from tfbench.records.energy import EnergySource, GpuState

_RESOLUTION_SECONDS = 0.1  # the counter is renewed every 20 to 100 ms, by the kind of the GPU
_MILLI = 1e-3


class WatchedGpu:
    """One GPU, by its address on the bus; the driver stays open until `close_driver`.

    Args:
        address: "0000:3b:00.0".

    Raises:
        GpuSilentError: The driver does not know it, or is not there.
    """

    def __init__(self, address: str) -> None:
        import pynvml

        self._pynvml: Any = pynvml
        self.address = address
        try:
            self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(address)
        except pynvml.NVMLError as error:
            raise GpuSilentError(str(error)) from error

    @property
    def source(self) -> EnergySource:
        """Its counter of energy, since the driver was loaded."""
        return EnergySource(name=self.address, part="gpu", resolution_seconds=_RESOLUTION_SECONDS)

    def why_not_counted(self) -> str:
        """Says why its energy cannot be told; "" if it can."""
        if (mode := nvml.ask("nvmlDeviceGetMigMode", self._handle)) and mode[0]:
            return "it is divided (MIG), and its counter is of all parts together"
        try:
            self._pynvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)
        except self._pynvml.NVMLError as error:
            return f"the driver does not count its energy ({error})"
        return ""

    def read_joules(self) -> float | None:
        """Returns the energy since the driver was loaded; None if the driver does not say."""
        millijoules = nvml.ask("nvmlDeviceGetTotalEnergyConsumption", self._handle)
        return None if millijoules is None else millijoules * _MILLI

    def read_state(self) -> GpuState | None:
        """Returns what it does at the moment; None if it does not answer at all."""
        pynvml, processes = self._pynvml, nvml.ask("nvmlDeviceGetComputeRunningProcesses", self._handle)
        state = GpuState(
            clock_mhz=nvml.ask("nvmlDeviceGetClockInfo", self._handle, pynvml.NVML_CLOCK_SM),
            temperature_celsius=nvml.ask("nvmlDeviceGetTemperature", self._handle, pynvml.NVML_TEMPERATURE_GPU),
            clock_reasons=self._ask_reasons(),
            power_limit_watts=_scaled(nvml.ask("nvmlDeviceGetPowerManagementLimit", self._handle)),
            default_power_limit_watts=_scaled(nvml.ask("nvmlDeviceGetPowerManagementDefaultLimit", self._handle)),
            ecc_errors=self._count_ecc_errors(),
            num_other_processes=None if processes is None else _count_others(processes),
        )
        return None if state == GpuState() else state

    def _ask_reasons(self) -> int | None:
        reasons = nvml.ask("nvmlDeviceGetCurrentClocksEventReasons", self._handle)
        if reasons is None:  # a driver from before they were called so
            reasons = nvml.ask("nvmlDeviceGetCurrentClocksThrottleReasons", self._handle)
        return None if reasons is None else int(reasons)

    def _count_ecc_errors(self) -> int | None:
        pynvml, question = self._pynvml, "nvmlDeviceGetTotalEccErrors"
        kinds = (pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
        counts = [nvml.ask(question, self._handle, kind, pynvml.NVML_VOLATILE_ECC) for kind in kinds]
        known = [int(found) for found in counts if found is not None]
        return sum(known) if known else None


class GpuSilentError(Exception):
    """The driver says nothing of a GPU."""


def _count_others(processes: Any) -> int:
    """Counts those that compute on a GPU beside the run's own, of which there is one.

    Not by its number, which in a container is not the one that the driver knows.
    """
    return max(0, len({process.pid for process in processes}) - 1)


def _scaled(value: int | None) -> float | None:
    return None if value is None else value * _MILLI
