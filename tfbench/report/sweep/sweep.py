"""What `tfbench sweep` shows: its plan, its progress, how it ended."""

from collections.abc import Iterator

from tfbench.analysis.comparison.comparison import Comparison
from tfbench.analysis.comparison.verdict import find_verdict
from tfbench.records.scaling import find_scaling_setups
from tfbench.records.sweep import (
    SweepPlan,
    describe_setting,
    estimate_seconds,
    format_value,
    list_planned_runs,
    list_settings,
)
from tfbench.report.comparison.sections import comparison_sections
from tfbench.report.formats import format_clock, format_guess, wrap
from tfbench.report.table import Section, facts, text
from tfbench.wording import command_line, count

_ONE_SETUP = "There is only one setup, so nothing is compared. Give --setup once for each strategy, device and backend."
_LONG_SECONDS = 5  # of a run, as `tfbench sweep` takes them unless told otherwise
_JUDGED_ROUNDS = 3  # as `tfbench sweep` makes them unless told otherwise
_TASTE_SECONDS = 2.0  # of steady steps in a run, below which the spread of processes is mostly that of too short a look


def plan_lines(plan: SweepPlan, num_left: int, width: int, start_seconds: float | None = None) -> list[str]:
    """Returns what is about to be measured, and about how long it will take.

    Args:
        plan: Of the sweep.
        num_left: Runs that are to be made.
        width: Characters of a line.
        start_seconds: As of `estimate_seconds`.
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
        ("time", f"about {format_guess(estimate_seconds(plan, num_left, start_seconds=start_seconds))}"),
        ("limits", "; ".join(_list_limits(plan))),
    ]
    is_alone = len(plan.setups) == 1 and num_left == total
    sections = [Section(f"Sweep {plan.sweep_id} of {plan.recipe_name}", tables=(facts(pairs),))]
    return text([*sections, *([Section("", (_ONE_SETUP,))] if is_alone else [])], width)


def _describe_batch(plan: SweepPlan) -> str:
    scaling = find_scaling_setups(plan)
    if plan.per_replica_batch_size is not None:
        what = "replica" if scaling and scaling.modes == ("data",) else "device"
        return f"{count(plan.per_replica_batch_size, 'sample')} per step and {what} (weak scaling)"
    if scaling:
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
    if seconds is None or seconds >= _TASTE_SECONDS or find_scaling_setups(plan):
        return []
    on = ", synthetic data" if plan.tables["dataset"].get("data") == "synthetic" else ""
    told = f"Quick look only ({seconds:g} s per run{on})."
    words = list(plan.argv)
    if not words:  # it was asked for from Python
        return wrap(f"{told} Before you decide, make more rounds of longer runs.", width)
    if "--plan" in words:
        place = words.index("--plan")
        del words[place : place + 2]
    for option, value in (("--repeats", max(plan.num_rounds, _JUDGED_ROUNDS)), ("--seconds", _LONG_SECONDS)):
        if option in words:
            words[words.index(option) + 1] = str(value)
        else:
            words += [option, str(value)]
    return [*wrap(f"{told} Before you decide, run:", width), f"  {command_line(*words)}"]


def run_label(plan: SweepPlan, setting: int, setup: int, round_number: int) -> str:
    """Returns what one run is called: "hidden_units=[100] global_batch_size=32, mirrored cpu:0,cpu:1, round 2"."""
    parts = [describe_setting(list_settings(plan)[setting]), plan.setups[setup].label]
    if plan.num_rounds > 1:
        parts.append(f"round {round_number}")
    return ", ".join(part for part in parts if part)


def result_lines(comparison: Comparison, width: int) -> list[str]:
    """Returns the verdict, the table, what speaks against the speeds, and what was published.

    Where runs are of several machines, what their setups cost stands below the table.
    """
    sections = comparison_sections(comparison, find_verdict(comparison), is_full=False)
    return ["", *text(sections, width)]
