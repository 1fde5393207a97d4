"""Memory as TensorFlow counts it."""

from collections.abc import Sequence

_COPY_TO_A_FULL_GPU = "Dst tensor is not initialized"  # what an InternalError says of it


class GpuPeaks:
    """The largest memory in use on GPUs since it was last reset.

    Args:
        names: As TensorFlow numbers them: "GPU:0".
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def reset(self) -> None:
        """Begins anew."""
        if self._names:
            import tensorflow as tf

            for name in self._names:
                tf.config.experimental.reset_memory_stats(name)

    def read_peaks(self) -> tuple[int, ...]:
        """Returns the bytes of each."""
        if not self._names:
            return ()
        import tensorflow as tf

        return tuple(int(tf.config.experimental.get_memory_info(name)["peak"]) for name in self._names)


def watch_gpus(names: Sequence[str]) -> GpuPeaks:
    """Returns what reads the peaks of these GPUs, "GPU:0" and so on."""
    return GpuPeaks(names)


def explain_exhaustion(error: Exception) -> str | None:
    """Returns what an error says of memory that could not be had; None for an error of another kind."""
    import tensorflow as tf

    is_exhausted = isinstance(error, tf.errors.ResourceExhaustedError)
    is_copy = isinstance(error, tf.errors.InternalError) and _COPY_TO_A_FULL_GPU in str(error)
    return str(getattr(error, "message", error)) if is_exhausted or is_copy else None
