"""A step's profile as a plot: a bar for each layer, in the network's order, and for what belongs to none."""

from tfbench.analysis.profile.step_profile import StepProfile
from tfbench.analysis.profile.summary import summarize_profile
from tfbench.records.profile import PHASES
from tfbench.records.run import RunResult
from tfbench.report.plot import Panel, Plot, Point, Series
from tfbench.report.profile.sections import format_seconds, list_rows, percent
from tfbench.report.profile.sentences import describe_bottleneck
from tfbench.wording import count

MAX_LAYERS = 30
_OTHERS = "other phases"


def profile_plot(result: RunResult) -> Plot | None:
    """Returns where a step's time goes, layers stacked of forward and backward; None where nothing of it was timed."""
    profile = summarize_profile(result)
    if profile is None:
        return None
    rows = _find_rows(profile)
    series = tuple(
        Series(part, tuple(Point(bar, parts[part]) for bar, (_, parts) in enumerate(rows) if parts.get(part, 0.0) > 0))
        for part in (*PHASES, _OTHERS)
    )
    recipe, placement = result.request.recipe, result.placement
    title = f"Where a training step of {format_seconds(profile.full_seconds)} goes"
    title += "" if profile.layers else " (layers are not timed apart)"
    title += f"\n{recipe.recipe.title} ({recipe.name}), mean of {count(profile.num_rounds, 'round')}"
    if placement:
        title += f", {count(placement.global_batch_size, 'sample')} per step, on {', '.join(placement.hardware)}"
    return Plot(
        name="profile.png",
        kind="bars",
        title=title,
        finding=describe_bottleneck(profile),
        x_label="time per step (ms)",
        y_label="",
        panels=(Panel("", series),),
        bars=tuple(
            (name, f"{total:.3g} ms, {percent(total / 1e3 / profile.full_seconds)}")
            for name, parts in rows
            for total in [sum(parts.values())]
        ),
    )


def _find_rows(profile: StepProfile) -> list[tuple[str, dict[str, float]]]:
    """Returns label and milliseconds by part, from the first phase of a step to the last."""
    told_apart = {check.phase for check in profile.checks}
    around = [
        (phase.name, {phase.name if phase.name in PHASES else _OTHERS: 1e3 * phase.seconds})
        for phase in profile.phases
        if phase.name not in told_apart
    ]
    layers = [
        (row["label"], {str(name): 1e3 * row[name] for name in PHASES if row.get(name)})
        for row in (list_rows(profile, MAX_LAYERS) if profile.layers else ())
    ]
    return [*around[:-1], *layers, around[-1]]
