"""Views that MLflow opens on: which runs, which columns, which charts.

MLflow keeps a shared view as an experiment's tag and opens it when the address names its key. The
format is MLflow's own and not documented; `tests/integration/test_ui_browser.py` looks at the
rendered page.
"""

import base64
import dataclasses
import json
import math
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfbench.metrics import CURVE_METRICS, curve_metric
from tfbench.records.sweep import BATCH_KEY, SweepPlan
from tfbench.tags import DATA_TAG, HARDWARE_TAG, RESULT_TAG, ROUND_TAG, RUN_TAG, SWEEP_TAG

if TYPE_CHECKING:
    from tfbench.tracking.tracker import Curve

MAX_TAG_CHARACTERS = 20_000  # of an experiment
MADE_AT = 1_767_225_600_000  # 2026-01-01, ms: constant, so that two processes write the same tag

SPEED = "samples_per_second"
# Of which metric each is: MLflow's scatter charts have no logarithmic axes.
NUM_PARAMETERS = "parameters as log10"
BATCH_SIZE = "batch size as log2"
LOG_SPEED = "samples per second as log10"
AXES = {
    NUM_PARAMETERS: ("num_parameters", math.log10),
    BATCH_SIZE: ("global_batch_size", math.log2),
    LOG_SPEED: (SPEED, math.log10),
}

Chart = dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """A view of an experiment's runs.

    `columns` are as MLflow writes them: "params.`strategy`". `search` is a filter as its search
    takes it.
    """

    key: str  # letters, digits and "_.-"; tells views of an experiment apart
    name: str  # shown above the charts, and in the list of views
    columns: Sequence[str]
    charts: Sequence[Chart]
    wide_charts: Sequence[Chart] = ()  # before these, which are folded away then
    search: str = ""
    # runs below their parents, folded away with their points until somebody opens them
    is_nested: bool = False
    made_at: int = MADE_AT  # ms since 1970

    @property
    def tag(self) -> tuple[str, str]:
        """The name and value of the experiment's tag."""
        packed = base64.b64encode(zlib.compress(json.dumps(self._state()).encode(), 9)).decode()
        view = {
            "name": self.name,
            "createdAt": self.made_at,
            "updatedAt": self.made_at,
            "state": f"deflate;{packed}",
        }
        return f"mlflow.sharedViewState.{self.key}", json.dumps(view)

    def url(self, base: str, experiment_id: str) -> str:
        """Returns the address that opens the view.

        Args:
            base: Of the server, for example "http://127.0.0.1:5000".
            experiment_id: MLflow's id of an experiment that carries the tag.
        """
        # A filter in the address would make MLflow pass the view over; without the workflow it
        # opens on another page.
        query = f"viewStateShareKey={self.key}&compareRunsMode=CHART&workflowType=machine_learning"
        return f"{base.rstrip('/')}/#/experiments/{experiment_id}/runs?{query}"

    def _state(self) -> dict[str, Any]:
        sections = self._sections()
        return {
            "searchFilter": self.search,
            # MLflow nests what is ordered by time alone, and shows the fastest first of what is
            # not.
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
        """Returns sections of the page with their charts.

        Legends need the width, which names of setups fill.
        """
        common = {"isReordered": False, "cardHeight": 420}  # pixels
        small = {
            "uuid": self.key,
            "columns": 2,
            **common,
        }  # in MLflow's three, axis titles are cut off
        if not self.wide_charts:
            return [({**small, "name": self.name, "display": True}, self.charts)]
        wide = {
            "uuid": f"{self.key}-wide",
            "columns": 1,
            **common,
            "name": self.name,
            "display": True,
        }
        rest = {
            **small,
            "name": "Single runs: unfold them in the list",
            "display": False,
        }  # empty until then
        return [(wide, self.wide_charts), (rest, self.charts)]


def scatter(x: str, y: str) -> Chart:
    """Returns a chart of a point a run over two metrics. It has no logarithmic axes.

    Logarithms are logged, too.
    """
    return {
        "type": "SCATTER",
        "xaxis": {"key": x, "type": "METRIC"},
        "yaxis": {"key": y, "type": "METRIC"},
    }


def bars(metric: str) -> Chart:
    """Returns a chart of a bar a run."""
    return {"type": "BAR", "metricKey": metric}


def parallel(params: Sequence[str], metrics: Sequence[str]) -> Chart:
    """Returns a parallel-coordinates chart of runs over params and metrics.

    There is a line for each run, coloured by the last metric.
    """
    return {
        "type": "PARALLEL",
        "selectedParams": list(params),
        "selectedMetrics": list(metrics),
        "showAllRuns": True,
    }


def line(metric: str, *, over: str | None = None, scale: str = "linear") -> Chart:
    """Returns a chart of a line a run.

    A metric of its epochs over their number, or over another metric of theirs.
    """
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
        f"tags.`{DATA_TAG}`",
        f"tags.`{HARDWARE_TAG}`",
    ),
    search=f"tags.`{RUN_TAG}` LIKE '%'",  # not setups of sweeps, which have none of this
    charts=(
        scatter(NUM_PARAMETERS, LOG_SPEED),
        scatter(BATCH_SIZE, LOG_SPEED),
        bars(SPEED),
        line("by_epoch/samples_per_second", scale="log"),
        line("val_accuracy"),
        parallel(
            ("model.name", "setup", "global_batch_size"), ("num_parameters", SPEED, "val_accuracy")
        ),
    ),
)


