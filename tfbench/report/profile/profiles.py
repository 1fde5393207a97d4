"""What is shown of a profile, of a step or of a trace; nothing here prints."""

import dataclasses
from typing import TYPE_CHECKING, Any

from tfbench.analysis.profile.step_profile import StepProfile
from tfbench.analysis.profile.summary import summarize_profile
from tfbench.recipe import tables
from tfbench.records.run import RunResult, Summary, TrackedRun
from tfbench.report.document import to_plain
from tfbench.report.formats import wrap
from tfbench.report.profile.operations import operation_lines
from tfbench.report.profile.plot import plot_profile
from tfbench.report.profile.sections import profile_sections
from tfbench.report.profile.sentences import describe_bottleneck, profile_cautions
from tfbench.report.run.run_json import describe_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT_VERSION = 1
_RECORDS = ("placement", "settings", "environment", "model", "usage", "profile")


def profile_lines(result: RunResult, width: int, *, is_whole: bool = False) -> list[str]:
    """Returns what a profile found, the bottleneck first; nothing for a run that trained.

    Args:
        result: The run.
        width: Characters of a line.
        is_whole: As of `profile_sections`.
    """
    if result.profile is None or result.request.profile is None:
        return []
    if step := _summarize_step(result):
        sections = [wrap(describe_bottleneck(result, step), width)]
        sections += profile_sections(result, step, width, is_whole=is_whole)
        return [line for lines in sections for line in (*lines, "")][:-1]
    if result.request.profile.kind == "step":
        return ["Nothing of it was timed: the run ended before its first round was done."]
    if result.profile.traced_step_seconds is None:
        return ["No trace was taken: the run ended before its last step."]
    return operation_lines(result.profile, width)


def list_cautions(result: RunResult, summary: Summary) -> list[str]:
    """Returns what to be careful with: the machine first, then sums that are not what they should be."""
    step = _summarize_step(result)
    return [*summary.cautions, *(profile_cautions(step) if step else ())]


def to_json(result: RunResult, summary: Summary, tracked: TrackedRun | None) -> dict[str, Any]:
    """Returns the statistics of a profile, and every reading that they were made of; times in seconds.

    Args:
        result: A profile of whatever kind, in whatever state.
        summary: Its cautions.
        tracked: Where it stands in MLflow; None: it is not there.
    """
    request, recipe, step = result.request, result.request.recipe, _summarize_step(result)
    records = {name: None if (one := getattr(result, name)) is None else to_plain(one) for name in _RECORDS}
    return {
        "format_version": FORMAT_VERSION,
        "run_id": request.run_id,
        "name": request.name,
        "status": result.status,
        "error": describe_error(result),
        "created": request.created,
        "recipe": {"name": recipe.name, "resolved": tables.to_tables(recipe)},
        "request": to_plain(request.profile),
        "step": dump(step) | {"sentence": describe_bottleneck(result, step)} if step else None,
        "readings": records.pop("profile"),
        **records,
        "peak_checks": [to_plain(check) for check in result.peak_checks],
        "notes": list(result.notes),
        "reference": [to_plain(reference) for reference in recipe.reference],
        "mlflow": to_plain(tracked),
        "cautions": list_cautions(result, summary),
    }


def dump(value: Any) -> Any:
    """Returns a record as tables and lists, with its properties beside its fields."""
    if hasattr(value, "_asdict"):
        return dump(value._asdict())
    if isinstance(value, dict):
        return {key: dump(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return list(map(dump, value))
    if not dataclasses.is_dataclass(value):
        return value
    properties = [name for name, member in vars(type(value)).items() if isinstance(member, property)]
    return {
        name: dump(getattr(value, name)) for name in (*(one.name for one in dataclasses.fields(value)), *properties)
    }


def plot(result: RunResult) -> "Figure | None":
    """Draws a step's profile; None for a trace, and where there is nothing to draw."""
    step = _summarize_step(result)
    return plot_profile(result, step) if step else None


def _summarize_step(result: RunResult) -> StepProfile | None:
    is_step = result.request.profile is not None and result.request.profile.kind == "step"
    return summarize_profile(result) if is_step else None
