"""The view of one sweep in MLflow: its runs alone, and charts of what it varied."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from tfbench.metrics import SWEEP_METRICS
from tfbench.recipe.tables import THREADS
from tfbench.records.sweep import ARM_TAG, BATCH_KEY, ROUND_TAG, SWEEP_TAG, SweepPlan
from tfbench.tracking.fields import BATCH_SIZE_COLORS, COLOR_TAG, color_of
from tfbench.tracking.mlflow_view import (
    BATCH_SIZE,
    LOG_SPEED,
    NUM_PARAMETERS,
    SPEED,
    Chart,
    View,
    bars,
    contour,
    line,
    metric_axis,
    parallel,
    param_axis,
    scatter,
)

(SPEEDUP,) = SWEEP_METRICS
NUM_REPLICAS = "summary/num_replicas"
STEP_TIME = "summary/step_time_median_seconds"


def search_filter(sweep_id: str) -> str:
    """Returns what MLflow's search finds the runs of a sweep by."""
    return f"tags.`{SWEEP_TAG}` = '{sweep_id}'"


def sweep_view(plan: SweepPlan) -> View:
    """Returns the view of a sweep, the same each time. A report on the sweep is among its runs, by its tag."""
    keys = [variation.key for variation in plan.variations if len(variation.values) > 1]
    has_arms = len(plan.arms) > 1
    sizes = ["metrics.`summary/num_parameters`"] if _size_keys(plan) else []
    return View(
        key=f"tfbench-sweep-{plan.sweep_id}",
        name=f"Sweep {plan.sweep_id} of {plan.recipe_name}",
        search=search_filter(plan.sweep_id),
        columns=(
            f"tags.`{ARM_TAG}`",
            f"tags.`{ROUND_TAG}`",
            *(f"params.`{_param(key)}`" for key in keys),
            *sizes,
            f"metrics.`{SPEED}`",
            *([f"metrics.`{SPEEDUP}`"] if has_arms else []),
            f"metrics.`{STEP_TIME}`",
            "tags.`tfbench.reason`",
        ),
        charts=_charts(plan, keys),
        made_at=round(plan.created * 1000),
    )


def changed_color(plan: SweepPlan, tags: Mapping[str, str], params: Mapping[str, str]) -> dict[str, str]:
    """Returns the tag of a run whose colour must be another one for the sweep's batch sizes to be told apart.

    Where a sweep has a single batch size, the colours stand for the arms. A colour that a user chose stays.

    Args:
        plan: Of the sweep.
        tags: Of the run, in MLflow.
        params: Of the run, in MLflow.
    """
    batch = int(params.get(BATCH_KEY, 0))
    if not batch or tags.get(COLOR_TAG, color_of(batch)) != color_of(batch):
        return {}
    batches = _batch_sizes(plan)
    colors: dict[Hashable, str] = {size: color_of(size) for size in batches}
    if len(batches) == 1:
        colors = _colors([arm.label for arm in plan.arms])
    elif len(set(colors.values())) < len(batches):
        colors = _colors(sorted(batches))
    color = colors.get(tags.get(ARM_TAG, "") if len(batches) == 1 else batch)
    return {COLOR_TAG: color} if color and color != tags.get(COLOR_TAG) else {}


def _colors(things: Sequence[Hashable]) -> dict[Hashable, str]:
    return {thing: BATCH_SIZE_COLORS[index % len(BATCH_SIZE_COLORS)] for index, thing in enumerate(things)}


def _batch_sizes(plan: SweepPlan) -> list[int]:
    if plan.per_replica_batch_size is not None:
        return [plan.per_replica_batch_size * max(1, len(arm.devices)) for arm in plan.arms]
    varied = [variation.values for variation in plan.variations if variation.key == BATCH_KEY]
    return list(varied[0]) if varied else [plan.tables["training"]["global_batch_size"]]


def _charts(plan: SweepPlan, keys: Sequence[str]) -> list[Chart]:
    axes = _axes(plan, keys)
    has_arms = len(plan.arms) > 1
    charts = [scatter(axis, metric_axis(LOG_SPEED)) for axis in axes]
    if has_arms:
        charts += [scatter(axis, metric_axis(SPEEDUP)) for axis in axes]
        if _is_scaling(plan):
            charts += [scatter(metric_axis(NUM_REPLICAS), metric_axis(name)) for name in (SPEED, SPEEDUP)]
        else:
            charts.append(scatter(param_axis("arm"), metric_axis(LOG_SPEED)))
    planes = [axis for axis in axes if axis["type"] == "METRIC"]
    if len(planes) == 2 and len(plan.arms) <= 2:  # of more arms, those would be mixed that have a figure
        charts.append(contour(planes[0], planes[1], metric_axis(SPEEDUP if has_arms else SPEED)))
    params = [*(["arm"] if has_arms else []), *map(_param, keys)]
    charts += [bars(SPEED), parallel(params, [SPEED])]
    if not any(plan.tables.get("measurement", {}).get(name) for name in ("seconds", "steps")):
        charts += [line(name, over="elapsed_seconds") for name in ("val_accuracy", "val_loss")]
    return charts


def _axes(plan: SweepPlan, keys: Sequence[str]) -> list[dict[str, str]]:
    """Returns what to draw speed against: both sizes as logarithms, then what is no size."""
    sizes = _size_keys(plan)
    axes = [metric_axis(BATCH_SIZE)] if BATCH_KEY in keys else []
    axes += [metric_axis(NUM_PARAMETERS)] if sizes else []
    return axes + [param_axis(_param(key)) for key in keys if key != BATCH_KEY and key not in sizes]


def _is_scaling(plan: SweepPlan) -> bool:
    """Says whether the arms are numbers of replicas of one kind of device, and enough of them for an axis."""
    kinds = {device.partition(":")[0] for arm in plan.arms for device in arm.devices}
    return len(kinds) == 1 and len({len(arm.devices) for arm in plan.arms}) == len(plan.arms) > 2


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


def _param(key: str) -> str:
    return "training.intra_op_threads" if key == THREADS else key
