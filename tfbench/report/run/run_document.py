"""One run as a JSON object: what `--format json` prints."""

import dataclasses
from typing import Any

from tfbench.analysis.run.cost import compute_cost
from tfbench.analysis.run.energy import find_energy
from tfbench.recipe import tables
from tfbench.records.placement import Placement
from tfbench.records.run import (
    DatasetSummary,
    ModelSummary,
    RunResult,
    Summary,
    TrackedRun,
    read_fast,
)
from tfbench.report.document import FORMAT_VERSION, to_document
from tfbench.report.profile.sentences import profile_document, profile_warnings

# In other words, or, as raw readings that are long, in the journal.
_TOLD_OTHERWISE = (
    *(
        "request",
        "placement",
        "model",
        "exit",
        "spans",
        "own_epochs",
        "whole_epochs",
        "is_synthetic",
    ),
    *("energy_readings", "machine_states", "profile"),
)


def run_document(result: RunResult, summary: Summary, tracked: TrackedRun | None) -> dict[str, Any]:
    """Returns everything known of a run as tables, lists, texts and finite numbers.

    Times in seconds.

    What does not exist, or is not finite, is None, and a warning says so. The keys are the same for
    a run that failed, but for figures of `summary` that not every run measures: without a value,
    these are left out.

    Args:
        result: A run in whatever state.
        summary: Its figures.
        tracked: Where it stands in MLflow; None: it is not there.
    """
    request = result.request
    recipe = result.request.recipe
    placement = result.placement
    known = to_document(result, without=_TOLD_OTHERWISE)
    asked = {
        "strategy": recipe.distribution.strategy,
        "global_batch_size": recipe.training.global_batch_size,
    }
    energy = find_energy(result)
    fast = read_fast(request)
    speed = summary.metrics.get("samples_per_second")
    values = {
        "format_version": FORMAT_VERSION,
        "id": request.run_id,
        "run_id": request.run_id,
        "name": request.name,
        "created": request.created,
        "argv": request.argv,
        "status": result.status,
        **known,
        "error": describe_error(result),
        **_fields(Placement),
        **(to_document(placement) if placement else asked),
        **(to_document(result.model) if result.model else _fields(ModelSummary)),
        "recipe": {"name": recipe.name, "resolved": tables.to_tables(recipe)},
        "dataset": (
            _fields(DatasetSummary)
            | {"name": recipe.dataset.name, "synthetic": result.is_synthetic}
            | (known["dataset"] or {})
        ),
        "notes": summary.notes,
        "resumed_from": request.resume.run_id if request.resume else None,
        "summary": summary.metrics,
        "fast": (
            fast
            and {
                "samples_per_second_as_asked": fast.as_asked,
                "speedup": speed / fast.as_asked if speed and fast.settings else None,
                "settings": {f"training.{key}": value for key, value in fast.settings.items()},
            }
        ),
        "cost": compute_cost(result),
        "energy": energy and {**known["energy"], **to_document(energy)},
        "tags": request.tags,
        "mlflow": tracked,
        "reference": recipe.reference,
        **profile_document(result),
    }
    plain: dict[str, Any] = to_document(values)
    return plain | {"warnings": [*summary.warnings, *profile_warnings(result)]}


def describe_error(result: RunResult) -> str | None:
    """Returns why a run failed; None for one that did not."""
    if result.status in ("RUNNING", "FINISHED"):
        return None
    if result.exit and result.exit.reason:
        return result.exit.reason
    error = result.error or {}
    return str(
        error.get("message")
        or error.get("type")
        or f"the run ended as {result.status}; no reason was recorded"
    )


def _fields(cls: type) -> dict[str, None]:
    return dict.fromkeys(field.name for field in dataclasses.fields(cls))
