"""What the fastest settings, found before a run, are worth in it."""

from collections.abc import Mapping
from typing import Any

from tfbench.records.fast import read_fast
from tfbench.records.run import RunRequest
from tfbench.report.comparison.references import format_ratio
from tfbench.report.formats import format_speed


def fast_pairs(request: RunRequest, metrics: Mapping[str, float | None]) -> list[tuple[str, str]]:
    """Returns the speed of a run's recipe as it is, and by which settings the run is how much faster than that.

    Nothing for a run that was made without trial.
    """
    fast, speed = read_fast(request), metrics.get("samples_per_second")
    if fast is None:
        return []
    pairs = [("without fast", f"{format_speed(fast.as_asked)} samples/s: the recipe as it is, in a short run before")]
    settings = ", ".join(f"training.{key}={str(value).lower()}" for key, value in fast.settings.items())
    if not settings:
        return [*pairs, ("fast", "no setting that was tried is faster, so that this run has the recipe's own")]
    return [*pairs, ("fast", f"{format_ratio(speed / fast.as_asked)} times that, by {settings}" if speed else settings)]


def describe_fast(request: RunRequest, metrics: Mapping[str, float | None]) -> dict[str, Any] | None:
    """Returns the same for scripts; None for a run that was made without trial."""
    fast, speed = read_fast(request), metrics.get("samples_per_second")
    if fast is None:
        return None
    return {
        "samples_per_second_as_asked": fast.as_asked,
        "speedup": speed / fast.as_asked if speed and fast.settings else None,
        "settings": {f"training.{key}": value for key, value in fast.settings.items()},
    }
