"""When a run has learned enough."""

from collections.abc import Sequence

from tfbench.recipe.sections import TrainingConfig
from tfbench.records.run import EpochRecord

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
    threshold = training.stop_below_error_change
    if target is not None and reaches(last.val_accuracy, target):
        return (
            f"val_accuracy {last.val_accuracy:.4f} reached training.stop_at_val_accuracy ="
            f" {target:g}"
        )
    errors = [error for record in epochs[-2:] if (error := _training_error(record)) is not None]
    if (
        threshold is not None
        and len(errors) == 2
        and (change := abs(errors[1] - errors[0])) < threshold
    ):
        return (
            f"the training error changed by {change:.3g} from epoch {last.epoch - 1} to"
            f" {last.epoch}, less than training.stop_below_error_change = {threshold:g}"
        )
    return None


def reaches(accuracy: float | None, target: float) -> bool:
    """Says whether an accuracy is a target's, but for rounding; None: it does not exist."""
    return accuracy is not None and accuracy >= target - _ROUNDING


def _training_error(record: EpochRecord) -> float | None:
    """Returns the loss of the training samples, in inference mode where that was evaluated."""
    return record.loss if record.inference_seconds is None else record.inference_loss
