import base64
import json
import zlib
from typing import Any

from tfbench.metrics import METRICS
from tfbench.tracking import mlflow_view


def read_state() -> dict[str, Any]:
    value = json.loads(mlflow_view.view_tag()[1])
    method, _, packed = value["state"].partition(";")
    assert method == "deflate"
    state: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(packed)))
    return state


def test_the_tag_and_the_address_name_the_same_view() -> None:
    key, _ = mlflow_view.view_tag()
    url = mlflow_view.view_url("http://127.0.0.1:5000/", "7")
    assert key == f"mlflow.sharedViewState.{mlflow_view.VIEW_KEY}"
    assert url == (
        "http://127.0.0.1:5000/#/experiments/7/runs?"
        f"viewStateShareKey={mlflow_view.VIEW_KEY}&compareRunsMode=CHART&workflowType=machine_learning"
    )


def test_the_tag_fits_and_is_the_same_each_time() -> None:
    assert len(mlflow_view.view_tag()[1]) < mlflow_view.MAX_TAG_CHARACTERS
    assert mlflow_view.view_tag() == mlflow_view.view_tag()


def test_every_chart_is_in_the_section_and_has_an_id_of_its_own() -> None:
    state = read_state()
    sections = {section["uuid"] for section in state["compareRunSections"]}
    charts = state["compareRunCharts"]
    assert {chart["metricSectionId"] for chart in charts} == sections
    assert len({chart["uuid"] for chart in charts}) == len(charts) == 6
    assert [chart["type"] for chart in charts] == ["SCATTER", "SCATTER", "BAR", "LINE", "LINE", "PARALLEL"]


def test_every_metric_of_the_view_is_one_that_is_logged() -> None:
    state = read_state()
    used = {column.split("`")[1] for column in state["selectedColumns"] if column.startswith("metrics.")}
    for chart in state["compareRunCharts"]:
        used |= {chart[axis]["key"] for axis in ("xaxis", "yaxis") if axis in chart}
        used |= {*chart.get("selectedMetrics", ()), *([chart["metricKey"]] if "metricKey" in chart else [])}
    assert {name.removeprefix("summary/") for name in used} <= set(METRICS)
