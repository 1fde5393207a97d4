"""NVIDIA's GPUs: what their driver knows of each, and which number a framework gives it.

The driver lists them by their place on the bus, and CUDA, and so a framework, counts those that
CUDA_VISIBLE_DEVICES names in the same order: measuring processes have CUDA_DEVICE_ORDER=PCI_BUS_ID.
Waking a driver that has been idle takes seconds, all else milliseconds.
"""

import os
from collections.abc import Sequence
from typing import Any

from tfbench.machine.energy_readings import EnergySource, GpuState
from tfbench.machine.facts import Gpu

# The counter of energy is renewed every 20 to 100 ms, by the kind of the GPU.
_RESOLUTION_SECONDS = 0.1
# NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU
_SM_CLOCK = 1
_MEMORY_CLOCK = 2
_TEMPERATURE = 0


def ask_nvml(function: str, *arguments: Any) -> Any:
    """Returns what the driver answers; None where it has no answer, or these bindings no question.

    A virtual GPU, for example, has no power limit.
    """
    return _call(function, *arguments)[0]


def why_not(function: str, *arguments: Any) -> str:
    """Says why the driver has no answer to a question; "" if it has."""
    return _call(function, *arguments)[1]


def read_gpus() -> tuple[Gpu, ...]:
    """Returns the GPUs that NVIDIA's driver knows, ordered by their bus; () without a driver."""
    if why_not("nvmlInit"):  # no driver, or one that does not answer
        return ()
    try:
        version = ask_nvml("nvmlSystemGetDriverVersion")
        number = ask_nvml("nvmlDeviceGetCount") or 0
        handles = [ask_nvml("nvmlDeviceGetHandleByIndex", index) for index in range(number)]
        # One that has fallen off the bus has no handle.
        gpus = [_describe(handle, version) for handle in handles if handle is not None]
        return tuple(sorted(gpus, key=lambda gpu: gpu.bus_id or ""))
    finally:
        ask_nvml("nvmlShutdown")


def split_visible(text: str) -> list[str]:
    """Returns what CUDA_VISIBLE_DEVICES names, up to the first that is no device, as CUDA does."""
    entries = []
    for entry in text.split(","):
        if not entry.strip() or entry.strip().startswith("-"):
            break
        entries.append(entry.strip())
    return entries


def choose_visible(known: Sequence[Gpu], text: str | None) -> tuple[Gpu, ...]:
    """Returns the GPUs that CUDA shows to a process, in its order.

    CUDA itself is not asked: it reads its variables only once.

    Args:
        known: As of `read_gpus`.
        text: CUDA_VISIBLE_DEVICES; None: not set.
    """
    if text is None:
        return tuple(known)
    gpus = []
    for entry in split_visible(text):
        gpu = _find_visible(known, entry)
        if gpu is None:
            break
        gpus.append(gpu)
    return tuple(gpus)


def find_addresses(visible: Sequence[str]) -> tuple[str, ...]:
    """Returns the addresses of GPUs that TensorFlow calls "/physical_device:GPU:2".

    It returns none of them where one is not known.
    """
    if not visible:
        return ()
    known = choose_visible(read_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))
    addresses = []
    for name in visible:
        number = int(name.rpartition(":")[2])
        if number >= len(known):
            return ()
        address = known[number].bus_id
        if not address:
            return ()
        addresses.append(address)
    return tuple(addresses)


def read_address(text: str) -> str:
    """Returns an address on the bus as Linux writes it: "0000:3b:00.0" for "00000000:3B:00.0"."""
    domain, _, rest = text.partition(":")
    return f"{int(domain, 16):04x}:{rest.lower()}"


class WatchedGpu:
    """A GPU in use: its counter of energy, and what it does at the moment.

    The driver must stay open.

    Args:
        address: On the bus: "0000:3b:00.0".
    """

    def __init__(self, address: str) -> None:
        self.source = EnergySource(name=address, resolution_seconds=_RESOLUTION_SECONDS)
        self._handle = ask_nvml("nvmlDeviceGetHandleByPciBusId", address)

    def why_not_counted(self) -> str:
        """Says why its energy cannot be counted; "" if it can."""
        mode = ask_nvml("nvmlDeviceGetMigMode", self._handle)
        if mode and mode[0]:
            return "it is divided (MIG), and its counter is of all parts together"
        problem = why_not("nvmlDeviceGetTotalEnergyConsumption", self._handle)
        return f"the driver does not count its energy ({problem})" if problem else ""

    def read(self) -> float | None:
        """Returns the joules since the driver was loaded; None if the driver does not say."""
        return _scaled(ask_nvml("nvmlDeviceGetTotalEnergyConsumption", self._handle))

    def read_state(self) -> GpuState | None:
        """Returns what it does at the moment; None if it does not answer at all."""
        state = GpuState(
            clock_mhz=ask_nvml("nvmlDeviceGetClockInfo", self._handle, _SM_CLOCK),
            temperature_celsius=ask_nvml("nvmlDeviceGetTemperature", self._handle, _TEMPERATURE),
            clock_reasons=_read_reasons(self._handle),
            num_other_processes=_count_others(self._handle),
        )
        return None if state == GpuState() else state


def _call(function: str, *arguments: Any) -> tuple[Any, str]:
    import pynvml

    # What newer bindings raise where the driver is older than the question.
    mismatch = getattr(pynvml, "NVMLLibraryMismatchError", pynvml.NVMLError)
    try:
        return getattr(pynvml, function)(*arguments), ""
    except (pynvml.NVMLError, mismatch, AttributeError) as error:
        return None, str(error) or type(error).__name__


def _find_visible(known: Sequence[Gpu], entry: str) -> Gpu | None:
    if entry.startswith("MIG-"):  # a part of a GPU, which the driver lists with it alone
        return Gpu(name=entry, driver=known[0].driver if known else None)
    if entry.isdecimal():
        return known[int(entry)] if int(entry) < len(known) else None
    # The beginning is enough.
    named = [gpu for gpu in known if (gpu.uuid or "").startswith(entry)]
    return named[0] if len(named) == 1 else None


def _describe(handle: Any, version: str | None) -> Gpu:
    memory = ask_nvml("nvmlDeviceGetMemoryInfo", handle)
    bus = ask_nvml("nvmlDeviceGetPciInfo", handle)
    return Gpu(
        name=ask_nvml("nvmlDeviceGetName", handle) or "GPU",
        memory_bytes=int(memory.total) if memory else None,
        driver=version,
        clock_mhz=ask_nvml("nvmlDeviceGetMaxClockInfo", handle, _SM_CLOCK),
        memory_clock_mhz=ask_nvml("nvmlDeviceGetMaxClockInfo", handle, _MEMORY_CLOCK),
        power_limit_watts=_scaled(ask_nvml("nvmlDeviceGetEnforcedPowerLimit", handle)),
        bus_id=read_address(bus.busId) if bus else None,
        uuid=ask_nvml("nvmlDeviceGetUUID", handle),
    )


def _count_others(handle: Any) -> int | None:
    """Counts the processes that compute on a GPU beside the run's own, of which there is one.

    The run's own is not found by its number, which in a container the driver does not know.
    """
    processes = ask_nvml("nvmlDeviceGetComputeRunningProcesses", handle)
    if processes is None:
        return None
    return max(0, len({process.pid for process in processes}) - 1)


def _read_reasons(handle: Any) -> int | None:
    reasons: int | None = ask_nvml("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if reasons is None:  # a driver from before they were called so
        reasons = ask_nvml("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    return reasons


def _scaled(value: int | None) -> float | None:
    return None if value is None else value / 1000
