"""Where one arm overtakes another, as lines of plain text and as JSON."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from tfbench.analysis.comparison.back_ends import backend_in, name_arms
from tfbench.analysis.comparison.crossover import Crossing, Crossover, ValueRange, lead
from tfbench.analysis.comparison.equality import Difference
from tfbench.analysis.comparison.speedup import Speedup
from tfbench.analysis.comparison.step_model import StepModel
from tfbench.analysis.comparison.step_prediction import PredictedCrossing
from tfbench.records.sweep import SweepPlan, estimate_seconds
from tfbench.report.comparison.speeds import speedup_json
from tfbench.report.formats import format_guess, wrap

FORMAT_VERSION = 1
_FINDINGS = {"no measurable difference": "not measurably different", "not judged": "not judged"}
_UNITS = {
    # unit of work: how much of it costs are given for, and what that is called
    "sample": (1.0, "a sample"),
    "operation": (1e9, "a billion operations"),
    "parameter": (1e6, "a million parameters and a sample"),
}


def search_lines(
    plan: SweepPlan, key: str, values: ValueRange, width: int, start_seconds: float | None = None
) -> list[str]:
    """Returns what is about to be searched, and about how long it will take."""
    first, second = _name((plan.arms[0].label, plan.arms[1].label))
    num_runs = values.num_measured * len(plan.arms) * plan.num_rounds
    multiples = f", multiples of {values.step}" if values.step > 1 else ""
    title = f"Crossover {plan.sweep_id} of {plan.recipe_name}: from where on is {second} faster than {first}?"
    lines = wrap(title, width)
    lines += wrap(
        f"{key} = {values.first}..{values.last}{multiples}: {values.num_values:,} values",
        width,
        first="  search    ",
    )
    counts = f"about {values.num_measured} values x 2 arms x {plan.num_rounds} rounds = {num_runs} runs"
    lines.append(f"  runs      {counts}")
    guess = format_guess(estimate_seconds(plan, num_runs, start_seconds=start_seconds))
    lines.append(f"  time      about {guess}, a first guess")
    return lines


def point_line(key: str, value: int, arms: tuple[str, str], found: Speedup | str) -> str:
    """Returns what was found at one value; how certain that is, all values together tell at the end."""
    first, second = _name(arms)
    if isinstance(found, str):
        return f"{_short(key)}={value}: too much: {found}"
    return f"{_short(key)}={value}: {second} has {found.ratio:.3g} times the speed of {first}"


def crossover_sentences(
    found: Crossover, key: str, arms: tuple[str, str], unequal: Sequence[Difference] = ()
) -> list[str]:
    """Returns what a search found, in plain sentences, and no more than its intervals support.

    Of arms that differ in what must be equal, it is not said which is the faster.
    """
    arms = _name(arms)
    if unequal:
        names = ", ".join(one.name for one in unequal)
        sentences = [f"Not comparable: the arms differ in {names}, so that it is not said where one is faster."]
    elif found.crossings:
        sentences = [_describe_crossing(crossing, key, arms) for crossing in found.crossings]
    else:
        sentences = [_describe_none(found, key, arms)] if found.points else []
    for value, reason in found.failures.items():
        if value < max(found.points):
            sentences.append(f"{_short(key)} {value:,} could not be measured: {reason}.")
    if found.largest_fit is not None:
        value = min(value for value in found.failures if value > found.largest_fit)
        sentences.append(
            f"The largest {_short(key)} that could be measured is {found.largest_fit:,}; {value:,} could not: "
            f"{found.failures[value]}."
        )
    if found.was_stopped:
        sentences.append("Interrupted: this is what was measured by then, and the search is not finished.")
    return sentences


def crossover_lines(
    found: Crossover, key: str, arms: tuple[str, str], width: int, unequal: Sequence[Difference] = ()
) -> list[str]:
    """Returns the sentences as a list."""
    sentences = crossover_sentences(found, key, arms, unequal)
    return ["Crossover", *(line for text in sentences for line in wrap(text, width, first="- "))]


def model_lines(
    models: tuple[StepModel, StepModel],
    predicted: Sequence[PredictedCrossing] | None,
    key: str,
    arms: tuple[str, str],
    width: int,
) -> list[str]:
    """Returns the cost models of both arms, and where they are predicted to be equally fast."""
    lines, names = ["Cost of a step, fitted to the runs"], _name(arms)
    label_width = max(map(len, names))
    for arm, model in zip(names, models, strict=True):
        lines += wrap(_describe_model(model), width, first=f"  {arm:{label_width}}  ")
    where = "By it, it is not bounded where, or whether, both arms are equally fast."
    if predicted == ():
        where = "By it, both arms are equally fast nowhere in the range that was measured."
    elif predicted:
        ends = "; ".join(f"{one.value:,.0f} (95 %: {one.low:,.0f} to {one.high:,.0f})" for one in predicted)
        where = f"By it, both arms are equally fast at {_short(key)} {ends}."
    lines += wrap(where, width, first="  ")
    if any(model.exchanges_untold for model in models):
        remark = "What the replicas exchange cannot be told apart from the rest by these runs, and is in its cost."
        lines += wrap(remark, width, first="  ")
    return lines


def crossover_to_json(
    found: Crossover,
    *,
    models: tuple[StepModel, StepModel] | None,
    predicted: Sequence[PredictedCrossing] | None,
    unequal: Sequence[Difference],
    key: str,
    arms: tuple[str, str],
) -> dict[str, Any]:
    """Returns a search as tables, lists, texts and finite numbers; ratios are those of speeds, second over first."""
    values = found.values
    return {
        "format_version": FORMAT_VERSION,
        "key": key,
        "range": {"low": values.first, "high": values.last, "step": values.step},
        "between": list(arms),
        "complete": not found.was_stopped,
        "crossings": [
            {"value": one.value, "low": one.low, "high": one.high, "second_leads_above": one.second_leads_above}
            for one in found.crossings
        ],
        "points": [{"value": value} | speedup_json(one) for value, one in found.points.items()],
        "failures": [{"value": value, "reason": reason} for value, reason in found.failures.items()],
        "largest_fit": found.largest_fit,
        "cost_models": None if models is None else [_model_to_json(model) for model in models],
        "predicted_crossings": None
        if predicted is None
        else [{"value": one.value, "low": one.low, "high": one.high} for one in predicted],
        "unequal": [{"name": one.name, "first": one.a, "second": one.b} for one in unequal],
        "sentences": crossover_sentences(found, key, arms, unequal),
    }


def _describe_crossing(crossing: Crossing, key: str, arms: tuple[str, str]) -> str:
    first, second = arms
    verb, below, above = (
        ("overtakes", "slower", "faster") if crossing.second_leads_above else ("falls behind", "faster", "slower")
    )
    return (
        f"{second} {verb} {first} at {_short(key)} {crossing.value:,.0f}: it is measurably {below} at "
        f"{crossing.low:,}, and measurably {above} at {crossing.high:,}."
    )


def _describe_none(found: Crossover, key: str, arms: tuple[str, str]) -> str:
    first, second = arms
    low, high = min(found.points), max(found.points)
    none = "Not found" if any(one.is_too_noisy for one in found.points.values()) else "None"
    start = f"{none} from {_short(key)} {low:,} to {high:,}: {second}"
    stretches = list(_find_stretches(found))
    if len(stretches) == 1 and stretches[0][0] == "too noisy to tell":
        lowest = min(one.low for one in found.points.values() if one.low is not None)
        highest = max(one.high for one in found.points.values() if one.high is not None)
        return (
            f"Not found, too noisy to tell, from {_short(key)} {low:,} to {high:,}: these runs leave open that "
            f"{second} has {lowest:.2f} to {highest:.2f} times the speed of {first}. More rounds (--repeats) or "
            "longer runs (--seconds) tell more."
        )
    if len(stretches) == 1 and stretches[0][0] == "no measurable difference":
        return f"{start} and {first} show no measurable difference at any of {len(found.points)} values."
    if len(stretches) == 1:
        ratios = sorted(one.ratio for one in found.points.values())
        ends = " to ".join(dict.fromkeys((f"{ratios[0]:.3g}", f"{ratios[-1]:.3g}")))
        return f"{start} is {stretches[0][0]} than {first} everywhere, at {ends} times its speed."
    parts = [f"{_FINDINGS.get(finding, finding)} {_describe_values(begin, end)}" for finding, begin, end in stretches]
    text = f"{start} is {', '.join(parts)}."
    supported = {lead(one) for one in found.points.values()} - {0}
    against = [
        value
        for value, one in found.points.items()
        if one.is_suggested and (1 if one.ratio > 1 else -1) not in supported
    ]
    if not against:
        return text
    return (
        f"{text} At {', '.join(f'{value:,}' for value in against)} its own interval suggests the contrary, which among "
        f"{len(found.points)} values may be chance: more rounds (--repeats) may tell."
    )


def _find_stretches(found: Crossover) -> Iterator[tuple[str, int, int]]:
    """Yields finding, first and last value of each stretch of points with one finding."""
    for finding, values in itertools.groupby(found.points, lambda value: found.points[value].finding):
        members = list(values)
        yield finding, members[0], members[-1]


def _describe_values(start: int, end: int) -> str:
    return f"at {start:,}" if start == end else f"from {start:,} to {end:,}"


def _describe_model(model: StepModel) -> str:
    amount, unit = _UNITS[model.unit]
    parts = [_time(model.fixed), f"{_time(model.per_work * amount)} {unit}"]
    if model.per_byte is not None:  # what else grows as gradients do, such as the update, is in it
        parts.append(f"{_time(model.per_byte * 2**20)} a MiB of gradients, for their exchange and what grows with them")
    return f"{' + '.join(parts)} (within {100 * model.largest_error:.1f} % at {model.num_values} values)"


def _model_to_json(model: StepModel) -> dict[str, Any]:
    return {
        "fixed_seconds": model.fixed,
        "seconds_per_unit": model.per_work,
        "unit": model.unit,
        "seconds_per_byte": model.per_byte,
        "num_values": model.num_values,
        "largest_error": model.largest_error,
    }


def _time(seconds: float) -> str:
    """Returns three significant digits in the unit that suits them."""
    seconds = float(f"{seconds:.3g}")  # so that 999.9 us is 1 ms
    for scale, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _name(arms: tuple[str, str]) -> tuple[str, str]:
    """Returns what sentences call two arms, of their labels."""
    names = name_arms({arm: backend_in(arm) for arm in arms})
    return names[arms[0]], names[arms[1]]


def _short(key: str) -> str:
    return key.rpartition(".")[2]
