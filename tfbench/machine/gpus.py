"""NVIDIA's GPUs: what their driver says of each, and which of them a framework calls by which number.

The driver lists them by their place on the bus. CUDA, and so a framework, counts those that CUDA_VISIBLE_DEVICES names,
in the order that it and CUDA_DEVICE_ORDER say: by speed, unless told otherwise. So both are asked, and matched by the
address on the bus. CUDA's driver tells addresses before any GPU is in use; TensorFlow only of devices that it has made.
Waking a driver that has been idle takes seconds, all else milliseconds.
"""

import ctypes
import itertools
import re
from collections.abc import Sequence
from typing import Any

from tfbench.machine import nvml
from tfbench.records.machine import Gpu

_CUDA_LIBRARY = "libcuda.so.1"  # of the driver; nothing of CUDA's own need be installed
_ADDRESS_BYTES = 32
_ADDRESS = re.compile(r"([0-9a-f]+):([0-9a-f]{2}):([0-9a-f]{2})\.([0-9a-f])", re.IGNORECASE)


def read_gpus() -> tuple[Gpu, ...]:
    """Returns the GPUs that NVIDIA's driver knows, in the order of their bus; none where there is no driver."""
    if nvml.open_driver():  # no driver, or one that does not answer
        return ()
    try:
        version = _text(nvml.ask("nvmlSystemGetDriverVersion"))
        handles = [nvml.ask("nvmlDeviceGetHandleByIndex", n) for n in range(nvml.ask("nvmlDeviceGetCount") or 0)]
        # One that has fallen off the bus has no handle.
        found = [_describe(handle, version) for handle in handles if handle is not None]
        return tuple(sorted(found, key=lambda gpu: gpu.bus_id or ""))
    finally:
        nvml.close_driver()


def split_visible(text: str) -> list[str]:
    """Returns what CUDA_VISIBLE_DEVICES names, as CUDA reads it: up to the first entry that is no device."""
    entries = (entry.strip() for entry in text.split(","))
    return list(itertools.takewhile(lambda entry: entry and not entry.startswith("-"), entries))


def choose_visible(known: Sequence[Gpu], text: str | None) -> tuple[Gpu, ...]:
    """Returns the GPUs that CUDA shows to a process, in its order, without asking it: it reads its variables but once.

    Args:
        known: As of `read_gpus`: CUDA_DEVICE_ORDER=PCI_BUS_ID, which measuring processes have, numbers them so.
        text: CUDA_VISIBLE_DEVICES; None: not set.
    """
    if text is None:
        return tuple(known)
    found = list[Gpu]()
    for entry in split_visible(text):
        if (gpu := _find_visible(known, entry)) is None:
            break
        found.append(gpu)
    return tuple(found)


def find_addresses(visible: Sequence[str]) -> tuple[str, ...]:
    """Returns the addresses of GPUs that TensorFlow calls "/physical_device:GPU:2"; none where CUDA does not tell."""
    numbers = [int(name.rpartition(":")[2]) for name in visible]
    addresses = list_cuda_addresses() if numbers else ()
    return tuple(addresses[number] for number in numbers) if max(numbers, default=0) < len(addresses) else ()


def list_cuda_addresses() -> tuple[str, ...]:
    """Returns the addresses of the GPUs that CUDA shows to this process, in its order; none where it shows none."""
    try:
        cuda = _load_cuda()
    except OSError:
        return ()
    count, device = ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return ()
    addresses = []
    for number in range(count.value):
        text = ctypes.create_string_buffer(_ADDRESS_BYTES)
        if cuda.cuDeviceGet(ctypes.byref(device), number) or cuda.cuDeviceGetPCIBusId(text, _ADDRESS_BYTES, device):
            return ()
        addresses.append(read_address(text.value))
    return tuple(addresses)


def read_address(text: str | bytes) -> str:
    """Returns an address on the bus as Linux writes it: the driver's "00000000:3B:00.0" is "0000:3b:00.0"."""
    plain = text.decode() if isinstance(text, bytes) else text
    found = _ADDRESS.fullmatch(plain.strip("\0 "))
    if not found:
        return plain
    domain, bus, device, function = (int(part, 16) for part in found.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


def _find_visible(known: Sequence[Gpu], entry: str) -> Gpu | None:
    if entry.isdecimal():
        return known[int(entry)] if int(entry) < len(known) else None
    if entry.startswith("MIG-"):  # a part of a GPU, which the driver lists with it alone
        return Gpu(name=entry, driver=known[0].driver if known else None)
    named = [gpu for gpu in known if gpu.uuid and gpu.uuid.startswith(entry)]  # the beginning is enough
    return named[0] if len(named) == 1 else None


def _load_cuda() -> Any:
    return ctypes.CDLL(_CUDA_LIBRARY)


def _describe(handle: Any, version: str | None) -> Gpu:
    import pynvml

    memory, bus = nvml.ask("nvmlDeviceGetMemoryInfo", handle), nvml.ask("nvmlDeviceGetPciInfo", handle)
    milliwatts = nvml.ask("nvmlDeviceGetEnforcedPowerLimit", handle)
    return Gpu(
        name=_text(nvml.ask("nvmlDeviceGetName", handle)) or "GPU",
        memory_bytes=int(memory.total) if memory else None,
        driver=version,
        clock_mhz=nvml.ask("nvmlDeviceGetMaxClockInfo", handle, pynvml.NVML_CLOCK_SM),
        memory_clock_mhz=nvml.ask("nvmlDeviceGetMaxClockInfo", handle, pynvml.NVML_CLOCK_MEM),
        power_limit_watts=None if milliwatts is None else milliwatts / 1000,
        bus_id=read_address(bus.busId) if bus else None,
        uuid=_text(nvml.ask("nvmlDeviceGetUUID", handle)),
    )


def _text(value: Any) -> str | None:
    """Returns a text of the driver, which older bindings give as bytes."""
    return value.decode() if isinstance(value, bytes) else value
