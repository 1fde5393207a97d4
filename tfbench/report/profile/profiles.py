"""What is shown of a profile, whichever kind it is of; nothing here prints."""

from typing import TYPE_CHECKING, Any

from tfbench.analysis.profile.step_profile import StepProfile
from tfbench.analysis.profile.summary import summarize_profile
from tfbench.recipe.abilities import BACKEND_TITLES, BackendName
from tfbench.records.run import RunResult, Summary, TrackedRun
from tfbench.report.document import to_plain
from tfbench.report.formats import wrap
from tfbench.report.profile import lines
from tfbench.report.profile import plot as profile_plot
from tfbench.report.profile.profile_json import profile_to_json
from tfbench.report.profile.sentences import describe_bottleneck, profile_cautions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NOTHING = "Nothing of it was timed: the run ended before its first round was done."
_NO_TRACE = "No trace was taken: the run ended before its last step."


def profile_lines(result: RunResult, width: int) -> list[str]:
    """Returns what a profile found, but for its bottleneck, as lines of text; nothing for a run that trained.

    Args:
        result: The run.
        width: Characters of a line.
    """
    if result.profile is None or result.request.profile is None:
        return []
    if result.request.profile.kind == "step":
        step = summarize_profile(result)
        return lines.profile_lines(result, step, width) if step else [_NOTHING]
    has_ended = result.profile.traced_step_seconds is not None
    return lines.operation_lines(result.profile, width) if has_ended else [_NO_TRACE]


def bottleneck_lines(result: RunResult, width: int) -> list[str]:
    """Returns the sentence that sums up a step's profile; nothing for any other kind, and where nothing was timed."""
    step = _summarize_step(result)
    return wrap(describe_bottleneck(result, step), width) if step else []


def list_cautions(result: RunResult, summary: Summary) -> list[str]:
    """Returns what to be careful with: the machine first, then sums that are not what they should be."""
    step = _summarize_step(result)
    return [*summary.cautions, *(profile_cautions(step) if step else ())]


def to_json(result: RunResult, summary: Summary, tracked: TrackedRun | None) -> dict[str, Any]:
    """Returns everything known of a profile as tables, lists, texts and finite numbers; times in seconds.

    Args:
        result: A profile of whatever kind, in whatever state.
        summary: Its cautions.
        tracked: Where it stands in MLflow; None: it is not there.
    """
    document = profile_to_json(result, summarize_profile(result))
    return document | {
        "mlflow": to_plain(tracked),
        "cautions": list_cautions(result, summary),
    }


def plot(result: RunResult) -> "Figure | None":
    """Draws a step's profile; None for any other kind, and where there is nothing to draw."""
    step = _summarize_step(result)
    return profile_plot.plot_profile(result, step) if step else None


def _summarize_step(result: RunResult) -> StepProfile | None:
    is_step = result.request.profile is not None and result.request.profile.kind == "step"
    return summarize_profile(result) if is_step else None


def trace_lines(folder: str, backend: BackendName, width: int) -> list[str]:
    """Returns how to open a back end's own trace, given the folder that holds it."""
    if backend == "tensorflow":
        how = f"tensorboard --logdir {folder}"
        remark = "TensorBoard needs its profile plugin for that, which is no part of tfbench: pip install xprof."
    else:
        how = f"https://ui.perfetto.dev opens the file in {folder}"
        remark = "It stays on this machine. Chrome has a viewer of its own, chrome://tracing."
    return [
        f"{BACKEND_TITLES[backend]}'s trace can be opened in a browser",
        f"  {how}",
        *wrap(f"{remark} The same folder is among the artifacts of the run in MLflow.", width, first="  "),
    ]
