"""Views that MLflow opens on: which runs, which columns, which charts.

MLflow keeps a shared view as an experiment's tag and opens it when the address names its key. The
format is MLflow's own and not documented; `tests/integration/test_ui_browser.py` looks at the
rendered page.
"""

import base64
import json
import math
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tfbench.metrics import CURVE_METRICS, curve_metric
from tfbench.sweeps.plan import BATCH_KEY, SweepPlan
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


class View(NamedTuple):
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
        # A filter in the address would make MLflow ignore the view; without the workflow it opens
        # on another page.
        query = f"viewStateShareKey={self.key}&compareRunsMode=CHART&workflowType=machine_learning"
        return f"{base.rstrip('/')}/#/experiments/{experiment_id}/runs?{query}"

    def _state(self) -> dict[str, Any]:
        sections = self._sections()
        charts = []
        for section, section_charts in sections:
            for index, chart in enumerate(section_charts):
                placed = {
                    "uuid": f"{section['uuid']}-{index}",
                    "metricSectionId": section["uuid"],
                    "deleted": False,
                    "isGenerated": False,
                    "runsCountToCompare": 100,
                    **chart,
                }
                charts.append(placed)
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
            "compareRunCharts": charts,
        }

    def _sections(self) -> list[tuple[dict[str, Any], Sequence[Chart]]]:
        """Returns sections of the page with their charts.

        Wide charts have room for their legends, which names of setups fill. In MLflow's three
        columns, titles of axes are cut off.
        """
        section = {
            "uuid": self.key,
            "columns": 2,
            "isReordered": False,
            "cardHeight": 420,  # pixels
            "name": self.name,
            "display": True,
        }
        if not self.wide_charts:
            return [(section, self.charts)]
        wide = section | {"uuid": f"{self.key}-wide", "columns": 1}
        # It is folded, and empty until somebody does what its name says.
        rest = section | {"name": "Single runs: unfold them in the list", "display": False}
        return [(wide, self.wide_charts), (rest, self.charts)]


def scatter(x: str, y: str) -> Chart:
    """Returns a chart of runs as points over two metrics.

    It has no logarithmic axes, so that logarithms are logged, too.
    """
    return {
        "type": "SCATTER",
        "xaxis": {"key": x, "type": "METRIC"},
        "yaxis": {"key": y, "type": "METRIC"},
    }


def bars(metric: str) -> Chart:
    """Returns a chart with a bar for each run."""
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


def line(metric: str, *, over: str = "", scale: str = "linear") -> Chart:
    """Returns a chart with a line for each run.

    It shows a metric of a run's epochs over their number, or over another metric of theirs.
    """
    return {
        "type": "LINE",
        "metricKey": metric,
        "selectedMetricKeys": [metric],
        "xAxisKey": "metric" if over else "step",
        "scaleType": scale,
        "lineSmoothness": 0,
        "range": {},
        "selectedXAxisMetricKey": over,
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "useGlobalXaxisKey": False,
    }


# Of a new experiment, as its page shows it.
EXPERIMENT_TAGS = {
    "mlflow.note.content": (
        "Speeds of neural networks, measured by **tfbench**. A run is one training of a network,"
        " unless its name says otherwise. `samples_per_second` is its speed after the warm-up,"
        " `val_accuracy` what it learned. Runs scatter: whether a setup is faster is decided by"
        " `tfbench compare`, and by the verdict of a sweep. `tfbench ui` opens charts by network"
        " and batch size."
    )
}
# The view of all runs of an experiment.
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
    varied = [param_of(key) for key in keys]
    params = ["setup", *varied] if len(plan.setups) > 1 else varied
    charts = [bars(SPEED), parallel(params, [SPEED])]
    measurement = plan.tables.get("measurement", {})
    if not measurement.get("seconds") and not measurement.get("steps"):
        charts += [
            line(name, over="by_epoch/elapsed_seconds") for name in ("val_accuracy", "val_loss")
        ]
        times = ("elapsed_seconds", "epoch_seconds", "validation_seconds")
        charts += [line(f"by_epoch/{name}") for name in times]
    return View(
        key=f"tfbench-sweep-{plan.sweep_id}",
        name=f"Sweep {plan.sweep_id} of {plan.recipe_name}",
        search=search_filter(plan.sweep_id),
        columns=(  # which runs and setups have alike
            "params.`setup`",
            *(f"params.`{name}`" for name in varied),
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
    """Returns the charts that come first.

    They show the mean speeds of each setup, and the ratios with their intervals where one is
    decided, as lines over what was varied, or as bars where nothing was.
    """
    figures: set[str] = set()
    for curve in curves:
        figures.update(*curve.points.values())
    is_varied = any(len(curve.points) != 1 for curve in curves)
    ratios = [name for name in CURVE_METRICS if name != SPEED]
    charts = []
    for names in ([SPEED], ratios):
        group = [curve_metric(name, curves[0].over) for name in names if name in figures]
        if not is_varied:
            charts += [bars(metric) for metric in group]
        elif group:
            chart = line(group[0], scale="log")
            # Both axes are logarithmic, since sizes were varied.
            chart |= {"selectedMetricKeys": group, "xAxisScaleType": "log", "displayPoints": True}
            charts.append(chart)
    return charts
