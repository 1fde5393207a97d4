"""How a run went on: when it has learned enough, and its samples and accuracy over time."""

import dataclasses
from collections.abc import Sequence

from tfbench.recipe.sections import TrainingConfig
from tfbench.records.run import EpochRecord, RunResult

MAX_POINTS = 500  # of a curve: more than a plot can show
_ROUNDING = 1e-7  # an accuracy is a float32: 9,837 of 10,000 is 0.98369998, and reached 0.9837 all the same

Points = tuple[tuple[float, float], ...]


def find_stop_reason(training: TrainingConfig, epochs: Sequence[EpochRecord]) -> str | None:
    """Says why training should end after the last of `epochs`; None: it should go on.

    Args:
        training: `stop_at_val_accuracy` and `stop_below_error_change`.
        epochs: All epochs so far, in order.
    """
    last = epochs[-1]
    target, threshold = training.stop_at_val_accuracy, training.stop_below_error_change
    if target is not None and reaches(last.val_accuracy, target):
        return f"val_accuracy {last.val_accuracy:.4f} reached training.stop_at_val_accuracy = {target:g}"
    errors = [_training_error(record) for record in epochs[-2:]]
    if threshold is not None and len(errors) == 2 and None not in errors:
        change = abs((errors[1] or 0.0) - (errors[0] or 0.0))
        if change < threshold:
            return (
                f"the training error changed by {change:.3g} from epoch {last.epoch - 1} to {last.epoch}, less than "
                f"training.stop_below_error_change = {threshold:g}"
            )
    return None


def reaches(accuracy: float | None, target: float) -> bool:
    """Says whether an accuracy is a target's, but for rounding; None: it does not exist."""
    return accuracy is not None and accuracy >= target - _ROUNDING


def _training_error(record: EpochRecord) -> float | None:
    """Returns the loss of the training samples, in inference mode where that was evaluated."""
    return record.loss if record.inference_seconds is None else record.inference_loss


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunCurves:
    """One run under a setting and a setup, as points (x, y); empty where there is nothing to show.

    `samples`: samples processed against seconds since the start of training. `accuracy_by_time`:
    validation accuracy against the same seconds.
    """

    setup: str
    setting: str
    samples: Points = ()
    accuracy_by_time: Points = ()
    is_synthetic: bool = False


def find_curves(result: RunResult, *, setup: str, setting: str) -> RunCurves:
    """Returns the curves of one run.

    Args:
        result: A run in whatever state.
        setup: What its column is called.
        setting: What its row is called.
    """
    validated = [record for record in result.epochs if record.val_accuracy is not None]
    return RunCurves(
        setup=setup,
        setting=setting,
        samples=_find_samples(result),
        accuracy_by_time=tuple((record.elapsed_seconds, record.val_accuracy or 0.0) for record in validated),
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
