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
    weak = plan.per_replica_batch_size
    strong = plan.tables["training"]["global_batch_size"] if plan.scaling_modes else None
    factors = [
        count(len(list_configurations(plan)), "configuration"),
        count(len(plan.setups), "setup"),
        count(plan.num_rounds, "round"),
    ]
    left = f", {num_left} left" if num_left < total else ""
    pairs = [
        *(
            ("vary", f"{one.key} = {', '.join(map(format_value, one.values))}")
            for one in plan.variations
        ),
        (
            "refine",
            (
                f"up to {plan.refinement.most} values where the faster setup changes"
                if plan.refinement
                else ""
            ),
        ),
        (
            "scaling",
            (
                scaling_title("weak", weak)
                if weak
                else scaling_title("strong", strong)
                if strong
                else ""
            ),
        ),
        *(("setup", setup.label) for setup in plan.setups),
        ("runs", f"{' x '.join(factors)} = {count(total, 'run')}{left}"),
        ("time", f"about {format_guess(num_left * estimate_seconds(plan))}"),
        ("note", _ONE_SETUP if len(plan.setups) == 1 and num_left == total else ""),
    ]
    return text(
        [Section(f"Sweep {plan.sweep_id} of {plan.recipe_name}", tables=(facts(pairs),))], width
    )


def short_run_notice(plan: SweepPlan) -> list[Section]:
    """Returns what a sweep of very short runs is good for.

    Nothing for others, nor for `tfbench scale`.
    """
    seconds = plan.tables.get("measurement", {}).get("seconds")
    if seconds is None or seconds >= _TASTE_SECONDS or plan.scaling_modes:
        return []
    longer = f"--repeats {max(2 * plan.num_rounds, 3)} --seconds 5"
    return [
        Section(
            f"Quick look only ({seconds:g} s per run). Before you decide, repeat the command with"
            f" {longer}."
        )
    ]


def run_label(plan: SweepPlan, planned: PlannedRun) -> str:
    """Returns what one run is called: "hidden_units=[100] batch=32, mirrored cpu:0,cpu:1"."""
    configuration = {
        "batch" if key == BATCH_KEY else key: value
        for key, value in list_configurations(plan)[planned.configuration].items()
    }
    return ", ".join(
        part
        for part in (describe_configuration(configuration), plan.setups[planned.setup].label)
        if part
    )


def crossover_sentences(found: Crossover) -> list[str]:
    """Returns where one setup overtakes the other, or that none is seen to.

    Nothing where none are compared.
    """
    short = short_key(found.key)
    setups = name_setups(found.setups)
    told = [_describe_crossing(crossing, short, setups) for crossing in found.crossings]
    if told or not found.points:
        return told
    return [f"No crossover found from {short} {min(found.points):,} to {max(found.points):,}."]


def crossover_document(found: Crossover, plan: SweepPlan, *, is_complete: bool) -> dict[str, Any]:
    """Returns a crossover as plain values; ratios are those of speeds, second over first."""
    values = sorted(value_of(value) for value in plan.variations[0].values)
    return {
        "id": plan.sweep_id,
        "recipe": plan.recipe_name,
        **to_document(found),
        "range": {"low": values[0], "high": values[-1]},
        "complete": is_complete,
        "points": [{"value": value} | to_document(one) for value, one in found.points.items()],
        "failures": [
            {"value": value, "reason": reason} for value, reason in found.failures.items()
        ],
        "sentences": crossover_sentences(found),
    }


def _describe_crossing(crossing: Crossing, short: str, setups: Mapping[str, str]) -> str:
    first, second = setups.values()
    verb = "overtakes" if crossing.second_leads_above else "falls behind"
    return (
        f"{second} {verb} {first} at {short} {crossing.value:,.0f} (between {crossing.low:,} and"
        f" {crossing.high:,})."
    )
