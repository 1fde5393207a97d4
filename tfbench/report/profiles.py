"""What is shown of a profile, whichever kind it is of; nothing here prints."""

from typing import TYPE_CHECKING, Any

from tfbench.measure.profile import summarize_profile
from tfbench.report.tables import wrap
from tfbench.results import RunResult
from tfbench.schema import to_plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NOTHING = "Nothing of it was timed: the run ended before its first round was done."


def profile_lines(result: RunResult, width: int) -> list[str]:
    """Returns what a profile found, as lines of text; nothing for a run that trained."""
    if result.profile is None or result.request.profile is None:
        return []
    from tfbench.report import profile

    match result.request.profile.kind:
        case "step":
            step = summarize_profile(result)
            return profile.profile_lines(result, step, width) if step else [_NOTHING]
        case "trace":
            has_ended = result.profile.traced_step_seconds is not None
            nothing = "No trace was taken: the run ended before its last step."
            return profile.operation_lines(result.profile, width) if has_ended else [nothing]
        case "variants":
            return variants.variant_lines(result, width) if result.profile.variant_rounds else [_NOTHING]


def to_json(result: RunResult) -> dict[str, Any] | None:
    """Returns what a profile found as tables, lists, texts and numbers; None where nothing was found."""
    found = result.profile
    if found is None or result.request.profile is None:
        return None
    kind = result.request.profile.kind
    document: dict[str, Any] | None = None
    if kind == "step" and (step := summarize_profile(result)):
        document = profile.profile_to_json(result, step)
    elif kind == "trace" and found.traced_step_seconds is not None:
        document = {
            "num_steps": found.num_traced_steps,
            "step_seconds": found.traced_step_seconds,
            "operations": [to_plain(operation) for operation in found.operations],
        }
    elif kind == "variants" and found.variant_rounds:
        document = variants.variants_to_json(result)
    return None if document is None else {"kind": kind} | document


def plot(result: RunResult) -> "Figure | None":
    """Draws a step's profile; None for any other kind, and where there is nothing to draw."""
    from tfbench.report import profile_plot

    step = summarize_profile(result) if result.request.profile and result.request.profile.kind == "step" else None
    return profile_plot.plot_profile(result, step) if step else None


def trace_lines(folder: str, width: int) -> list[str]:
    """Returns how to open TensorFlow's trace, given the folder that holds it."""
    remark = (
        "It needs TensorBoard's profile plugin, which is no part of tfbench: pip install xprof. The same folder is among "
        "the artifacts of the run in MLflow."
    )
    return [
        "TensorFlow's trace can be opened in a browser",
        f"  tensorboard --logdir {folder}",
        *wrap(remark, width, first="  "),
    ]