def search_filter(sweep_id: str) -> str:
    """Returns what MLflow's search finds the runs of a sweep by."""
    return f"tags.`{SWEEP_TAG}` = '{sweep_id}'"


def sweep_view(plan: SweepPlan, curves: "Sequence[Curve]" = ()) -> View:
    """Returns the view of a sweep, its runs alone; its address needs the plan alone."""
    keys = [variation.key for variation in plan.variations if len(variation.values) > 1]
    params = [*(["setup"] if len(plan.setups) > 1 else []), *map(param_of, keys)]
    charts = [bars(SPEED), parallel(params, [SPEED])]
    if not any(plan.tables.get("measurement", {}).get(name) for name in ("seconds", "steps")):
        charts += [
            line(name, over="by_epoch/elapsed_seconds") for name in ("val_accuracy", "val_loss")
        ]
    return View(
        key=f"tfbench-sweep-{plan.sweep_id}",
        name=f"Sweep {plan.sweep_id} of {plan.recipe_name}",
        search=search_filter(plan.sweep_id),
        columns=(  # which runs and setups have alike
            "params.`setup`",
            *(f"params.`{param_of(key)}`" for key in keys),
            f"tags.`{ROUND_TAG}`",
            f"tags.`{RESULT_TAG}`",
        ),
        wide_charts=_curve_charts(curves),
        charts=charts,
        is_nested=bool(curves),
        made_at=round(plan.created * 1000),
    )


def param_of(key: str) -> str:
    """Returns under which name MLflow has a key of a recipe."""
    return "global_batch_size" if key == BATCH_KEY else key


def _curve_charts(curves: "Sequence[Curve]") -> list[Chart]:
    """Returns what answers first.

    The means of each setup, and the ratios with their intervals where one is conclusive.

    They are lines over what was varied, or bars where nothing was.
    """
    points = [(curve.over, point) for curve in curves for point in curve.points.values()]
    found = {
        name: curve_metric(name, points[0][0])
        for name in CURVE_METRICS
        if any(name in one for _, one in points)
    }
    ratios = [tracked for name, tracked in found.items() if name != SPEED]
    groups = [group for group in ([found[SPEED]] if SPEED in found else [], ratios) if group]
    if all(len(curve.points) == 1 for curve in curves):
        return [bars(name) for group in groups for name in group]
    points_too = {
        "xAxisScaleType": "log",
        "displayPoints": True,
    }  # of sizes: both axes are logarithmic
    return [
        line(group[0], scale="log") | {"selectedMetricKeys": group} | points_too for group in groups
    ]
