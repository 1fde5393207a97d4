"""What `tfbench sweep` shows: its plan, its progress, how it ended."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from tfbench.analysis.comparison.brief import name_setups
from tfbench.analysis.comparison.comparison import Comparison
from tfbench.analysis.comparison.crossover import Crossing, Crossover, value_of
from tfbench.analysis.comparison.verdict import find_verdict
from tfbench.analysis.run.warnings import merge_warnings
from tfbench.records.scaling import find_scaling_modes
from tfbench.records.sweep import (
    PlannedRun,
    SweepPlan,
    describe_setting,
    estimate_seconds,
    format_value,
    list_planned_runs,
    list_settings,
)
from tfbench.report.comparison.comparison import comparison_sections, comparison_table
from tfbench.report.comparison.speeds import legend
from tfbench.report.document import to_plain
from tfbench.report.formats import format_clock, format_guess, wrap
from tfbench.report.table import Section, facts, text, warnings_section
from tfbench.wording import command_line, count

_ONE_SETUP = "There is only one setup, so nothing is compared. Give --setup once for each strategy, device and backend."
_LONG_SECONDS = 5  # of a run, as `tfbench sweep` takes them unless told otherwise
_JUDGED_ROUNDS = 3  # as `tfbench sweep` makes them unless told otherwise
_TASTE_SECONDS = 2.0  # of steady steps in a run, below which the spread of processes is mostly that of too short a look


def plan_lines(plan: SweepPlan, num_left: int, width: int) -> list[str]:
    """Returns what is about to be measured, and about how long it will take.

    Args:
        plan: Of the sweep.
        num_left: Runs that are to be made.
        width: Characters of a line.
    """
    total = len(list_planned_runs(plan))
    factors = [
        count(len(list_settings(plan)), "setting"),
        count(len(plan.setups), "setup"),
        count(plan.num_rounds, "round"),
    ]
    left = f", {num_left} left" if num_left < total else ""
    pairs = [
        *(("vary", f"{one.key} = {', '.join(map(format_value, one.values))}") for one in plan.variations),
        ("refine", f"up to {plan.refinement.most} more where the faster setup changes" if plan.refinement else ""),
        ("batch", _describe_batch(plan)),
        *(("setup", setup.label) for setup in plan.setups),
        ("runs", f"{' x '.join(factors)} = {count(total, 'run')}{left}"),
        ("time", f"about {format_guess(num_left * estimate_seconds(plan))}"),
        ("limits", "; ".join(_list_limits(plan))),
    ]
    is_alone = len(plan.setups) == 1 and num_left == total
    sections = [Section(f"Sweep {plan.sweep_id} of {plan.recipe_name}", tables=(facts(pairs),))]
    return text([*sections, *([Section("", (_ONE_SETUP,))] if is_alone else [])], width)


def _describe_batch(plan: SweepPlan) -> str:
    modes = find_scaling_modes(plan)
    if plan.per_replica_batch_size is not None:
        what = "replica" if modes == ("data",) else "device"
        return f"{count(plan.per_replica_batch_size, 'sample')} per step and {what} (weak scaling)"
    if modes:
        return f"{count(plan.tables['training']['global_batch_size'], 'sample')} per step in total (strong scaling)"
    return ""


def _list_limits(plan: SweepPlan) -> Iterator[str]:
    if plan.time_budget_seconds is not None:
        yield f"{format_clock(plan.time_budget_seconds)} in all, the ends of each range first"
    if plan.run_timeout_seconds is not None:
        yield f"{plan.run_timeout_seconds:g} s per run"
    if plan.memory_limit_bytes is not None:
        yield f"{plan.memory_limit_bytes / 2**20:,.0f} MiB per run"


def taste_lines(plan: SweepPlan, width: int) -> list[str]:
    """Returns what a sweep of very short runs is good for; nothing for others, nor for `tfbench scale`."""
    seconds = plan.tables.get("measurement", {}).get("seconds")
    if seconds is None or seconds >= _TASTE_SECONDS or find_scaling_modes(plan) or not plan.argv:
        return []
    on = ", synthetic data" if plan.tables["dataset"].get("data") == "synthetic" else ""
    words = list(plan.argv)
    for option in ("--plan", "--repeats", "--seconds"):  # the plan's file is there by now, the others are given anew
        if option in words:
            place = words.index(option)
            del words[place : place + 2]
    longer = ("--repeats", str(max(plan.num_rounds, _JUDGED_ROUNDS)), "--seconds", str(_LONG_SECONDS))
    told = f"Quick look only ({seconds:g} s per run{on}). Before you decide, run:"
    return [*wrap(told, width), f"  {command_line(*words, *longer)}"]


def run_label(plan: SweepPlan, planned: PlannedRun) -> str:
    """Returns what one run is called: "hidden_units=[100] global_batch_size=32, mirrored cpu:0,cpu:1, round 2"."""
    parts = [describe_setting(list_settings(plan)[planned.setting]), plan.setups[planned.setup].label]
    if plan.num_rounds > 1:
        parts.append(f"round {planned.round_number}")
    return ", ".join(part for part in parts if part)


def result_lines(comparison: Comparison, width: int) -> list[str]:
    """Returns the verdict, the table, what speaks against the speeds, and what was published.

    Where runs are of several machines, what their setups cost stands below the table.
    """
    sections = comparison_sections(comparison, find_verdict(comparison), is_full=False)
    return ["", *text(sections, width)]


_FINDINGS = {"no measurable difference": "not measurably different", "too noisy to tell": "inconclusive"}


def crossover_sentences(found: Crossover) -> list[str]:
    """Returns what was found, and no more than its intervals support.

    Of setups that differ in what must be equal, it is not said which is the faster.
    """
    short, setups = found.key.rpartition(".")[2], name_setups(found.setups)
    if found.unequal:
        sentences = [f"Not comparable: the setups differ in {', '.join(one.name for one in found.unequal)}."]
    elif found.crossings:
        sentences = [_describe_crossing(crossing, short, setups) for crossing in found.crossings]
    else:
        sentences = [_describe_none(found, short, setups)] if found.points else []
    sentences += [
        f"{short} {value:,} could not be measured: {reason}."
        for value, reason in found.failures.items()
        if value < max(found.points, default=0) or not found.points
    ]
    if found.largest_fit and found.first_beyond:
        sentences.append(
            f"The largest {short} that could be measured is {found.largest_fit:,}; {found.first_beyond:,} could not: "
            f"{found.failures[found.first_beyond]}."
        )
    return sentences


def crossover_lines(found: Crossover, comparison: Comparison, width: int) -> list[str]:
    """Returns the sentences, a row for each value that was measured, and what speaks against the speeds."""
    table = comparison_table(comparison, [legend(comparison)])
    warnings = merge_warnings([run.speed_warnings for run in comparison.runs])
    answer = Section("", tuple(crossover_sentences(found)))
    return text([answer, Section("", tables=(table,)), *([warnings_section(warnings)] if warnings else [])], width)


def crossover_document(found: Crossover, plan: SweepPlan, *, is_complete: bool) -> dict[str, Any]:
    """Returns a crossover as plain values; ratios are those of speeds, second over first."""
    values = sorted(value_of(value) for value in plan.variations[0].values)
    return {
        "id": plan.sweep_id,
        "recipe": plan.recipe_name,
        **to_plain(found),
        "range": {"low": values[0], "high": values[-1]},
        "complete": is_complete,
        "points": [{"value": value} | to_plain(one) for value, one in found.points.items()],
        "failures": [{"value": value, "reason": reason} for value, reason in found.failures.items()],
        "sentences": crossover_sentences(found),
    }


def _describe_crossing(crossing: Crossing, short: str, setups: Mapping[str, str]) -> str:
    first, second = setups.values()
    verb = "overtakes" if crossing.second_leads_above else "falls behind"
    return f"{second} {verb} {first} at {short} {crossing.value:,.0f} (between {crossing.low:,} and {crossing.high:,})."


def _describe_none(found: Crossover, short: str, setups: Mapping[str, str]) -> str:
    first, second = setups.values()
    parts = []
    for finding, values in itertools.groupby(found.points, lambda value: found.points[value].finding):
        low, *others = values
        where = f"from {low:,} to {others[-1]:,}" if others else f"at {low:,}"
        parts.append(f"{_FINDINGS.get(finding, finding)} {where}")
    told = f"No crossover found over {short}: compared with {first}, {second} is {', '.join(parts)}."
    is_noisy = any(one.is_too_noisy for one in found.points.values())
    return f"{told} Try more rounds (--repeats) or longer runs (--seconds)." if is_noisy else told
