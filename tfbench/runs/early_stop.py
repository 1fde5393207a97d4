"""When a run has learned enough."""

from collections.abc import Sequence

from tfbench.recipe.sections import TrainingConfig
from tfbench.runs.record import EpochRecord

# an accuracy is a float32: 9,837 of 10,000 is 0.98369998, and reached 0.9837 all the same
_ROUNDING = 1e-7


def find_stop_reason(training: TrainingConfig, epochs: Sequence[EpochRecord]) -> str | None:
    """Says why training should end after the last of `epochs`; None: it should go on.

    Args:
        training: `stop_at_val_accuracy` and `stop_below_error_change`.
        epochs: All epochs so far, in order.
    """
    last = epochs[-1]
    target = training.stop_at_val_accuracy
    if target is not None and reaches(last.val_accuracy, target):
        return (
            f"val_accuracy {last.val_accuracy:.4f} reached training.stop_at_val_accuracy ="
            f" {target:g}"
        )
    threshold = training.stop_below_error_change
    if threshold is None or len(epochs) < 2:
        return None
    before = _training_error(epochs[-2])
    after = _training_error(last)
    if before is None or after is None:
        return None
    change = abs(after - before)
    if change >= threshold:
        return None
    return (
        f"the training error changed by {change:.3g} from epoch {last.epoch - 1} to"
        f" {last.epoch}, less than training.stop_below_error_change = {threshold:g}"
    )


def reaches(accuracy: float | None, target: float) -> bool:
    """Says whether an accuracy is a target's, but for rounding; None: it does not exist."""
    return accuracy is not None and accuracy >= target - _ROUNDING


def _training_error(record: EpochRecord) -> float | None:
    """Returns the loss of the training samples, in inference mode where that was evaluated."""
    return record.loss if record.inference_seconds is None else record.inference_loss
