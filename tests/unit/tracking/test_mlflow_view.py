import base64
import dataclasses
import itertools
import json
import zlib
from typing import Any

import pytest

from builders import build_request, build_result
from sweeps import BATCHES, TWO_SETUPS, build_limited_plan, build_plan
from tfbench.metrics import CURVE_METRICS, EPOCH_SERIES, LEARNING_METRICS, TRACKED_METRICS
from tfbench.records.run import ModelSummary
from tfbench.records.sweep import SweepPlan, Variation
from tfbench.report.figures import SETUP_COLORS
from tfbench.tracking import fields, mlflow_sweep
from tfbench.tracking.mlflow_view import AXES, MAX_TAG_CHARACTERS, OVERVIEW, View, sweep_view
from tfbench.tracking.tracker import Curve

SIZES = Variation(key="model.hidden_units", values=([100], [1000, 1000]))
BATCH, PARAMETERS, SPEED = "batch size as log2", "parameters as log10", "samples per second as log10"
Axes = list[tuple[str, ...]]


def read_state(view: View) -> dict[str, Any]:
    value = json.loads(view.tag[1])
    method, _, packed = value["state"].partition(";")
    assert method == "deflate"
    state: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(packed)))
    return state


def axes_of(view: View, kind: str) -> Axes:
    """Returns the axes of the view's charts of a kind."""
    names = ("xaxis", "yaxis", "zaxis")
    charts = [chart for chart in read_state(view)["compareRunCharts"] if chart["type"] == kind]
    return [tuple(chart[name]["key"] for name in names if name in chart) for chart in charts]


def build_timed_plan(**values: Any) -> SweepPlan:
    """Builds a plan of five seconds a run."""
    return build_limited_plan(5.0, **values)


BOTH = build_timed_plan(variations=(BATCHES, SIZES))
VIEWS = (OVERVIEW, sweep_view(BOTH), sweep_view(build_plan()))


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_s_tag_fits_and_its_address_names_it(view: View) -> None:
    assert view.tag[0] == f"mlflow.sharedViewState.{view.key}"
    assert len(view.tag[1]) < MAX_TAG_CHARACTERS
    assert view.url("http://127.0.0.1:5000/", "7") == (
        "http://127.0.0.1:5000/#/experiments/7/runs?"
        f"viewStateShareKey={view.key}&compareRunsMode=CHART&workflowType=machine_learning"
    )


@pytest.mark.parametrize("view", VIEWS)
def test_every_metric_of_the_view_is_one_that_is_logged(view: View) -> None:
    state = read_state(view)
    used = {column.split("`")[1] for column in state["selectedColumns"] if column.startswith("metrics.")}
    of_epochs = set()
    for chart in state["compareRunCharts"]:
        axes = [chart[axis] for axis in ("xaxis", "yaxis", "zaxis") if axis in chart]
        used |= {axis["key"] for axis in axes if axis["type"] == "METRIC"}
        used |= {*chart.get("selectedMetrics", ()), *([chart["metricKey"]] if chart["type"] == "BAR" else [])}
        of_epochs |= {chart["metricKey"], chart["selectedXAxisMetricKey"]} - {""} if chart["type"] == "LINE" else set()
    assert used <= {*TRACKED_METRICS, *LEARNING_METRICS, *AXES}
    assert of_epochs <= {*LEARNING_METRICS, *(f"by_epoch/{name}" for name in EPOCH_SERIES)}


def test_the_overview_shows_all_runs_by_both_sizes() -> None:
    assert read_state(OVERVIEW)["searchFilter"] == "tags.`tfbench.run_id` LIKE '%'"
    assert axes_of(OVERVIEW, "SCATTER") == [(PARAMETERS, SPEED), (BATCH, SPEED)]


def test_the_view_of_a_sweep_shows_its_runs_alone_and_answers_its_question() -> None:
    view = sweep_view(BOTH)
    state = read_state(view)
    assert (view.key, view.name) == ("tfbench-sweep-abc", "Sweep abc of test")
    assert state["searchFilter"] == "tags.`tfbench.sweep` = 'abc'"
    assert state["selectedColumns"] == [
        "params.`setup`",
        "params.`global_batch_size`",
        "params.`model.hidden_units`",
        "tags.`tfbench.round`",
        "tags.`tfbench.result`",
    ]
    kinds = [chart["type"] for chart in state["compareRunCharts"]]
    assert kinds == ["BAR", "PARALLEL"]
    parallel = state["compareRunCharts"][-1]
    assert parallel["selectedParams"] == ["setup", "global_batch_size", "model.hidden_units"]
    assert parallel["selectedMetrics"] == ["samples_per_second"]


