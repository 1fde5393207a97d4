import base64
import dataclasses
import itertools
import json
import re
import zlib

import pytest

from builders import build_request, build_result, build_sizes
from kinds import Fields, Golden
from sweeps import BATCHES, TWO_SETUPS, build_limited_plan, build_plan
from tfbench.metrics import CURVE_METRICS, EPOCH_SERIES, LEARNING_METRICS, TRACKED_METRICS
from tfbench.show.figures import SETUP_COLORS
from tfbench.sweeps.plan import Variation
from tfbench.tracking import fields, mlflow_sweep
from tfbench.tracking.mlflow_view import AXES, MAX_TAG_CHARACTERS, OVERVIEW, View, sweep_view
from tfbench.tracking.tracker import Curve

SIZES = Variation(key="model.hidden_units", values=([100], [1000, 1000]))


def read_state(view: View) -> Fields:
    value = json.loads(view.tag[1])
    method, _, packed = value["state"].partition(";")
    assert method == "deflate"
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def build_curve(*sizes: int) -> Curve:
    """Builds a curve over batch sizes."""
    points = {size: dict.fromkeys(CURVE_METRICS, 1.0) for size in sizes}
    return Curve(name="default cpu:0", place=0, over="batch size", points=points, run_ids=())


BOTH = build_limited_plan(5.0, variations=(BATCHES, SIZES))
VIEWS = {
    "overview": OVERVIEW,
    "of_runs": sweep_view(BOTH),
    "of_curves": sweep_view(BOTH, [build_curve(32, 64), build_curve(32)]),
    "of_trainings": sweep_view(build_plan()),
}


def test_the_views_show_what_was_agreed(golden: Golden) -> None:
    states = {name: {"tag": view.tag[0], **read_state(view)} for name, view in VIEWS.items()}
    golden("mlflow_views.json", json.dumps(states, indent=1) + "\n")


@pytest.mark.parametrize("view", VIEWS.values())
def test_a_view_s_tag_fits_and_its_address_names_it(view: View) -> None:
    assert view.tag[0] == f"mlflow.sharedViewState.{view.key}"
    assert len(view.tag[1]) < MAX_TAG_CHARACTERS
    assert view.url("http://127.0.0.1:5000/", "7") == (
        "http://127.0.0.1:5000/#/experiments/7/runs?"
        f"viewStateShareKey={view.key}&compareRunsMode=CHART&workflowType=machine_learning"
    )


@pytest.mark.parametrize("view", VIEWS.values())
def test_every_metric_of_the_view_is_one_that_is_logged(view: View) -> None:
    state = json.dumps(read_state(view))
    keys = re.findall(r'"(?:metricKey|key|selectedXAxisMetricKey)": "([^"]+)"', state)
    columns = re.findall(r"metrics\.`([^`]+)`", " ".join(view.columns))
    logged = {*TRACKED_METRICS, *LEARNING_METRICS, *AXES}
    logged |= {f"by_epoch/{name}" for name in EPOCH_SERIES}
    logged |= {f"by_batch_size/{name}" for name in CURVE_METRICS}
    assert keys and {*keys, *columns} <= logged


def test_what_is_varied_is_named_as_mlflow_has_it() -> None:
    threads = Variation(key="training.intra_op_threads", values=(1, 2))
    single = Variation(key="training.epochs", values=(1,))
    view = sweep_view(build_limited_plan(5.0, variations=(threads, single), setups=TWO_SETUPS[:1]))
    assert read_state(view)["compareRunCharts"][-1]["selectedParams"] == [
        "training.intra_op_threads"
    ]
    assert "params.`training.intra_op_threads`" in view.columns
    assert "params.`training.epochs`" not in view.columns


def test_setups_that_are_usual_differ_in_their_colours() -> None:
    cpu = ("cpu:0",)
    gpu = ("gpu:0",)
    setups = [
        (strategy, devices) for strategy in ("default", "one_device") for devices in (cpu, gpu)
    ]
    setups += [("mirrored", ("cpu:0", "cpu:1")), ("mirrored", ("gpu:0", "gpu:1"))]
    assert len({fields.color_of(*setup, "tensorflow") for setup in setups}) == len(setups)
    assert fields.color_of("another", gpu, "tensorflow") in SETUP_COLORS


@pytest.mark.parametrize("place", range(len(SETUP_COLORS)))
def test_networks_under_one_setup_have_shades_of_its_colour(place: int) -> None:
    shades = [
        mlflow_sweep._color(dataclasses.replace(build_curve(32), place=place, shade=shade))
        for shade in range(4)
    ]
    assert shades[0] == SETUP_COLORS[place]
    for a, b in itertools.combinations(shades, 2):
        assert (
            sum(abs(p - q) for p, q in zip(bytes.fromhex(a[1:]), bytes.fromhex(b[1:]), strict=True))
            > 50
        )


def test_a_run_has_what_the_user_set_of_how_it_is_spread_and_a_network_s_own_optimizer() -> None:
    overrides = ("distribution.strategy", "distribution.cross_device_ops", "measurement.clock")
    model = build_sizes(own_optimizer="AdamW")
    params = fields.params(build_result(request=build_request(overrides=overrides), model=model))
    assert {"strategy", "distribution.cross_device_ops", "measurement.clock"} <= set(params)
    assert "distribution.strategy" not in params
    assert [(name, value) for name, value in params.items() if "optimizer" in name] == [
        ("training.optimizer.name", "AdamW")
    ]
