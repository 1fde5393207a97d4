from typing import Any

import pytest

from builders import build_epoch, build_placement, build_recipe, build_request, build_result, build_span
from tfbench.analysis.run.curves import MAX_POINTS, RunCurves, find_curves
from tfbench.records.run import ResumePoint
from tfbench.report.run.plots import curve_plots


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
        recipe=build_recipe(cost={"price_per_hour": 3600.0}),
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
    assert found.accuracy_by_cost == ()  # another run paid for a part of the way


def test_accuracy_is_set_against_time_and_against_what_had_been_paid() -> None:
    request = build_request(created=1_700_000_000.0, recipe=build_recipe(cost={"price_per_hour": 360.0}))
    epochs = tuple(
        build_epoch(epoch=n, elapsed_seconds=1.5 * n, val_accuracy=accuracy, finished_at=1_700_000_000.0 + 10 * n)
        for n, accuracy in ((1, 0.75), (2, None), (3, 0.9))
    )
    found = curves_of(request=request, epochs=epochs)
    assert found.accuracy_by_time == ((1.5, 0.75), (4.5, 0.9))
    assert [accuracy for _, accuracy in found.accuracy_by_cost] == [0.75, 0.9]
    assert [cost for cost, _ in found.accuracy_by_cost] == pytest.approx([1.0, 3.0])  # 0.1 a second
    assert curves_of(epochs=epochs).accuracy_by_cost == ()  # without a price


def test_a_run_without_spans_or_epochs_has_no_curves_and_a_long_one_is_thinned_to_what_a_plot_can_show() -> None:
    found = curves_of(spans=(), epochs=())
    assert (found.samples, found.accuracy_by_time, found.accuracy_by_cost) == ((), (), ())
    spans = tuple(build_span(first_step=step, last_step=step, seconds=0.5) for step in range(1, 10_001))
    samples = curves_of(spans=spans, epochs=()).samples
    assert (len(samples) <= MAX_POINTS + 1, samples[-1]) == (True, (5000.0, 320_000.0))


def test_a_panel_is_a_setting_and_a_line_a_setup_and_what_there_is_nothing_of_is_left_out() -> None:
    points = {"accuracy_by_time": ((1.0, 0.5), (2.0, 0.75)), "accuracy_by_cost": ((0.01, 0.5), (0.02, 0.75))}
    runs = [
        RunCurves(
            setup=setup, setting=setting, samples=((0.0, 0.0), (1.0, top)), currency="EUR", is_synthetic=True, **points
        )
        for setting in ("small", "large")
        for setup, top in (("default cpu:0", 100.0), ("mirrored", 200.0))
    ]
    plots = curve_plots(runs, "mnist_mlp")
    assert [plot.name for plot in plots] == ["processed_samples.png", "accuracy_by_time.png", "accuracy_by_cost.png"]
    assert [panel.title for panel in plots[0].panels] == ["small", "large"]
    lines = {one.name: [(x, y) for x, y, *_ in one.points] for one in plots[0].panels[0].series}
    assert lines == {"default cpu:0": [(0.0, 0.0), (1.0, 100.0)], "mirrored": [(0.0, 0.0), (1.0, 200.0)]}
    assert plots[0].y_label == "samples"
    assert "EUR" in plots[2].x_label
    assert {plot.title.splitlines()[1] for plot in plots} == {"mnist_mlp, synthetic data"}
    only_samples = RunCurves(setup="a", setting="", samples=((0.0, 0.0), (1.0, 5.0)))
    assert [plot.name for plot in curve_plots([only_samples], "x")] == ["processed_samples.png"]
    assert curve_plots([], "x") == ()
