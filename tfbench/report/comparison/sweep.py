"""What `tfbench sweep` shows: its plan, its progress, how it ended."""

from collections.abc import Mapping
from typing import Any

from tfbench.analysis.comparison.brief import name_setups
from tfbench.analysis.comparison.crossover import Crossing, Crossover, value_of
from tfbench.records.sweep import (
    BATCH_KEY,
    PlannedRun,
    SweepPlan,
    describe_configuration,
    estimate_seconds,
    format_value,
    list_configurations,
    list_planned_runs,
)
from tfbench.report.comparison.scaling import scaling_title
from tfbench.report.comparison.speeds import short_key
from tfbench.report.document import to_document
from tfbench.report.formats import format_guess
from tfbench.report.table import Section, facts, text
from tfbench.wording import count

_ONE_SETUP = (
    "There is only one setup, so nothing is compared. Give --setup once for each strategy, device"
    " and backend."
)
# of steady steps in a run, below which the spread of processes is mostly that of too short a look
_TASTE_SECONDS = 2.0


def plan_lines(plan: SweepPlan, num_left: int, width: int) -> list[str]:
    """Returns what is about to be measured, and about how long it will take.

    Args:
        plan: Of the sweep.
        num_left: Runs that are to be made.
        width: Characters of a line.
    """
    total = len(list_planned_runs(plan))
    factors = [
        count(len(list_configurations(plan)), "configuration"),
        count(len(plan.setups), "setup"),
        count(plan.num_rounds, "round"),
    ]
    left = f", {num_left} left" if num_left < total else ""
    varied = [
        ("vary", f"{variation.key} = {', '.join(map(format_value, variation.values))}")
        for variation in plan.variations
    ]
    refinement = ""
    if plan.refinement:
        refinement = f"up to {plan.refinement.most} values where the faster setup changes"
    pairs = [
        *varied,
        ("refine", refinement),
        ("scaling", _describe_scaling(plan)),
        *(("setup", setup.label) for setup in plan.setups),
        ("runs", f"{' x '.join(factors)} = {count(total, 'run')}{left}"),
        ("time", f"about {format_guess(num_left * estimate_seconds(plan))}"),
        ("note", _ONE_SETUP if len(plan.setups) == 1 and num_left == total else ""),
    ]
    title = f"Sweep {plan.sweep_id} of {plan.recipe_name}"
    return text([Section(title, tables=(facts(pairs),))], width)


def _describe_scaling(plan: SweepPlan) -> str:
    """Returns the kind of scaling; "" of a sweep of no numbers of devices."""
    if plan.per_replica_batch_size:
        return scaling_title("weak", plan.per_replica_batch_size)
    if plan.scaling_modes:
        return scaling_title("strong", plan.tables["training"]["global_batch_size"])
    return ""


def short_run_notice(plan: SweepPlan) -> list[Section]:
    """Returns what a sweep of very short runs is good for.

    Nothing for others, nor for `tfbench scale`.
    """
    seconds = plan.tables.get("measurement", {}).get("seconds")
    if seconds is None or seconds >= _TASTE_SECONDS or plan.scaling_modes:
        return []
    longer = f"--repeats {max(2 * plan.num_rounds, 3)} --seconds 5"
    notice = (
        f"Quick look only ({seconds:g} s per run). Before you decide, repeat the command with"
        f" {longer}."
    )
    return [Section(notice)]


def run_label(plan: SweepPlan, planned: PlannedRun) -> str:
    """Returns what one run is called: "hidden_units=[100] batch=32, mirrored cpu:0,cpu:1"."""
    configuration = {}
    for key, value in list_configurations(plan)[planned.configuration].items():
        configuration["batch" if key == BATCH_KEY else key] = value
    words = describe_configuration(configuration)
    label = plan.setups[planned.setup].label
    return f"{words}, {label}" if words else label


def crossover_sentences(crossover: Crossover) -> list[str]:
    """Returns where one setup overtakes the other, or that none is seen to.

    Nothing where no runs are compared.
    """
    short = short_key(crossover.key)
    setups = name_setups(crossover.setups)
    sentences = [_describe_crossing(crossing, short, setups) for crossing in crossover.crossings]
    if not sentences and crossover.points:
        low = min(crossover.points)
        high = max(crossover.points)
        sentences.append(f"No crossover found from {short} {low:,} to {high:,}.")
    return sentences


def crossover_document(
    crossover: Crossover, plan: SweepPlan, *, is_complete: bool
) -> dict[str, Any]:
    """Returns a crossover as plain values; ratios are those of speeds, second over first."""
    values = [value_of(value) for value in plan.variations[0].values]
    return {
        "id": plan.sweep_id,
        "recipe": plan.recipe_name,
        **to_document(crossover),
        "range": {"low": min(values), "high": max(values)},
        "complete": is_complete,
        "points": [
            {"value": value, **to_document(speedup)} for value, speedup in crossover.points.items()
        ],
        "failures": [
            {"value": value, "reason": reason} for value, reason in crossover.failures.items()
        ],
        "sentences": crossover_sentences(crossover),
    }


def _describe_crossing(crossing: Crossing, short: str, setups: Mapping[str, str]) -> str:
    first, second = setups.values()
    verb = "overtakes" if crossing.second_leads_above else "falls behind"
    return (
        f"{second} {verb} {first} at {short} {crossing.value:,.0f} (between {crossing.low:,} and"
        f" {crossing.high:,})."
    )
