"""What `tfbench sweep` shows: its plan, its progress, how it ended."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfbench.comparisons.crossover import Crossing, Crossover, value_of
from tfbench.comparisons.scaling import scaling_title
from tfbench.comparisons.speeds import short_key
from tfbench.recipe.toml_text import format_inline
from tfbench.show.advised import words_of_recipe
from tfbench.show.document import to_document
from tfbench.show.formats import format_guess
from tfbench.show.table import Section, facts, text
from tfbench.store.brief import name_setups
from tfbench.sweeps.plan import (
    BATCH_KEY,
    PlannedRun,
    SweepPlan,
    Variation,
    describe_configuration,
    estimate_seconds,
    format_value,
    list_configurations,
)
from tfbench.wording import command_line, count, join_words

_ONE_SETUP = (
    "There is only one setup, so nothing is compared. Give --setup once for each strategy, device"
    " and backend."
)
_VALUES_AS_SETUPS = (
    "There is only one setup, so nothing is compared. This compares the values of {}:"
)


def plan_lines(
    plan: SweepPlan, num_left: int, num_most_left: int, *, store: Path | str, width: int
) -> list[str]:
    """Returns what is about to be measured, and about how long it will take.

    Args:
        plan: Of the sweep.
        num_left: Runs that are to be made in any case.
        num_most_left: Runs that are to be made if no comparison is decided before the last round.
        store: Where its runs are kept.
        width: Characters of a line.
    """
    num_configurations = len(list_configurations(plan))
    num_cells = num_configurations * len(plan.setups)
    num_runs = num_cells * plan.fewest_rounds
    rounds = count(plan.fewest_rounds, "round")
    total = count(num_runs, "run")
    if plan.adds_rounds:
        rounds = f"{plan.fewest_rounds} to {count(plan.num_rounds, 'round')}"
        total = f"{num_runs} to {count(num_cells * plan.num_rounds, 'run')}"
    factors = [count(num_configurations, "configuration"), count(len(plan.setups), "setup"), rounds]
    runs = f"{' x '.join(factors)} = {total}"
    is_new = num_left == num_runs
    if not is_new:
        numbers = dict.fromkeys([num_left, num_most_left])
        runs += f", {' to '.join(map(str, numbers))} left"
    pairs = []
    for variation in plan.variations:
        values = ", ".join(map(format_value, variation.values))
        pairs.append(("vary", f"{variation.key} = {values}"))
    if plan.refinement:
        most = count(plan.refinement.most, "value")
        pairs.append(("refine", f"up to {most} where the faster setup changes"))
    pairs.append(("scaling", _describe_scaling(plan)))
    pairs += [("setup", setup.label) for setup in plan.setups]
    pairs.append(("runs", runs))
    pairs.append(("time", _describe_time(plan, num_left, num_most_left)))
    commands = []
    if len(plan.setups) == 1 and is_new:
        variants = [variation for variation in plan.variations if _can_be_setups(variation)]
        if variants:
            pairs.append(("note", _VALUES_AS_SETUPS.format(variants[0].key)))
            words = _with_values_as_setups(plan, variants[0])
            commands.append(f"  {command_line(*words, store=store)}")
        else:
            pairs.append(("note", _ONE_SETUP))
    title = f"Sweep {plan.sweep_id} of {plan.recipe_name}"
    return [*text([Section(title, tables=(facts(pairs),))], width), *commands]


def _with_values_as_setups(plan: SweepPlan, varied: Variation) -> list[str]:
    """Returns the words of a sweep of one setup, in which each value of a key is a setup."""
    (setup,) = plan.setups
    words = words_of_recipe(
        plan.recipe_name,
        plan.tables,
        argv=plan.argv,
        overrides=[key for key in plan.overrides if key != varied.key],
        data_dir=plan.data_dir,
        allows_code=plan.allows_code,
    )
    for variation in plan.variations:
        if variation.key != varied.key:
            words += ["--vary", f"{variation.key}={format_inline(list(variation.values))}"]
    if len(plan.variations) == 1:  # the recipe's [sweep] is not asked for
        words += ["--batch-size", str(plan.tables["training"]["global_batch_size"])]
    for value in varied.values:
        values_of_setup = (*setup.values, (varied.key, value))
        words += ["--setup", dataclasses.replace(setup, values=values_of_setup).label]
    return ["sweep", *words]


def _can_be_setups(variation: Variation) -> bool:
    """Says whether each value that a key takes can be a setup of its own."""
    has_blanks = any(" " in format_value(value) for value in variation.values)
    return variation.key != BATCH_KEY and len(variation.values) > 1 and not has_blanks


def _describe_time(plan: SweepPlan, num_left: int, num_most_left: int) -> str:
    """Returns about how long some to most runs take; "" of none."""
    if not num_left:
        return ""
    seconds = estimate_seconds(plan)
    budget = plan.time_budget_seconds or math.inf
    fewest, most = (min(num * seconds, budget) for num in (num_left, num_most_left))
    times = dict.fromkeys([format_guess(fewest), format_guess(most)])
    text = f"about {' to '.join(times)}"
    if most == budget:
        return f"{text}, when the time budget ends"
    return f"{text}, until every comparison is decided" if num_most_left > num_left else text


def _describe_scaling(plan: SweepPlan) -> str:
    """Returns the kind of scaling; "" of a sweep of no numbers of devices."""
    if plan.per_replica_batch_size:
        return scaling_title("weak", plan.per_replica_batch_size)
    if plan.scaling_modes:
        return scaling_title("strong", plan.tables["training"]["global_batch_size"])
    return ""


def run_label(plan: SweepPlan, planned: PlannedRun) -> str:
    """Returns what one run is called: "hidden_units=[100] batch=32, mirrored cpu:0,cpu:1"."""
    configuration = {}
    for key, value in list_configurations(plan)[planned.configuration].items():
        configuration["batch" if key == BATCH_KEY else key] = value
    words = describe_configuration(configuration)
    label = plan.setups[planned.setup].label
    return f"{words}, {label}" if words else label


def crossover_sentences(crossover: Crossover) -> list[str]:
    """Returns where one setup overtakes the other, or that none is seen to, and what is open.

    Nothing where no runs are compared.
    """
    if not crossover.points:
        return []
    short = short_key(crossover.key)
    setups = name_setups(crossover.setups)
    sentences = [_describe_crossing(crossing, short, setups) for crossing in crossover.crossings]
    decided = sorted(set(crossover.points) - set(crossover.undecided))
    if not sentences and not decided:
        measured = join_words([f"{value:,}" for value in crossover.points])
        return [f"Whether there is a crossover is open: nothing is decided at {short} {measured}."]
    open_at = _describe_undecided(crossover)
    if not sentences:
        where = f"at {short} {decided[0]:,}"
        if len(decided) > 1:
            where = f"from {short} {decided[0]:,} to {decided[-1]:,}"
        end = f"; not decided {open_at}." if open_at else "."
        return [f"No crossover found {where}{end}"]
    if open_at:
        sentences.append(f"Not decided {open_at}.")
    return sentences


def _describe_undecided(crossover: Crossover) -> str:
    """Returns where no setup is seen to be faster, outside of the crossings; "" of nowhere."""
    undecided = []
    for value in crossover.undecided:
        if not any(crossing.low < value < crossing.high for crossing in crossover.brackets):
            undecided.append(value)
    decided = [value for value in crossover.points if value not in crossover.undecided]
    if not (undecided and decided):
        return ""
    short = short_key(crossover.key)
    if min(undecided) > max(decided):
        return f"above {short} {max(decided):,}"
    if max(undecided) < min(decided):
        return f"below {short} {min(decided):,}"
    values = [f"{value:,}" for value in undecided]
    return f"at {short} {join_words(values)}"


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


def _format_size(value: float) -> str:
    """Returns a size between two that can be measured: "2.4", "96.2", "1,024"."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _describe_crossing(crossing: Crossing, short: str, setups: Mapping[str, str]) -> str:
    first, second = setups.values()
    verb = "overtakes" if crossing.second_leads_above else "falls behind"
    place = _format_size(crossing.value)
    if crossing.value_low is not None and crossing.value_high is not None:
        low = _format_size(crossing.value_low)
        high = _format_size(crossing.value_high)
        place += f" [{low}, {high}]"
    return (
        f"{second} {verb} {first} at {short} {place} (between {crossing.low:,} and"
        f" {crossing.high:,})."
    )
