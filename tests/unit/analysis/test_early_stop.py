"""When training ends before the recipe's epochs are done."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from builders import build_epoch, build_recipe
from prepared import build_prepared
from tfbench.analysis.run.progress import find_stop_reason
from tfbench.recipe.sections import TrainingConfig
from tfbench.records.run import EpochRecord
from tfbench.worker.training import end_epoch


def training(**values: float) -> TrainingConfig:
    return TrainingConfig(global_batch_size=8, epochs=10, **values)


def test_goes_on_where_nothing_was_asked_for() -> None:
    assert find_stop_reason(training(), [build_epoch(val_accuracy=1.0), build_epoch(epoch=2, val_accuracy=1.0)]) is None


@pytest.mark.parametrize(("val_accuracy", "stops"), [(0.7499, False), (0.75, True), (None, False)])
def test_stops_once_the_validation_accuracy_is_reached(val_accuracy: float | None, stops: bool) -> None:
    reason = find_stop_reason(training(stop_at_val_accuracy=0.75), [build_epoch(val_accuracy=val_accuracy)])
    assert (reason == "val_accuracy 0.7500 reached training.stop_at_val_accuracy = 0.75") if stops else reason is None


def test_an_accuracy_is_reached_but_for_the_rounding_of_a_float32() -> None:
    reached = float(np.float32(0.9837))
    assert reached < 0.9837
    assert find_stop_reason(training(stop_at_val_accuracy=0.9837), [build_epoch(val_accuracy=reached)])


@pytest.mark.parametrize(("second", "stops"), [(0.49, False), (0.51, False), (0.5005, True), (None, False)])
def test_stops_once_the_training_error_hardly_changes_either_way(second: float | None, stops: bool) -> None:
    epochs = [build_epoch(loss=0.5), build_epoch(epoch=2, loss=second)]
    reason = find_stop_reason(training(stop_below_error_change=0.001), epochs)
    assert (reason is not None) == stops
    if reason:
        assert reason.startswith("the training error changed by 0.0005 from epoch 1 to 2, less than")


def test_error_in_inference_mode_counts_where_it_was_evaluated() -> None:
    epochs = [
        build_epoch(loss=0.5, inference_loss=0.2, inference_seconds=1.0),
        build_epoch(epoch=2, loss=0.3, inference_loss=0.2, inference_seconds=1.0),
    ]
    assert find_stop_reason(training(stop_below_error_change=1e-8), epochs)
    epochs[1] = build_epoch(epoch=2, loss=0.5, inference_loss=0.1, inference_seconds=1.0)
    assert find_stop_reason(training(stop_below_error_change=1e-8), epochs) is None


def test_first_epoch_has_no_change() -> None:
    assert find_stop_reason(training(stop_below_error_change=1.0), [build_epoch()]) is None


def test_a_run_limited_by_steps_ends_by_these_alone(tmp_path: Path) -> None:
    recipe = build_recipe(training={"stop_below_error_change": 0.5}, output={"checkpoint_every_epochs": 1})
    limited = build_recipe(
        training={"stop_below_error_change": 0.5}, output={"checkpoint_every_epochs": 1}, measurement={"steps": 50}
    )
    stops = {}
    for name, tried in (("whole", recipe), ("limited", limited)):
        model = SimpleNamespace(
            trainable_variables=[], non_trainable_variables=[], layers=[], optimizer=SimpleNamespace(variables=[])
        )
        prepared = build_prepared(tmp_path / name, tried, model=model)
        epochs = list[EpochRecord]()
        stops[name] = [end_epoch(prepared, epochs, build_epoch(epoch=number)) for number in (1, 2)]
        prepared.journal.close()
        assert (tmp_path / name / "run.files").exists() == (name == "whole")
    assert stops == {"whole": [False, True], "limited": [False, False]}
