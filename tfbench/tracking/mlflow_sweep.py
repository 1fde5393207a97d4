"""What MLflow shows of a sweep once its runs are made: a view, and a run for each curve."""

import hashlib
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tfbench.metrics import CURVE_METRICS, curve_metric
from tfbench.schema import to_plain
from tfbench.show.figures import SETUP_COLORS, write_plots
from tfbench.show.formats import format_speed
from tfbench.sweeps.plan import SweepPlan
from tfbench.tags import CURVE_TAG, RECIPE_TAG, RESULT_TAG, ROUND_TAG, RUN_TAG, SWEEP_TAG
from tfbench.tracking.fields import COLOR_TAG, MAX_TAG_CHARACTERS
from tfbench.tracking.mlflow_calls import (
    create_run,
    log_whole,
    metrics_at,
    milliseconds,
    write_view,
)
from tfbench.tracking.mlflow_view import param_of, search_filter, sweep_view
from tfbench.tracking.tracker import Curve
from tfbench.wording import count, cut, markdown_text

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

MAX_FOUND = 50_000  # runs of a search
_SHADES = ((0, 0.0), (255, 0.55), (0, 0.5), (255, 0.8))  # towards black or white, and how far
_PARENT_TAG = "mlflow.parentRunId"


def write_sweep(
    client: "MlflowClient",
    experiment: "Experiment",
    plan: SweepPlan,
    curves: Sequence[Curve],
    verdict: Sequence[str],
    folder: Path,
) -> frozenset[str]:
    """Writes all that shows a sweep, only what is not there yet; nothing where none of its runs is.

    Plots are in `folder` until they are sent, where `sweep_log.remove_leftovers` finds what a kill
    leaves of them.

    Returns:
        tfbench's own ids of the sweep's runs that are there.
    """
    mlflow_runs = _search(client, experiment, plan)
    runs = {run.data.tags[RUN_TAG]: run for run in mlflow_runs if RUN_TAG in run.data.tags}
    if not runs:
        return frozenset()
    write_view(client, experiment, sweep_view(plan, curves))
    note = cut("\n\n".join(map(markdown_text, verdict)), MAX_TAG_CHARACTERS)
    drawn = {run.info.run_id: run for run in mlflow_runs if CURVE_TAG in run.data.tags}
    by_mark = {run.data.tags[CURVE_TAG]: run for run in drawn.values()}
    new = []
    for at, curve in enumerate(curves, milliseconds(plan.created)):  # MLflow lists them by time
        parent = by_mark.get(_mark(curve)) or _create(client, experiment, plan, curve, at)
        parent_id = parent.info.run_id
        drawn.pop(parent_id, None)
        _set_tags(client, parent, {"mlflow.note.content": note})
        for run_id in curve.run_ids:
            if run := runs.get(run_id):
                tags = {_PARENT_TAG: parent_id}
                if run.data.tags.get(COLOR_TAG) in SETUP_COLORS:  # else a user chose another one
                    tags[COLOR_TAG] = _color(curve)
                _set_tags(client, run, tags)
        if not parent.data.tags[CURVE_TAG]:
            new.append((curve, parent_id))
    for outdated_id in drawn:
        client.delete_run(outdated_id)
    # Last: the curves are there even if no files can be stored.
    for curve, parent_id in new:
        with tempfile.TemporaryDirectory(
            prefix=f"{plan.sweep_id}.", suffix=".part", dir=folder
        ) as part:
            write_plots(curve.plots, Path(part))
            client.log_artifacts(parent_id, part)
        client.set_tag(parent_id, CURVE_TAG, _mark(curve))  # without this it is made anew
    return frozenset(runs)


def _search(client: "MlflowClient", experiment: "Experiment", plan: SweepPlan) -> "list[Run]":
    return list(
        client.search_runs(
            [experiment.experiment_id], search_filter(plan.sweep_id), max_results=MAX_FOUND
        )
    )


def _mark(curve: Curve) -> str:
    """Returns what a curve was drawn of.

    One that changes is made anew, since MLflow keeps every value.
    """
    text = json.dumps(to_plain(curve), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _create(
    client: "MlflowClient", experiment: "Experiment", plan: SweepPlan, curve: Curve, at: int
) -> "Run":
    """Makes the run of a curve, whose figures are metrics over what was varied."""
    points = "; ".join(f"{x:,}: {_describe_point(curve, x)}" for x in curve.points)
    tags = {
        SWEEP_TAG: plan.sweep_id,
        RECIPE_TAG: plan.recipe_name,
        "mlflow.source.name": "tfbench",
        COLOR_TAG: _color(curve),
        ROUND_TAG: "all",
        RESULT_TAG: cut(points, MAX_TAG_CHARACTERS),
        CURVE_TAG: "",
    }

    def find() -> "Run | None":
        for run in _search(client, experiment, plan):
            if run.data.tags.get(CURVE_TAG) == "" and run.info.run_name == curve.name:
                return run
        return None

    run = create_run(client, find, experiment.experiment_id, at, tags, curve.name)
    run_id = run.info.run_id
    client.set_terminated(run_id, status="FINISHED", end_time=at)  # no measurement is under way
    params = {param_of(key): value for key, value in curve.labels.items()}
    log_whole(client, run_id, params=params)
    decided = [x for x, figures in curve.points.items() if "speedup_low" in figures]
    for x, figures in curve.points.items():
        values = dict(figures)
        if decided and x in curve.undecided and min(decided) < x < max(decided):
            values = dict.fromkeys(CURVE_METRICS, math.nan) | values  # NaN ends a line there
        metrics = {curve_metric(name, curve.over): value for name, value in values.items()}
        log_whole(client, run_id, metrics=metrics_at(metrics, timestamp=at, step=x))
    return run


def _set_tags(client: "MlflowClient", run: "Run", tags: Mapping[str, str]) -> None:
    changed = {name: value for name, value in tags.items() if run.data.tags.get(name, "") != value}
    if changed:
        log_whole(client, run.info.run_id, tags=changed)


def _describe_point(curve: Curve, x: int) -> str:
    """Returns a speed, and a ratio if it is decided.

    For example "12,276 samples/s in 3 rounds, 0.68x [0.59, 0.77]".
    """
    figures = curve.points[x]
    text = f"{format_speed(figures['samples_per_second'])} samples/s"
    if x in curve.rounds:
        text += f" in {count(curve.rounds[x], 'round')}"
    if "speedup_low" in figures:
        text += (
            f", {figures['speedup']:.2f}x [{figures['speedup_low']:.2f},"
            f" {figures['speedup_high']:.2f}]"
        )
    if x in curve.undecided:
        text += ", undecided"
    return f"{text}, between sessions" if x in curve.between_sessions else text


def _color(curve: Curve) -> str:
    """Returns the colour of its setup, lighter or darker for further networks."""
    color = SETUP_COLORS[curve.place % len(SETUP_COLORS)]
    target, share = _SHADES[curve.shade % len(_SHADES)]
    parts = [int(color[start : start + 2], 16) for start in (1, 3, 5)]
    return "#" + "".join(f"{round(part + share * (target - part)):02x}" for part in parts)