def test_what_is_varied_is_named_as_mlflow_has_it() -> None:
    threads = Variation(key="threads", values=(1, 2))
    single = Variation(key="training.epochs", values=(1,))
    view = sweep_view(build_timed_plan(variations=(threads, single), setups=TWO_SETUPS[:1]))
    assert read_state(view)["compareRunCharts"][-1]["selectedParams"] == ["training.intra_op_threads"]
    assert "params.`training.intra_op_threads`" in view.columns
    assert "params.`training.epochs`" not in view.columns


def test_only_a_sweep_of_whole_trainings_has_curves_of_learning() -> None:
    assert "LINE" not in str(read_state(sweep_view(build_timed_plan())))
    charts = read_state(sweep_view(build_plan()))["compareRunCharts"]
    lines = [(chart["selectedXAxisMetricKey"], chart["metricKey"]) for chart in charts if chart["type"] == "LINE"]
    assert lines == [("by_epoch/elapsed_seconds", "val_accuracy"), ("by_epoch/elapsed_seconds", "val_loss")]


def test_setups_that_are_usual_differ_in_their_colours() -> None:
    cpu, gpu = (tuple(f"{kind}:{index}" for index in range(16)) for kind in ("cpu", "gpu"))
    setups = [("default", cpu[:1]), ("default", gpu[:1]), ("one_device", cpu[:1]), ("one_device", gpu[:1])]
    setups += [("mirrored", cpu[:2]), ("mirrored", gpu[:2])]
    assert len({fields.color_of(*setup, "tensorflow") for setup in setups}) == len(setups)
    assert fields.color_of("another", gpu, "tensorflow") in SETUP_COLORS


def build_curve(*sizes: int, names: tuple[str, ...] = tuple(CURVE_METRICS)) -> Curve:
    """Builds a curve over batch sizes."""
    points = {size: dict.fromkeys(names, 1.0) for size in sizes}
    return Curve(name="default cpu:0", place=0, over="batch size", points=points, run_ids=())


def test_the_curves_of_a_sweep_come_first_with_its_runs_folded_below_them() -> None:
    state = read_state(sweep_view(BOTH, [build_curve(32, 64), build_curve(32)]))
    charts = [(chart["type"], chart.get("selectedMetricKeys")) for chart in state["compareRunCharts"][:3]]
    speed, *ratios = [f"by_batch_size/{name}" for name in CURVE_METRICS]
    assert charts == [("LINE", [speed]), ("LINE", ratios), ("BAR", None)]
    assert [section["display"] for section in state["compareRunSections"]] == [True, False]
    assert (state["orderByKey"], state["orderByAsc"]) == ("attributes.start_time", True)
    assert read_state(sweep_view(BOTH))["orderByKey"] == "metrics.`samples_per_second`"


@pytest.mark.parametrize("place", range(len(SETUP_COLORS)))
def test_networks_under_one_setup_have_shades_of_its_colour(place: int) -> None:
    shades = [mlflow_sweep._color(dataclasses.replace(build_curve(32), place=place, shade=shade)) for shade in range(4)]
    assert shades[0] == SETUP_COLORS[place]
    for a, b in itertools.combinations(shades, 2):
        assert sum(abs(p - q) for p, q in zip(bytes.fromhex(a[1:]), bytes.fromhex(b[1:]), strict=True)) > 50


def test_a_run_has_what_the_user_set_of_how_it_is_spread_and_a_network_s_own_optimizer() -> None:
    overrides = ("distribution.strategy", "distribution.cross_device_ops", "measurement.clock")
    model = ModelSummary(num_parameters=10, num_trainable_parameters=10, own_optimizer="AdamW")
    params = fields.params(build_result(request=build_request(overrides=overrides), model=model))
    assert {"strategy", "distribution.cross_device_ops", "measurement.clock"} <= set(params)
    assert "distribution.strategy" not in params
    assert [(name, value) for name, value in params.items() if "optimizer" in name] == [
        ("training.optimizer.name", "AdamW")
    ]
