"""Views that MLflow opens on: which runs, which columns, which charts.

MLflow keeps a shared view as an experiment's tag and opens it when the address names its key. The format is MLflow's
own and not documented; `tests/integration/test_ui_browser.py` looks at the rendered page.
"""

import base64
import dataclasses
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

MAX_TAG_CHARACTERS = 20_000  # of an experiment
MADE_AT = 1_767_225_600_000  # 2026-01-01, ms: constant, so that two processes write the same tag

SPEED = "samples_per_second"
# Of which metric each is: MLflow's scatter charts have no logarithmic axes.
NUM_PARAMETERS, BATCH_SIZE, LOG_SPEED = "parameters as log10", "batch size as log2", "samples per second as log10"
AXES = {
    NUM_PARAMETERS: ("num_parameters", math.log10),
    BATCH_SIZE: ("global_batch_size", math.log2),
    LOG_SPEED: (SPEED, math.log10),
}
RESULT_TAG = "tfbench.result"  # what came out, in words, of a run or of a setup of a sweep

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
    wide_charts: Sequence[Chart] = ()  # before these, which are folded away then
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
        sections = self._sections()
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
            "compareRunSections": [section for section, _ in sections],
            "compareRunCharts": [
                {
                    "uuid": f"{section['uuid']}-{index}",
                    "metricSectionId": section["uuid"],
                    "deleted": False,
                    "isGenerated": False,
                    "runsCountToCompare": 100,
                    **chart,
                }
                for section, charts in sections
                for index, chart in enumerate(charts)
            ],
        }

    def _sections(self) -> list[tuple[dict[str, Any], Sequence[Chart]]]:
        """Returns sections of the page with their charts: legends need the width, which names of setups fill."""
        common = {"isReordered": False, "cardHeight": 420}  # pixels
        small = {"uuid": self.key, "columns": 2, **common}  # in MLflow's three, axis titles are cut off
        if not self.wide_charts:
            return [({**small, "name": self.name, "display": True}, self.charts)]
        wide = {"uuid": f"{self.key}-wide", "columns": 1, **common, "name": self.name, "display": True}
        rest = {**small, "name": "Single runs: unfold them in the list", "display": False}  # empty until then
        return [(wide, self.wide_charts), (rest, self.charts)]


def metric_axis(name: str) -> dict[str, str]:
    """Returns an axis of a scatter or contour chart that shows a metric."""
    return {"key": name, "type": "METRIC"}


def param_axis(name: str) -> dict[str, str]:
    """Returns an axis of a scatter chart that shows a param."""
    return {"key": name, "type": "PARAM"}


def scatter(x: Mapping[str, str], y: Mapping[str, str]) -> Chart:
    """Returns a chart of a point a run. It has no logarithmic axes: logarithms are logged, too."""
    return {"type": "SCATTER", "xaxis": dict(x), "yaxis": dict(y)}


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


def curve_chart(*metrics: str) -> Chart:
    """Returns a chart of a line with points a run and metric, over steps that are sizes; both axes are logarithmic."""
    return line(metrics[0], scale="log") | {
        "selectedMetricKeys": list(metrics),
        "xAxisScaleType": "log",
        "displayPoints": True,
    }


# Of all runs of an experiment.
OVERVIEW = View(
    key="tfbench",
    name="Speed by network size and batch size",
    columns=(
        "params.`model.name`",
        "params.`setup`",
        "params.`global_batch_size`",
        "metrics.`num_parameters`",
        f"metrics.`{SPEED}`",
        "metrics.`epoch_seconds`",
        "metrics.`val_accuracy`",
        "tags.`tfbench.data`",
        "tags.`tfbench.hardware`",
    ),
    search="tags.`tfbench.run_id` LIKE '%'",  # not setups of sweeps, which have none of this
    charts=(
        scatter(metric_axis(NUM_PARAMETERS), metric_axis(LOG_SPEED)),
        scatter(metric_axis(BATCH_SIZE), metric_axis(LOG_SPEED)),
        bars(SPEED),
        line("by_epoch/samples_per_second", scale="log"),
        line("val_accuracy"),
        parallel(("model.name", "setup", "global_batch_size"), ("num_parameters", SPEED, "val_accuracy")),
    ),
)
