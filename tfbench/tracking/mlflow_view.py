"""The view that MLflow opens on: speed by network size and batch size.

MLflow keeps a shared view as an experiment's tag and opens it when the address names its key. The format is MLflow's
own and not documented; `tests/integration/test_ui_browser.py` looks at the rendered page.
"""

import base64
import json
import zlib
from typing import Any

VIEW_KEY = "tfbench"
VIEW_NAME = "Speed by network size and batch size"
SECTION = "tfbench"
MAX_TAG_CHARACTERS = 20_000  # of an experiment
MADE_AT = 1_767_225_600_000  # 2026-01-01, ms: constant, so that two processes write the same tag

PARALLEL_PARAMS = ("model.name", "strategy", "training.global_batch_size")
PARALLEL_METRICS = ("summary/num_parameters", "summary/samples_per_second", "summary/val_accuracy")
COLUMNS = (
    "params.`model.name`",
    "params.`strategy`",
    "params.`devices`",
    "params.`training.global_batch_size`",
    "metrics.`summary/num_parameters`",
    "metrics.`summary/samples_per_second`",
    "metrics.`summary/epoch_seconds`",
    "metrics.`summary/val_accuracy`",
    "tags.`tfbench.data`",
    "tags.`tfbench.cpu`",
    "tags.`tfbench.hardware`",
)


def view_tag() -> tuple[str, str]:
    """Returns the name and value of the experiment's tag."""
    packed = base64.b64encode(zlib.compress(json.dumps(_state()).encode(), 9)).decode()
    view = {"name": VIEW_NAME, "createdAt": MADE_AT, "updatedAt": MADE_AT, "state": f"deflate;{packed}"}
    return f"mlflow.sharedViewState.{VIEW_KEY}", json.dumps(view)


def view_url(base: str, experiment_id: str) -> str:
    """Returns the address that opens the view.

    Args:
        base: Of the server, for example "http://127.0.0.1:5000".
        experiment_id: MLflow's id of an experiment that carries the tag.
    """
    # A filter in the address would make MLflow pass the view over; without the workflow it opens on another page.
    query = f"viewStateShareKey={VIEW_KEY}&compareRunsMode=CHART&workflowType=machine_learning"
    return f"{base.rstrip('/')}/#/experiments/{experiment_id}/runs?{query}"


def _state() -> dict[str, Any]:
    return {
        "searchFilter": "",
        "orderByKey": "metrics.`summary/samples_per_second`",
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
        "selectedColumns": list(COLUMNS),
        "runsExpanded": {},
        "runsPinned": [],
        "runsHidden": [],
        "runsVisibilityMap": {},
        "runsHiddenMode": "SHOWALL",
        "groupBy": None,
        "viewMaximized": False,
        "runListHidden": False,
        "hideEmptyCharts": True,
        "compareRunsMode": "CHART",
        "isAccordionReordered": True,  # false would sort our section between MLflow's own
        "compareRunSections": [
            {
                "uuid": SECTION,
                "name": SECTION,
                "display": True,
                "isReordered": False,
                "columns": 2,  # of charts; in MLflow's three, axis titles are cut off
                "cardHeight": 420,  # pixels
            }
        ],
        "compareRunCharts": [_chart(index, **chart) for index, chart in enumerate(_charts())],
    }


def _charts() -> list[dict[str, Any]]:
    return [
        _scatter("summary/log10_num_parameters", "summary/log10_samples_per_second"),
        _scatter("summary/log2_global_batch_size", "summary/log10_samples_per_second"),
        {"type": "BAR", "metricKey": "summary/samples_per_second"},
        _line("samples_per_second", scale="log"),
        _line("val_accuracy", scale="linear"),
        {
            "type": "PARALLEL",
            "selectedParams": list(PARALLEL_PARAMS),
            "selectedMetrics": list(PARALLEL_METRICS),
            "showAllRuns": True,
        },
    ]


def _chart(index: int, **chart: Any) -> dict[str, Any]:
    return {
        "uuid": f"{SECTION}-{index}",
        "metricSectionId": SECTION,
        "deleted": False,
        "isGenerated": False,
        "runsCountToCompare": 100,
        **chart,
    }


def _scatter(x: str, y: str) -> dict[str, Any]:
    return {"type": "SCATTER", "xaxis": {"key": x, "type": "METRIC"}, "yaxis": {"key": y, "type": "METRIC"}}


def _line(metric: str, *, scale: str) -> dict[str, Any]:
    return {
        "type": "LINE",
        "metricKey": metric,
        "selectedMetricKeys": [metric],
        "xAxisKey": "step",
        "scaleType": scale,
        "lineSmoothness": 0,
        "range": {},
        "selectedXAxisMetricKey": "",
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "useGlobalXaxisKey": False,
    }
