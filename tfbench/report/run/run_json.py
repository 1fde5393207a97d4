"""One run as a JSON object: what `--format json` prints."""

import dataclasses
import math
from typing import Any

from tfbench.analysis.run.cost import compute_cost
from tfbench.recipe import tables
from tfbench.records.run import RunResult, Summary, TrackedRun
from tfbench.report.run.energy import energy_json
from tfbench.report.run.fast import describe_fast
from tfbench.schema import to_plain

FORMAT_VERSION = 1


def to_json(result: RunResult, summary: Summary, tracked: TrackedRun | None) -> dict[str, Any]:
    """Returns everything known of a run as tables, lists, texts and finite numbers; times in seconds.

    What does not exist, or is not finite, is None, and a caution says so. The keys are the same for a run that failed.

    Args:
        result: A run in whatever state.
        summary: Its figures.
        tracked: Where it stands in MLflow; None: it is not there.
    """
    recipe, placement = result.request.recipe, result.placement
    values: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "run_id": result.request.run_id,
        "name": result.request.name,
        "status": result.status,
        "error": describe_error(result),
        "created": result.request.created,
        "started_at": result.started_at,
        "ended_at": result.ended_at,
        "recipe": {"name": recipe.name, "resolved": tables.to_tables(recipe)},
        "strategy": placement.strategy if placement else recipe.distribution.strategy,
        "devices": list(placement.devices) if placement else None,
        "num_replicas": placement.num_replicas if placement else None,
        "num_workers": placement.num_workers if placement else None,
        "mesh": dict(placement.mesh) if placement else None,
        "global_batch_size": placement.global_batch_size if placement else recipe.training.global_batch_size,
        "per_replica_batch_size": placement.per_replica_batch_size if placement else None,
        "cross_device_ops": placement.cross_device_ops if placement else None,
        "threads": _plain(placement.threads) if placement else None,
        "replica_check": _plain(result.replica_check),
        "spread": _plain(result.spread),
        "exchange_check": _plain(result.exchange_check),
        "num_parameters": result.model.num_parameters if result.model else None,
        "num_trainable_parameters": result.model.num_trainable_parameters if result.model else None,
        "dataset": _describe_dataset(result),
        "steps_per_epoch": result.steps_per_epoch,
        "epochs": [_plain(record) for record in result.epochs],
        "evaluations": [_plain(found) for found in result.evaluations],
        "predictions": _plain(result.predictions),
        "resumed_from": result.request.resume.run_id if result.request.resume else None,
        "stop_reason": result.stop_reason,
        "summary": summary.metrics,
        "fast": describe_fast(result.request, summary.metrics),
        "cost": _describe_cost(result),
        "energy": energy_json(result),
        "settings": _plain(result.settings),
        "environment": _plain(result.environment),
        "usage": _plain(result.usage),
        "input_check": _plain(result.input_check),
        "peak_checks": [_plain(check) for check in result.peak_checks],
        "tags": result.request.tags,
        "mlflow": None if tracked is None else describe_tracked(tracked),
        "reference": [_plain(reference) for reference in recipe.reference],
    }
    dropped: list[str] = []
    finite: dict[str, Any] = _drop_non_finite(values, "", dropped)
    cautions = list(summary.cautions)
    if dropped:
        cautions.append(f"not finite, so written as null: {', '.join(dropped)}.")
    return finite | {"cautions": cautions}


def describe_error(result: RunResult) -> str | None:
    """Returns why a run failed; None for one that did not."""
    if result.status in ("RUNNING", "FINISHED"):
        return None
    if result.exit and result.exit.reason:
        return result.exit.reason
    error = result.error or {}
    return str(error.get("message") or error.get("type") or f"the run ended as {result.status}; no reason was recorded")


def _describe_dataset(result: RunResult) -> dict[str, Any]:
    data = result.dataset
    return {
        "name": data.name if data else result.request.recipe.dataset.name,
        "source": data.source if data else None,
        "synthetic": result.is_synthetic,
        "train_samples": data.train_samples if data else None,
        "validation_samples": data.validation_samples if data else None,
        "cache": data.cache if data else None,
    }


def _describe_cost(result: RunResult) -> dict[str, Any] | None:
    cost = compute_cost(result)
    return None if cost is None else dataclasses.asdict(cost)


def describe_tracked(tracked: TrackedRun) -> dict[str, str]:
    """Returns where a run stands in MLflow."""
    return {
        "tracking_uri": tracked.tracking_uri,
        "experiment_id": tracked.experiment_id,
        "run_id": tracked.run_id,
    }


def _plain(instance: object | None) -> Any:
    return None if instance is None else to_plain(instance)


def _drop_non_finite(value: Any, where: str, dropped: list[str]) -> Any:
    """Returns a copy with None in the place of nan and infinities, which JSON cannot say; notes where they were."""
    if isinstance(value, dict):
        return {key: _drop_non_finite(item, f"{where}.{key}".lstrip("."), dropped) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_drop_non_finite(item, f"{where}.{index}", dropped) for index, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        dropped.append(where)
        return None
    return value
