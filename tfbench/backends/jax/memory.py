"""Memory as JAX counts it."""

from collections.abc import Sequence

_NO_MEMORY = ("RESOURCE_EXHAUSTED", "CUDA_ERROR_OUT_OF_MEMORY", "_STATUS_ALLOC_FAILED")  # of XLA, CUDA, its libraries


class GpuPeaks:
    """The largest memory in use on the GPU since the process began, which JAX has no way to forget.

    Args:
        names: "gpu:0", ...
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def reset(self) -> None:
        """Does nothing: the peak holds what was in use while the model was built, too."""

    def read_peaks(self) -> tuple[int, ...]:
        """Returns the bytes of each."""
        import jax

        gpus = jax.local_devices(backend="gpu") if self._names else []
        found = [gpus[int(name.partition(":")[2])].memory_stats() or {} for name in self._names]
        peaks = [stats.get("peak_bytes_in_use") for stats in found]
        return tuple(int(peak) for peak in peaks if peak is not None)  # some of JAX's allocators do not count


def watch_gpus(names: Sequence[str]) -> GpuPeaks:
    """Returns what reads the peaks of these GPUs."""
    return GpuPeaks(names)


def explain_exhaustion(error: Exception) -> str | None:
    """Returns what an error says of memory that could not be had; None for an error of another kind."""
    import jax

    says_so = isinstance(error, jax.errors.JaxRuntimeError) and any(sign in str(error) for sign in _NO_MEMORY)
    return str(error) if says_so else None
