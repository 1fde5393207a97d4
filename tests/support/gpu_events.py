"""A clock that is not tfbench's, to hold a run's against: CUDA's events, and the host's in a rehearsal."""

import ctypes
import time
from typing import Any


class CudaEvents:
    """CUDA's own events, on the default stream, recorded while the whole device is idle: the GPU's clock, not ours.

    They are of the driver's primary context, which every framework uses, too.
    """

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._do("cuInit", 0)
        self._do("cuDeviceGet", ctypes.byref(device), 0)
        self._do("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._do("cuCtxSetCurrent", context)
        self._events: list[ctypes.c_void_p] = []

    def record(self) -> None:
        """Notes the time once the device has done all that it was given."""
        event = ctypes.c_void_p()
        self._do("cuCtxSynchronize")
        self._do("cuEventCreate", ctypes.byref(event), 0)
        self._do("cuEventRecord", event, None)
        self._do("cuEventSynchronize", event)
        self._events.append(event)

    def seconds(self) -> list[float]:
        """Returns the times between events."""
        found = []
        for first, second in zip(self._events, self._events[1:], strict=False):
            elapsed = ctypes.c_float()
            self._do("cuEventElapsedTime", ctypes.byref(elapsed), first, second)
            found.append(elapsed.value / 1000)
        return found

    def _do(self, name: str, *arguments: Any) -> None:
        if code := getattr(self._cuda, name)(*arguments):
            raise RuntimeError(f"{name}: CUDA error {code}")


class HostEvents:
    """Stands for CUDA's events in a rehearsal."""

    def __init__(self) -> None:
        self._times: list[float] = []

    def record(self) -> None:
        """Notes the time."""
        self._times.append(time.perf_counter())

    def seconds(self) -> list[float]:
        """Returns the times between events."""
        return [after - before for before, after in zip(self._times, self._times[1:], strict=False)]
