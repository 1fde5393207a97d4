"""What NVIDIA's driver says of a GPU in use: its counter of energy, and what it does at the moment."""

import contextlib
from collections.abc import Callable
from typing import Any

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

        self._nvml: Any = pynvml
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
        if (mode := self._ask("nvmlDeviceGetMigMode")) and mode[0]:
            return "it is divided (MIG), and its counter is of all parts together"
        try:
            self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)
        except self._nvml.NVMLError as error:
            return f"the driver does not count its energy ({error})"
        return ""

    def read_joules(self) -> float | None:
        """Returns the energy since the driver was loaded; None if the driver does not say."""
        millijoules = self._ask("nvmlDeviceGetTotalEnergyConsumption")
        return None if millijoules is None else millijoules * _MILLI

    def read_state(self) -> GpuState | None:
        """Returns what it does at the moment; None if it does not answer at all."""
        nvml, processes = self._nvml, self._ask("nvmlDeviceGetComputeRunningProcesses")
        state = GpuState(
            clock_mhz=self._ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            temperature_celsius=self._ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            clock_reasons=self._ask_reasons(),
            power_limit_watts=_scaled(self._ask("nvmlDeviceGetPowerManagementLimit")),
            default_power_limit_watts=_scaled(self._ask("nvmlDeviceGetPowerManagementDefaultLimit")),
            ecc_errors=self._count_ecc_errors(),
            num_other_processes=None if processes is None else _count_others(processes),
        )
        return None if state == GpuState() else state

    def _ask_reasons(self) -> int | None:
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:  # a driver from before they were called so
            reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        return None if reasons is None else int(reasons)

    def _count_ecc_errors(self) -> int | None:
        nvml = self._nvml
        kinds = (nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
        counts = [self._ask("nvmlDeviceGetTotalEccErrors", kind, nvml.NVML_VOLATILE_ECC) for kind in kinds]
        known = [int(found) for found in counts if found is not None]
        return sum(known) if known else None

    def _ask(self, function: str, *arguments: Any) -> Any:
        """Returns what the driver answers; None where it has no answer, or these bindings lack the question."""
        question: Callable[..., Any] | None = getattr(self._nvml, function, None)
        if question is None:
            return None
        # What newer bindings raise where the driver is older than the question.
        mismatch = getattr(self._nvml, "NVMLLibraryMismatchError", self._nvml.NVMLError)
        try:
            return question(self._handle, *arguments)
        except (self._nvml.NVMLError, mismatch):
            return None


class GpuSilentError(Exception):
    """The driver says nothing of a GPU."""


def open_driver() -> str:
    """Opens NVIDIA's driver, once for each `close_driver`; says why it cannot be, "" if it is open."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return str(error)
    return ""


def close_driver() -> None:
    """Closes NVIDIA's driver again."""
    import pynvml

    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlShutdown()


def _count_others(processes: Any) -> int:
    """Counts those that compute on a GPU beside the run's own, of which there is one.

    Not by its number, which in a container is not the one that the driver knows.
    """
    return max(0, len({process.pid for process in processes}) - 1)


def _scaled(value: int | None) -> float | None:
    return None if value is None else value * _MILLI
