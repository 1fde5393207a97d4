"""The view of one sweep in MLflow: its runs alone, and charts of what it varied."""

from collections.abc import Sequence
from typing import Any

from tfbench.metrics import CURVE_METRICS, curve_metric
from tfbench.recipe.value_types import THREADS
from tfbench.records.sweep import BATCH_KEY, ROUND_TAG, SWEEP_TAG, SweepPlan
from tfbench.tracking.mlflow_view import (
    BATCH_SIZE,
    LOG_SPEED,
    NUM_PARAMETERS,
    RESULT_TAG,
    SPEED,
    Chart,
    View,
    bars,
    curve_chart,
    line,
    metric_axis,
    parallel,
    param_axis,
    scatter,
)
from tfbench.tracking.tracker import Curve

NUM_REPLICAS = "num_replicas"


def search_filter(sweep_id: str) -> str:
    """Returns what MLflow's search finds the runs of a sweep by."""
    return f"tags.`{SWEEP_TAG}` = '{sweep_id}'"


def sweep_view(plan: SweepPlan, curves: Sequence[Curve] = ()) -> View:
    """Returns the view of a sweep, whose address needs the plan alone. A report on it is among its runs, by its tag."""
    keys = [variation.key for variation in plan.variations if len(variation.values) > 1]
    return View(
        key=f"tfbench-sweep-{plan.sweep_id}",
        name=f"Sweep {plan.sweep_id} of {plan.recipe_name}",
        search=search_filter(plan.sweep_id),
        columns=(  # which runs, setups and reports have alike
            "params.`setup`",
            *(f"params.`{param_of(key)}`" for key in keys),
            f"tags.`{ROUND_TAG}`",
            f"tags.`{RESULT_TAG}`",
        ),
        wide_charts=_curve_charts(curves),
        charts=_charts(plan, keys),
        is_nested=bool(curves),
        made_at=round(plan.created * 1000),
    )


def _charts(plan: SweepPlan, keys: Sequence[str]) -> list[Chart]:
    axes = _axes(plan, keys)
    charts = [scatter(axis, metric_axis(LOG_SPEED)) for axis in axes]
    if _is_scaling(plan):
        charts.append(scatter(metric_axis(NUM_REPLICAS), metric_axis(SPEED)))
    params = [*(["setup"] if len(plan.setups) > 1 else []), *map(param_of, keys)]
    charts += [bars(SPEED), parallel(params, [SPEED])]
    if not any(plan.tables.get("measurement", {}).get(name) for name in ("seconds", "steps")):
        charts += [line(name, over="by_epoch/elapsed_seconds") for name in ("val_accuracy", "val_loss")]
    return charts


def _curve_charts(curves: Sequence[Curve]) -> list[Chart]:
    """Returns what answers first: the means of each setup, and the ratios with their intervals where one is conclusive.

    They are lines over what was varied, or bars where nothing was.
    """
    points = [(curve.over, point) for curve in curves for point in curve.points.values()]
    found = {name: curve_metric(name, points[0][0]) for name in CURVE_METRICS if any(name in one for _, one in points)}
    ratios = [tracked for name, tracked in found.items() if name != SPEED]
    groups = [group for group in ([found[SPEED]] if SPEED in found else [], ratios) if group]
    if all(len(curve.points) == 1 for curve in curves):
        return [bars(name) for group in groups for name in group]
    return [curve_chart(*group) for group in groups]


def _axes(plan: SweepPlan, keys: Sequence[str]) -> list[dict[str, str]]:
    """Returns what to draw speed against: both sizes as logarithms, then what is no size."""
    sizes = _size_keys(plan)
    axes = [metric_axis(BATCH_SIZE)] if BATCH_KEY in keys else []
    axes += [metric_axis(NUM_PARAMETERS)] if sizes else []
    return axes + [param_axis(param_of(key)) for key in keys if key != BATCH_KEY and key not in sizes]


def _is_scaling(plan: SweepPlan) -> bool:
    """Says whether the setups are numbers of replicas of one kind of device, and enough of them for an axis."""
    kinds = {device.partition(":")[0] for setup in plan.setups for device in setup.devices}
    return len(kinds) == 1 and len({setup.num_devices for setup in plan.setups}) == len(plan.setups) > 2


def _size_keys(plan: SweepPlan) -> list[str]:
    """Returns the varied keys that make the network larger or smaller."""
    return [
        variation.key
        for variation in plan.variations
        if variation.key.startswith("model.") and len(variation.values) > 1 and all(map(_is_size, variation.values))
    ]


def _is_size(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_size, value))
    return isinstance(value, int | float) and not isinstance(value, bool)


def param_of(key: str) -> str:
    """Returns under which name MLflow has a key of a recipe."""
    return {THREADS: "training.intra_op_threads", BATCH_KEY: "global_batch_size"}.get(key, key)
