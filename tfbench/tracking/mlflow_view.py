"""Views that MLflow opens on: which runs, which columns, which charts.

MLflow keeps a shared view as an experiment's tag and opens it when the address names its key. The format is MLflow's
own and not documented; `tests/integration/test_ui_browser.py` looks at the rendered page.
"""

import base64
import dataclasses
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

MAX_TAG_CHARACTERS = 20_000  # of an experiment
MADE_AT = 1_767_225_600_000  # 2026-01-01, ms: constant, so that two processes write the same tag

NUM_PARAMETERS = "summary/log10_num_parameters"
BATCH_SIZE = "summary/log2_global_batch_size"
SPEED = "summary/samples_per_second"
LOG_SPEED = "summary/log10_samples_per_second"

Chart = dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """A view of an experiment's runs.

    `columns` are as MLflow writes them: "params.`strategy`". `search` is a filter as its search takes it.
    """

    key: str  # letters, digits and "_.-"; tells views of an experiment apart
    name: str  # shown above the charts, and in the list of views
    columns: Sequence[str]
    charts: Sequence[Chart]
    search: str = ""
    is_nested: bool = False  # runs below their parents, folded away with their points until somebody opens them
    made_at: int = MADE_AT  # ms since 1970

    @property
    def tag(self) -> tuple[str, str]:
        """The name and value of the experiment's tag."""
        packed = base64.b64encode(zlib.compress(json.dumps(self._state()).encode(), 9)).decode()
        view = {"name": self.name, "createdAt": self.made_at, "updatedAt": self.made_at, "state": f"deflate;{packed}"}
        return f"mlflow.sharedViewState.{self.key}", json.dumps(view)

    def url(self, base: str, experiment_id: str) -> str:
        """Returns the address that opens the view.

        Args:
            base: Of the server, for example "http://127.0.0.1:5000".
            experiment_id: MLflow's id of an experiment that carries the tag.
        """
        # A filter in the address would make MLflow pass the view over; without the workflow it opens on another page.
        query = f"viewStateShareKey={self.key}&compareRunsMode=CHART&workflowType=machine_learning"
        return f"{base.rstrip('/')}/#/experiments/{experiment_id}/runs?{query}"

    def _state(self) -> dict[str, Any]:
        return {
            "searchFilter": self.search,
            # MLflow nests what is ordered by time alone, and shows the fastest first of what is not.
            "orderByKey": "attributes.start_time" if self.is_nested else f"metrics.`{SPEED}`",
            "orderByAsc": self.is_nested,
            "startTime": "ALL",
            "lifecycleFilter": "Active",
            "datasetsFilter": [],
            "modelVersionFilter": "All Runs",
            "selectedColumns": list(self.columns),
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
                    "uuid": self.key,
                    "name": self.name,
                    "display": True,
                    "isReordered": False,
                    "columns": 2,  # of charts; in MLflow's three, axis titles are cut off
                    "cardHeight": 420,  # pixels
                }
            ],
            "compareRunCharts": [
                {
                    "uuid": f"{self.key}-{index}",
                    "metricSectionId": self.key,
                    "deleted": False,
                    "isGenerated": False,
                    "runsCountToCompare": 100,
                    **chart,
                }
                for index, chart in enumerate(self.charts)
            ],
        }


def artifact_link(experiment_id: str, run_id: str, path: str) -> str:
    """Returns what leads to an artifact from within MLflow's pages."""
    return f"#/experiments/{experiment_id}/runs/{run_id}/artifacts/{path}?workflowType=machine_learning"


def metric_axis(name: str) -> dict[str, str]:
    """Returns an axis of a scatter or contour chart that shows a metric."""
    return {"key": name, "type": "METRIC"}


def param_axis(name: str) -> dict[str, str]:
    """Returns an axis of a scatter chart that shows a param."""
    return {"key": name, "type": "PARAM"}


def scatter(x: Mapping[str, str], y: Mapping[str, str]) -> Chart:
    """Returns a chart of a point a run. It has no logarithmic axes: logarithms are logged, too."""
    return {"type": "SCATTER", "xaxis": dict(x), "yaxis": dict(y)}


def contour(x: Mapping[str, str], y: Mapping[str, str], z: Mapping[str, str]) -> Chart:
    """Returns a chart of a figure over two others; of runs that share both, only one is seen."""
    return {"type": "CONTOUR", "xaxis": dict(x), "yaxis": dict(y), "zaxis": dict(z)}


def bars(metric: str) -> Chart:
    """Returns a chart of a bar a run."""
    return {"type": "BAR", "metricKey": metric}


def parallel(params: Sequence[str], metrics: Sequence[str]) -> Chart:
    """Returns a chart of a line a run through its params and metrics, coloured by the last of them."""
    return {"type": "PARALLEL", "selectedParams": list(params), "selectedMetrics": list(metrics), "showAllRuns": True}


def line(metric: str, *, over: str | None = None, scale: str = "linear") -> Chart:
    """Returns a chart of a line a run: a metric of its epochs over their number, or over another metric of theirs."""
    return {
        "type": "LINE",
        "metricKey": metric,
        "selectedMetricKeys": [metric],
        "xAxisKey": "metric" if over else "step",
        "scaleType": scale,
        "lineSmoothness": 0,
        "range": {},
        "selectedXAxisMetricKey": over or "",
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "useGlobalXaxisKey": False,
    }


def curve_chart(metric: str, *, scale: str = "linear") -> Chart:
    """Returns a chart of a line with points a run: a metric over its steps, which are sizes on a logarithmic axis."""
    return line(metric, scale=scale) | {"xAxisScaleType": "log", "displayPoints": True}


# Of all runs of an experiment.
OVERVIEW = View(
    key="tfbench",
    name="Speed by network size and batch size",
    columns=(
        "params.`model.name`",
        "params.`strategy`",
        "params.`devices`",
        "params.`training.backend`",
        "params.`training.global_batch_size`",
        "metrics.`summary/num_parameters`",
        f"metrics.`{SPEED}`",
        "metrics.`summary/epoch_seconds`",
        "metrics.`summary/val_accuracy`",
        "tags.`tfbench.data`",
        "tags.`tfbench.cpu`",
        "tags.`tfbench.hardware`",
    ),
    charts=(
        scatter(metric_axis(NUM_PARAMETERS), metric_axis(LOG_SPEED)),
        scatter(metric_axis(BATCH_SIZE), metric_axis(LOG_SPEED)),
        bars(SPEED),
        line("samples_per_second", scale="log"),
        line("val_accuracy"),
        parallel(
            ("model.name", "strategy", "training.global_batch_size"),
            ("summary/num_parameters", SPEED, "summary/val_accuracy"),
        ),
    ),
)
