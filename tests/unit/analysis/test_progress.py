"""How a run goes on: when it ends before its epochs are done, and its curves."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from builders import build_epoch, build_placement, build_recipe, build_request, build_result, build_span
from prepared import build_prepared
from tfbench.analysis.run.progress import MAX_POINTS, RunCurves, find_curves, find_stop_reason
from tfbench.recipe.sections import TrainingConfig
from tfbench.records.run import EpochRecord, ResumePoint
from tfbench.report.run.curve_plots import curve_plots
from tfbench.worker.training import end_epoch

IN_INFERENCE = {"inference_loss": 0.2, "inference_seconds": 1.0}
TARGET, CHANGE = "stop_at_val_accuracy", "stop_below_error_change"


@pytest.mark.parametrize(
    ("training", "epochs", "reason"),
    [
        ({}, [{"val_accuracy": 1.0}, {"val_accuracy": 1.0}], ""),
        ({TARGET: 0.75}, [{"val_accuracy": 0.7499}], ""),
        ({TARGET: 0.75}, [{"val_accuracy": 0.75}], "val_accuracy 0.7500 reached training.stop_at_val_accuracy = 0.75"),
        ({TARGET: 0.75}, [{"val_accuracy": None}], ""),
        ({TARGET: 0.9837}, [{"val_accuracy": 0.9836999773979187}], "val_accuracy 0.9837"),  # rounded to float32
        ({CHANGE: 0.001}, [{"loss": 0.5}, {"loss": 0.49}], ""),
        ({CHANGE: 0.001}, [{"loss": 0.5}, {"loss": 0.51}], ""),
        (
            {CHANGE: 0.001},
            [{"loss": 0.5}, {"loss": 0.5005}],
            "the training error changed by 0.0005 from epoch",
        ),
        ({CHANGE: 0.001}, [{"loss": 0.5}, {"loss": None}], ""),
        ({CHANGE: 1.0}, [{"loss": 0.5}], ""),
        # The error in inference mode counts where it was evaluated.
        (
            {CHANGE: 1e-8},
            [{"loss": 0.5} | IN_INFERENCE, {"loss": 0.3} | IN_INFERENCE],
            "the training error changed by",
        ),
        ({CHANGE: 1e-8}, [{"loss": 0.5} | IN_INFERENCE, {"loss": 0.5} | IN_INFERENCE | {"inference_loss": 0.1}], ""),
    ],
)
def test_training_ends_where_what_was_asked_for_is_reached(
    training: dict[str, float], epochs: list[dict[str, float | None]], reason: str
) -> None:
    config = TrainingConfig(global_batch_size=8, epochs=10, **training)
    records = [build_epoch(epoch=number, **fields) for number, fields in enumerate(epochs, start=1)]
    found = find_stop_reason(config, records) or ""
    assert found.startswith(reason) and bool(found) == bool(reason)


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


def curves_of(**fields: Any) -> RunCurves:
    return find_curves(build_result(**fields), setup="default cpu:0", setting="global_batch_size=32")


def test_samples_are_added_up_and_validation_is_a_time_without_any() -> None:
    spans = [(1, 1, 1, 2.0), (1, 2, 10, 1.0), (2, 11, 20, 1.0)]
    found = curves_of(
        spans=tuple(build_span(epoch=e, first_step=first, last_step=last, seconds=s) for e, first, last, s in spans),
        epochs=(build_epoch(epoch=1, elapsed_seconds=3.5), build_epoch(epoch=2, elapsed_seconds=5.0)),
        placement=build_placement(global_batch_size=8),
    )
    assert found.samples == ((0.0, 0.0), (2.0, 8.0), (3.0, 80.0), (3.5, 80.0), (4.5, 160.0))


def test_a_run_that_went_on_from_a_checkpoint_begins_where_the_other_ended() -> None:
    before = build_epoch(epoch=1, elapsed_seconds=7.0, val_accuracy=0.5)
    request = build_request(
        resume=ResumePoint(run_id="b", checkpoint="epoch_1.npz", epochs=(before,)),
    )
    found = curves_of(
        request=request,
        spans=(build_span(epoch=2, first_step=11, last_step=20, seconds=1.0),),
        epochs=(before, build_epoch(epoch=2, elapsed_seconds=8.5, val_accuracy=0.75)),
        placement=build_placement(global_batch_size=8),
    )
    assert found.samples == ((7.0, 80.0), (8.0, 160.0))
    assert found.accuracy_by_time == ((7.0, 0.5), (8.5, 0.75))


def test_accuracy_is_set_against_time() -> None:
    accuracies = ((1, 0.75), (2, None), (3, 0.9))
    epochs = tuple(build_epoch(epoch=n, elapsed_seconds=1.5 * n, val_accuracy=accuracy) for n, accuracy in accuracies)
    assert curves_of(epochs=epochs).accuracy_by_time == ((1.5, 0.75), (4.5, 0.9))


def test_a_run_without_spans_or_epochs_has_no_curves_and_a_long_one_is_thinned_to_what_a_plot_can_show() -> None:
    found = curves_of(spans=(), epochs=())
    assert (found.samples, found.accuracy_by_time) == ((), ())
    spans = tuple(build_span(first_step=step, last_step=step, seconds=0.5) for step in range(1, 10_001))
    samples = curves_of(spans=spans, epochs=()).samples
    assert (len(samples) <= MAX_POINTS + 1, samples[-1]) == (True, (5000.0, 320_000.0))


def test_a_panel_is_a_setting_and_a_line_a_setup_and_what_there_is_nothing_of_is_left_out() -> None:
    points = {"accuracy_by_time": ((1.0, 0.5), (2.0, 0.75))}
    runs = [
        RunCurves(setup=setup, setting=setting, samples=((0.0, 0.0), (1.0, top)), is_synthetic=True, **points)
        for setting in ("small", "large")
        for setup, top in (("default cpu:0", 100.0), ("mirrored", 200.0))
    ]
    plots = curve_plots(runs, "mnist_mlp")
    assert [plot.name for plot in plots] == ["processed_samples.png", "accuracy_by_time.png"]
    assert [panel.title for panel in plots[0].panels] == ["small", "large"]
    lines = {one.name: [(x, y) for x, y, *_ in one.points] for one in plots[0].panels[0].series}
    assert lines == {"default cpu:0": [(0.0, 0.0), (1.0, 100.0)], "mirrored": [(0.0, 0.0), (1.0, 200.0)]}
    assert plots[0].y_label == "samples"
    assert {plot.title.splitlines()[1] for plot in plots} == {"mnist_mlp, synthetic data"}
    only_samples = RunCurves(setup="a", setting="", samples=((0.0, 0.0), (1.0, 5.0)))
    assert [plot.name for plot in curve_plots([only_samples], "x")] == ["processed_samples.png"]
    assert curve_plots([], "x") == ()
