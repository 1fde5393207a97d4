"""How a run went on over time: samples processed and accuracy reached, against seconds and against money."""

import dataclasses
from collections.abc import Sequence

from tfbench.analysis.run.cost import cost_until
from tfbench.records.run import RunResult

MAX_POINTS = 500  # of a curve: more than a plot can show

Points = tuple[tuple[float, float], ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunCurves:
    """One run under a setting and a setup, as points (x, y); empty where there is nothing to show.

    `samples`: samples processed against seconds since the start of training. `accuracy_by_time` and `accuracy_by_cost`:
    validation accuracy against the same seconds, and against what the run had cost until then.
    """

    setup: str
    setting: str
    samples: Points = ()
    accuracy_by_time: Points = ()
    accuracy_by_cost: Points = ()
    currency: str = ""
    is_synthetic: bool = False


def find_curves(result: RunResult, *, setup: str, setting: str) -> RunCurves:
    """Returns the curves of one run.

    Args:
        result: A run in whatever state.
        setup: What its column is called.
        setting: What its row is called.
    """
    validated = [record for record in result.epochs if record.val_accuracy is not None]
    # What came before a checkpoint that a run went on from was paid for by another run.
    paid = [] if result.request.resume else validated
    costs = [(cost_until(record.finished_at, result), record.val_accuracy) for record in paid]
    return RunCurves(
        setup=setup,
        setting=setting,
        samples=_find_samples(result),
        accuracy_by_time=tuple((record.elapsed_seconds, record.val_accuracy or 0.0) for record in validated),
        accuracy_by_cost=tuple((cost, accuracy or 0.0) for cost, accuracy in costs if cost is not None),
        currency=result.request.recipe.cost.currency,
        is_synthetic=result.is_synthetic,
    )


def _find_samples(result: RunResult) -> Points:
    """Adds up the spans of steps; an epoch begins where the one before it ended, its validation included."""
    if not result.placement or not result.spans:
        return ()
    batch = result.placement.global_batch_size
    ends = {record.epoch: record.elapsed_seconds for record in result.epochs}
    epoch, seconds = result.spans[0].epoch, ends.get(result.spans[0].epoch - 1, 0.0)
    points = [(seconds, float((result.spans[0].first_step - 1) * batch))]
    for span in result.spans:
        if span.epoch != epoch:
            epoch, seconds = span.epoch, max(seconds, ends.get(span.epoch - 1, 0.0))
            points.append((seconds, points[-1][1]))
        seconds += span.seconds
        points.append((seconds, float(span.last_step * batch)))
    return _thin(points)


def _thin(points: Sequence[tuple[float, float]]) -> Points:
    stride = -(-len(points) // MAX_POINTS)
    kept = list(points[::stride])
    return tuple(kept if kept[-1] == points[-1] else [*kept, points[-1]])
