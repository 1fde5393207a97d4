"""Memory as PyTorch counts it."""

from collections.abc import Sequence

_NO_MEMORY = ("can't allocate memory", "out of memory", "_STATUS_ALLOC_FAILED")  # of a processor, CUDA, its libraries


class GpuPeaks:
    """The largest memory in use on the GPU since it was last reset.

    Args:
        names: "gpu:0", or nothing.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def reset(self) -> None:
        """Begins anew."""
        import torch

        for index, _ in enumerate(self._names):
            torch.cuda.reset_peak_memory_stats(index)

    def read_peaks(self) -> tuple[int, ...]:
        """Returns the bytes of each."""
        import torch

        return tuple(int(torch.cuda.max_memory_allocated(index)) for index, _ in enumerate(self._names))


def watch_gpus(names: Sequence[str]) -> GpuPeaks:
    """Returns what reads the peaks of these GPUs."""
    return GpuPeaks(names)


def explain_exhaustion(error: Exception) -> str | None:
    """Returns what an error says of memory that could not be had; None for an error of another kind."""
    import torch

    says_so = isinstance(error, RuntimeError) and any(sign in str(error) for sign in _NO_MEMORY)
    return str(error) if says_so or isinstance(error, torch.OutOfMemoryError) else None
