"""What a comparison shows, in plain sentences, and no more than its intervals support."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from tfbench.analysis.comparison.back_ends import describe_differences, find_names
from tfbench.analysis.comparison.causes import describe_cause
from tfbench.analysis.comparison.comparison import Comparison, Entry, Row
from tfbench.analysis.comparison.equality import BETWEEN_MACHINES
from tfbench.analysis.comparison.fastest_verdict import fastest_sentences
from tfbench.analysis.comparison.machines import machine_sentences, place_sentences
from tfbench.analysis.comparison.scaling import find_scaling
from tfbench.analysis.comparison.scaling_verdict import scaling_sentences
from tfbench.recipe.sections import CUTTING_STRATEGIES
from tfbench.records.sweep import AGAIN, BATCH_KEY, describe_setting, format_value
from tfbench.wording import count, describe_span

_NUM_NAMED = 6  # settings that a sentence names; more make nobody wiser


def find_verdict(comparison: Comparison) -> tuple[str, ...]:
    """Returns the sentences of the verdict, the most important first.

    First of several machines which has the best figures. Then which arm to use for which settings, if
    that can be said; of one arm alone, between what its speeds lie. For each arm beside the baseline: for which
    settings it is faster, slower, not to be told apart, or not measured; for an arm of several replicas that costs,
    what its steps are made of. Where arms differ in their number of replicas alone, it is told by that number; where in
    their back end alone, by what that is called.
    """
    scaling, names = find_scaling(comparison), find_names(comparison)
    found = list(machine_sentences(comparison, lambda rows: _name(rows, comparison)))
    if comparison.arms[1:] == (f"{comparison.baseline} {AGAIN}",):
        return (_by_chance(comparison), *_missing(comparison, names))
    if scaling:
        found += scaling_sentences(scaling)
    else:
        others = [arm for arm in comparison.arms if arm != comparison.baseline]
        found += [*_winner(comparison, names), *(text for arm in others for text in _of_arm(comparison, arm, names))]
        found += [] if others else _range_of_speeds(comparison)
    return (*found, *describe_differences(comparison), *_limits(comparison, names))


def _by_chance(comparison: Comparison) -> str:
    """Says what differs where every setup was held against itself."""
    found = [(row, one) for row in comparison.rows if (one := row.entries[comparison.arms[1]].speedup)]
    if not (known := [(row, one) for row, one in found if one.low is not None]):
        return "Not judged: two rounds are needed (--repeats 3)."
    row, most = max(known, key=lambda place: abs(math.log(place[1].ratio)))
    where = f" ({_list([row])})" if row.setting else ""
    text = f"By chance alone, speeds differ by up to {most.ratio:.2f}x [{most.low:.2f}, {most.high:.2f}]{where}"
    wrong = [row for row, one in known if one.judgement in ("faster", "slower")]
    text += f"; judged different from itself: {_list(wrong) if wrong else 'nothing'}."
    is_noisy = any(one.is_too_noisy for _, one in known)
    return f"{text} Too noisy: use more rounds (--repeats) or longer runs (--seconds)." if is_noisy else text


def _of_arm(comparison: Comparison, arm: str, names: Mapping[str, str]) -> Iterator[str]:
    judged: dict[str, list[Row]] = {}
    for row in comparison.rows:
        speedup = row.entries[arm].speedup
        if speedup:
            judged.setdefault(speedup.finding, []).append(row)
    name, baseline = names[arm], names[comparison.baseline]
    for judgement, text in (
        ("faster", f"{name} is faster than {baseline}"),
        ("slower", f"{name} is slower than {baseline}"),
    ):
        rows = judged.get(judgement, [])
        if rows:
            cause = _cause(rows, arm, comparison.baseline) if judgement == "slower" else ""
            yield f"{text} for {_name(rows, comparison)}: {_range(rows, arm)}.{cause}"
    if rows := judged.get("no measurable difference", []):
        yield f"{name} and {baseline} show no measurable difference for {_name(rows, comparison)}.{_suggest(rows, arm)}"
    if rows := judged.get("too noisy to tell", []):
        yield (
            f"{name} and {baseline}: too noisy to tell for {_name(rows, comparison)}: these runs leave open "
            f"{_possible(rows, arm)} times the speed. More rounds (--repeats) or longer runs tell more."
        )
    if rows := judged.get("not judged", []):
        are_all = 1 < len(rows) == len(comparison.rows)
        told = f"judged for none of {len(rows)} settings" if are_all else f"not judged for {_name(rows, comparison)}"
        yield f"{name} is {told}: two rounds are needed (--repeats 3)."


def _suggest(rows: Sequence[Row], arm: str) -> str:
    """Names the settings whose own interval says more than all of them together support."""
    found = [row for row in rows if (speedup := row.entries[arm].speedup) and speedup.is_suggested]
    if not found:
        return ""
    num = max(speedup.num_family for row in found if (speedup := row.entries[arm].speedup))
    return (
        f" By itself {_list(found)} would suggest one, which among {num} comparisons may be chance: more rounds "
        "(--repeats) may tell."
    )


def _cause(rows: Sequence[Row], arm: str, baseline: str) -> str:
    """Says what the slower steps are made of, and what would measure what they take longer for."""
    ordered = sorted(rows, key=lambda row: _ratio(row.entries[arm]), reverse=True)
    return describe_cause([row.entries[arm] for row in ordered], ordered[-1].entries[baseline])


def _winner(comparison: Comparison, names: Mapping[str, str]) -> Iterator[str]:
    """Says which arm is best for every setting, or for which; nothing where settings are of several machines."""
    hosts = {frozenset(entry.host for entry in row.entries.values() if entry.runs) for row in comparison.rows}
    if len(hosts - {frozenset()}) > 1:
        return
    others = [arm for arm in comparison.arms if arm != comparison.baseline]
    if len(others) > 1:
        yield from fastest_sentences(comparison, names, lambda rows: _name(rows, comparison))
        return
    rows = [row for row in comparison.rows if row.entries[comparison.baseline].speed]
    if len(rows) < 2 or not others:
        return
    (arm,) = others
    judgements = [entry.speedup.judgement if (entry := row.entries[arm]).speedup else "not measured" for row in rows]
    if all(judgement == "slower" for judgement in judgements):
        yield f"Use {names[comparison.baseline]} for every setting that was measured."
    elif all(judgement == "faster" for judgement in judgements):
        yield f"Use {names[arm]} for every setting that was measured."
    else:
        yield from _turning_point(comparison, arm, rows, names)


def _range_of_speeds(comparison: Comparison) -> Iterator[str]:
    """Says between what the speeds of the one arm lie, where it was measured at several settings."""
    speeds = {speed: row for row in comparison.rows if (speed := row.entries[comparison.baseline].speed)}
    if len(speeds) > 1:
        ends = (speeds[min(speeds)], speeds[max(speeds)])
        low, high = (f"{_speed(row.entries[comparison.baseline])} for {_list([row])}" for row in ends)
        yield f"One arm was measured, {comparison.baseline}: its speed lies between {low} and {high}."


def _turning_point(comparison: Comparison, arm: str, rows: Sequence[Row], names: Mapping[str, str]) -> Iterator[str]:
    """Says between which batch sizes an arm overtakes, for each network in which it does so once.

    Where one of the two sides is only suggested, so is the turning point; where both are, nothing is said.
    """
    if BATCH_KEY not in comparison.keys:
        return
    networks: dict[str, list[Row]] = {}
    for row in rows:
        rest = {key: value for key, value in row.setting.items() if key != BATCH_KEY}
        networks.setdefault(describe_setting(rest), []).append(row)
    for network, own in networks.items():
        own = sorted(own, key=lambda row: row.global_batch_size or 0)
        where = f" with {network}" if network else ""
        for counts_suggested in (False, True):
            turns = _turns([(row, _sign(row.entries[arm], counts_suggested=counts_suggested)) for row in own])
            if len(turns) != 1:
                continue
            (last, sign), (first, _) = turns[0]
            if not any(_sign(row.entries[arm], counts_suggested=False) for row in (last, first)):
                continue
            ends = (comparison.baseline, arm) if sign < 0 else (arm, comparison.baseline)
            better, worse = (names[one] for one in ends)
            if counts_suggested:
                yield (
                    f"Suggested, and not supported by all settings together: {better} up to batch "
                    f"{last.global_batch_size:,}{where} and {worse} from {first.global_batch_size:,} on. More rounds "
                    "(--repeats) may tell."
                )
            else:
                yield (
                    f"Use {better} up to batch {last.global_batch_size:,}{where} and {worse} from "
                    f"{first.global_batch_size:,} on; in between it was not measured, or shows no difference."
                )
            break


def _turns(signed: Sequence[tuple[Row, int]]) -> list[tuple[tuple[Row, int], tuple[Row, int]]]:
    clear = [(row, sign) for row, sign in signed if sign]
    return [(before, after) for before, after in itertools.pairwise(clear) if before[1] != after[1]]


def _sign(entry: Entry, *, counts_suggested: bool) -> int:
    if entry.speedup is None:
        return 0
    if counts_suggested and entry.speedup.is_suggested:
        return 1 if entry.speedup.ratio > 1 else -1
    return {"faster": 1, "slower": -1}.get(entry.speedup.judgement, 0)


def _missing(comparison: Comparison, names: Mapping[str, str]) -> Iterator[str]:
    """Says which points have no speed and why; of those that were not reached, how many."""
    points = [(row, entry) for row in comparison.rows for entry in row.entries.values()]
    unreached = [entry for _, entry in points if entry.outcome == "MISSING"]
    failed = [(row, entry) for row, entry in points if entry.outcome not in ("FINISHED", "MISSING")]
    for row, entry in failed[:_NUM_NAMED]:
        setting = describe_setting(row.setting) or "the recipe as it is"
        reason = f"{entry.outcome}, {entry.reason.rstrip('.')}"
        yield f"No speed, or not in every round, of {names[entry.arm]} for {setting}: {reason}."
    if len(failed) > _NUM_NAMED:
        yield f"{len(failed) - _NUM_NAMED} more points have no speed, or not in every round."
    if unreached:
        never = sum(entry.speed is None for entry in unreached)
        at_all = f", {never} of them not at all" if never else ""
        how = "at all" if never == len(unreached) else f"in every round{at_all}"
        were = "was" if len(unreached) == 1 else "were"
        yield f"{len(unreached)} of {len(points)} points {were} not measured {how}."


def _other_runs(comparison: Comparison, names: Mapping[str, str]) -> Iterator[str]:
    """Says which speeds are of more runs than the speed-up beside them, which then is not that of these speeds."""
    for arm in comparison.arms:
        by_rounds: dict[int, list[Row]] = {}
        for row in comparison.rows:
            entry, base = row.entries[arm], row.entries[comparison.baseline]
            speedup = entry.speedup
            if speedup and speedup.is_paired and speedup.num < max(len(entry.runs), len(base.runs)):
                by_rounds.setdefault(speedup.num, []).append(row)
        for num, rows in by_rounds.items():
            yield (
                f"The speed-up of {names[arm]} for {_name(rows, comparison)} is of the {count(num, 'round')} that both "
                "arms have; speeds are of all runs, so that dividing them gives another figure."
            )


def _limits(comparison: Comparison, names: Mapping[str, str]) -> Iterator[str]:
    if comparison.shares_cores:
        has_parts = any(arm.partition(" ")[0] in CUTTING_STRATEGIES for arm in comparison.shares_cores)
        yield (
            f"The {'devices' if has_parts else 'replicas'} of {', '.join(comparison.shares_cores)} share the cores of "
            "one processor: this shows that the strategy works and what it costs, and is no statement about more "
            "hardware."
        )
    yield from _missing(comparison, names)
    yield from _other_runs(comparison, names)
    yield from _unequal(comparison)
    yield from place_sentences(comparison, lambda rows: _name(rows, comparison))
    left_out = [run for row in comparison.rows for entry in row.entries.values() for run in entry.left_out]
    if left_out:
        yield (
            f"{len(left_out)} runs are left out, since newer runs of their point differ from them in what must be "
            "equal (versions, settings, network); tfbench diff RUN RUN says in what."
        )
    if comparison.is_synthetic:
        yield "Synthetic data: only speeds count, accuracies say nothing of the real task."


def _unequal(comparison: Comparison) -> Iterator[str]:
    """Says in what arms differ that must be equal, and that what machines differ in is none of it."""
    between_machines: set[str] = set()
    names: set[str] = set()
    for row in comparison.rows:
        base = row.entries[comparison.baseline]
        for entry in row.entries.values():
            own = {difference.name for difference in entry.unequal}
            if entry.host != base.host and not entry.speedup:
                between_machines |= own & {"hostname"}
                own -= set(BETWEEN_MACHINES)
            names |= own
    if between_machines:
        yield (f"Speed-ups are within a machine: an arm of another one than {comparison.baseline} has none over it.")
    if names:
        yield f"Not comparable: some arms differ in {', '.join(sorted(names))}."


def _name(rows: Sequence[Row], comparison: Comparison) -> str:
    """Names settings; where they are many, those that are not among them, if these are fewer."""
    others = [row for row in comparison.rows if row not in rows]
    if not others and len(rows) > 1:
        return f"all {len(rows)} settings"
    if len(rows) > _NUM_NAMED and len(others) < len(rows):
        return f"{len(rows)} of {len(comparison.rows)} settings, all but {_list(others)}"
    return _list(rows)


def _list(rows: Sequence[Row]) -> str:
    more = f" and {len(rows) - _NUM_NAMED} more" if len(rows) > _NUM_NAMED else ""
    keys = {tuple(row.setting) for row in rows}
    if len(keys) == 1 and len(own := keys.pop()) == 1:  # its name once
        values = ", ".join(format_value(row.setting[own[0]]) for row in rows[:_NUM_NAMED])
        return f"{own[0].rpartition('.')[2]}={values}{more}"
    named = [describe_setting(row.setting) or "the recipe as it is" for row in rows[:_NUM_NAMED]]
    return "; ".join(named) + more


def _range(rows: Sequence[Row], arm: str) -> str:
    ratios = [speedup.ratio for row in rows if (speedup := row.entries[arm].speedup)]
    return f"{describe_span(ratios, ' times')} its speed"


def _speed(entry: Entry) -> str:
    return describe_span([entry.speed or math.nan], " samples/s")


def _possible(rows: Sequence[Row], arm: str) -> str:
    """Returns what the intervals leave open, from the lowest to the highest ratio."""
    speedups = [speedup for row in rows if (speedup := row.entries[arm].speedup)]
    low = min(one.low for one in speedups if one.low is not None)
    high = max(one.high for one in speedups if one.high is not None)
    return f"{low:.2f} to {high:.2f}"


def _ratio(entry: Entry) -> float:
    return entry.speedup.ratio if entry.speedup else math.nan
