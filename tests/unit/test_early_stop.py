"""When training ends before the recipe's epochs are done."""

import pytest

from builders import build_epoch
from tfbench.measure.early_stop import find_stop_reason
from tfbench.recipe import TrainingConfig


def training(**values: float) -> TrainingConfig:
    return TrainingConfig(global_batch_size=8, epochs=10, **values)


def test_goes_on_where_nothing_was_asked_for() -> None:
    assert find_stop_reason(training(), [build_epoch(val_accuracy=1.0), build_epoch(epoch=2, val_accuracy=1.0)]) is None


@pytest.mark.parametrize(("val_accuracy", "stops"), [(0.7499, False), (0.75, True), (None, False)])
def test_stops_once_the_validation_accuracy_is_reached(val_accuracy: float | None, stops: bool) -> None:
    reason = find_stop_reason(training(stop_at_val_accuracy=0.75), [build_epoch(val_accuracy=val_accuracy)])
    assert (reason == "val_accuracy 0.7500 reached training.stop_at_val_accuracy = 0.75") if stops else reason is None


@pytest.mark.parametrize(("second", "stops"), [(0.91, False), (0.89, False), (0.9005, True), (None, False)])
def test_stops_once_the_training_error_hardly_changes_either_way(second: float | None, stops: bool) -> None:
    epochs = [build_epoch(accuracy=0.9), build_epoch(epoch=2, accuracy=second)]
    reason = find_stop_reason(training(stop_below_error_change=0.001), epochs)
    assert (reason is not None) == stops
    if reason:
        assert reason.startswith("the training error changed by 0.0005 from epoch 1 to 2, less than")


def test_error_in_inference_mode_counts_where_it_was_evaluated() -> None:
    epochs = [
        build_epoch(accuracy=0.5, inference_accuracy=0.9, inference_seconds=1.0),
        build_epoch(epoch=2, accuracy=0.8, inference_accuracy=0.9, inference_seconds=1.0),
    ]
    assert find_stop_reason(training(stop_below_error_change=1e-8), epochs)


def test_loss_is_the_error_of_a_regression() -> None:
    epochs = [build_epoch(epoch=n, accuracy=None, val_accuracy=None, loss=loss) for n, loss in ((1, 0.5), (2, 0.4))]
    assert find_stop_reason(training(stop_below_error_change=0.2), epochs)
    assert find_stop_reason(training(stop_below_error_change=0.05), epochs) is None


def test_first_epoch_has_no_change() -> None:
    assert find_stop_reason(training(stop_below_error_change=1.0), [build_epoch()]) is None
