"""One run as a JSON object: what `--format json` prints."""

import dataclasses

from tfbench.profiles.profile_text import profile_document, profile_warnings
from tfbench.recipe import tables
from tfbench.runs.cost import compute_cost
from tfbench.runs.energy import find_energy
from tfbench.runs.placement_record import Placement
from tfbench.runs.record import (
    DatasetSummary,
    ModelSummary,
    RunResult,
    Summary,
    TrackedRun,
    read_fast,
)
from tfbench.show.document import FORMAT_VERSION, Document, to_document

# Fields that the document has in other words, or that are long and in the journal.
_LEFT_OUT = (
    "request",
    "placement",
    "model",
    "exit",
    "spans",
    "own_epochs",
    "whole_epochs",
    "last_epoch",
    "reason",
    "is_synthetic",
    "energy_readings",
    "machine_states",
    "profile",
)


def run_document(result: RunResult, summary: Summary, tracked: TrackedRun | None) -> Document:
    """Returns everything known of a run as tables, lists, texts and finite numbers.

    Times in seconds. What does not exist, or is not finite, is None, and a warning says so. The
    keys are the same for a run that failed, but for figures of `summary` that not every run
    measures: without a value, these are left out.

    Args:
        result: A run in whatever state.
        summary: Its figures.
        tracked: Where it stands in MLflow; None: it is not there.
    """
    request = result.request
    recipe = request.recipe
    fields = to_document(result, without=_LEFT_OUT)
    placement = _fields(Placement)
    if result.placement:
        placement |= to_document(result.placement)
    else:
        placement |= {
            "strategy": recipe.distribution.strategy,
            "global_batch_size": recipe.training.global_batch_size,
        }
    dataset = _fields(DatasetSummary)
    dataset |= {"name": recipe.dataset.name, "synthetic": result.is_synthetic}
    dataset |= fields["dataset"] or {}
    fast = None
    if trial := read_fast(request):
        speed = summary.metrics.get("samples_per_second")
        fast = {
            "samples_per_second_as_asked": trial.as_asked,
            "speedup": speed / trial.as_asked if speed and trial.settings else None,
            "settings": {f"training.{key}": value for key, value in trial.settings.items()},
        }
    energy = None
    if measured := find_energy(result):
        energy = fields["energy"] | to_document(measured)
    values = {
        "format_version": FORMAT_VERSION,
        "id": request.run_id,
        "run_id": request.run_id,
        "name": request.name,
        "created": request.created,
        "argv": request.argv,
        "status": result.status,
        **fields,
        "error": describe_error(result),
        **placement,
        **(to_document(result.model) if result.model else _fields(ModelSummary)),
        "recipe": {"name": recipe.name, "resolved": tables.to_tables(recipe)},
        "dataset": dataset,
        "notes": summary.notes,
        "resumed_from": request.resume.run_id if request.resume else None,
        "summary": summary.metrics,
        "fast": fast,
        "cost": compute_cost(result),
        "energy": energy,
        "tags": request.tags,
        "mlflow": tracked,
        "reference": recipe.reference,
        **profile_document(result),
    }
    plain: Document = to_document(values)
    return plain | {"warnings": [*summary.warnings, *profile_warnings(result)]}


def describe_error(result: RunResult) -> str | None:
    """Returns why a run failed; None for one that did not."""
    if result.status in ("RUNNING", "FINISHED"):
        return None
    error = result.error or {}
    reason = result.reason or error.get("message") or error.get("type")
    return str(reason or f"the run ended as {result.status}; no reason was recorded")


def _fields(cls: type) -> Document:
    """Returns the fields of a record without values."""
    return dict.fromkeys(field.name for field in dataclasses.fields(cls))
