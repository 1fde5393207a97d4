"""What the fastest settings, found before a run, are worth in it."""

from collections.abc import Mapping

from tfbench.records.fast import FAST_KEYS, speed_as_asked
from tfbench.records.run import RunResult
from tfbench.report.comparison.references import format_ratio
from tfbench.report.formats import format_speed


def fast_pairs(result: RunResult, metrics: Mapping[str, float | None]) -> list[tuple[str, str]]:
    """Returns how a run's speed stands to that of its recipe as it is, and by which settings; nothing without trial."""
    as_asked = speed_as_asked(result.request)
    if as_asked is None:
        return []
    request, speed = result.request, metrics.get("samples_per_second")
    changed = [key for key in FAST_KEYS if f"training.{key}" in request.overrides]
    settings = ", ".join(f"{key}={str(getattr(request.recipe.training, key)).lower()}" for key in changed)
    before = f"({format_speed(as_asked)} samples/s, in one short run before)"
    ratio = f"{format_ratio(speed / as_asked)} times the recipe as it is" if speed else "beside the recipe as it is"
    return [("fast", f"{ratio} {before}: {settings or 'nothing that was tried is faster'}")]
