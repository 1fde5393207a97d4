"""What a comparison shows, in plain sentences, and no more than its intervals support."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from tfbench.analysis.comparison.back_ends import describe_differences, find_names
from tfbench.analysis.comparison.causes import describe_cause
from tfbench.analysis.comparison.comparison import Comparison, Row
from tfbench.analysis.comparison.equality import BETWEEN_MACHINES
from tfbench.analysis.comparison.fastest import Standing, find_standings
from tfbench.analysis.comparison.machines import machine_sentences, place_sentences
from tfbench.analysis.comparison.scaling import Scaling, find_scaling
from tfbench.analysis.comparison.speedup import Finding, Speedup
from tfbench.records.sweep import AGAIN, BATCH_KEY, describe_setting, format_value
from tfbench.wording import count, describe_span, join_words

_TEMPLATES: dict[Finding, str] = {
    "faster": "{arm} {verb} faster than {base}{where}: {ratio}.{why}",
    "slower": "{arm} {verb} slower than {base}{where}: {ratio}.{why}",
    "no measurable difference": "{arm} and {base} show no measurable difference{where}: {ratio}.",
    "too noisy to tell": (
        "Inconclusive{where}: {arm} may be {open} as fast as {base}. Use more rounds (--repeats) or longer runs "
        "(--seconds)."
    ),
    "not judged": "{arm} {verb} not judged{where} (one run): {ratio}.{advice}",
}
_TURNING_POINT = "Use {uses}."
_FAILED = "{arm} failed{where}: {outcome}, {reason}."
_NUM_NAMED = 6  # settings that a sentence names; more make nobody wiser


def find_verdict(comparison: Comparison) -> tuple[str, ...]:
    """Returns the sentences of the verdict, the most important first.

    Of several machines the one with the best figures; then which arm to use where, if that can be said; for each arm
    beside the baseline where it is faster, slower, not to be told apart, or not judged; then what limits all that.
    Arms that differ in their number of devices alone are called by it.
    """
    scaling = find_scaling(comparison)
    names = _name_devices(scaling) if scaling else find_names(comparison)
    found = list(machine_sentences(comparison, lambda rows: _where(rows, comparison)))
    if comparison.arms[1:] == (f"{comparison.baseline} {AGAIN}",):
        return (_by_chance(comparison), *_missing(comparison, names))
    others = [arm for arm in comparison.arms if arm != comparison.baseline]
    found += _uses(comparison, names)
    found += scaling.between_modes() if scaling else ()
    for arm in others:
        found += _of_arm(comparison, arm, names, scaling)
    found += [] if others else _range_of_speeds(comparison)
    if scaling and scaling.kind == "weak":
        found.append("Weak scaling: the global batch grows with the devices. Compare speed, not accuracy.")
    return (*found, *describe_differences(comparison), *_limits(comparison, names))


def _name_devices(scaling: Scaling) -> dict[str, str]:
    """Returns what arms are called that differ in their number of devices, or in how these share the work."""
    noun = "replica" if scaling.has_replicas else "device"
    places = {point.place: point.entry for point in scaling.points} | scaling.missing
    return {
        entry.arm: f"{place.num_devices} {noun}{'s' * (place.num_devices > 1)}"
        + (f" ({place.mode})" if place.mode and not scaling.has_replicas else "")
        for place, entry in places.items()
    }


def _by_chance(comparison: Comparison) -> str:
    """Says what differs where every setup was held against itself."""
    found = [(row, one) for row in comparison.rows if (one := row.entries[comparison.arms[1]].speedup)]
    if not (known := [(row, one) for row, one in found if one.low is not None]):
        return "Not judged: two rounds are needed (--repeats 3)."
    row, most = max(known, key=lambda place: abs(math.log(place[1].ratio)))
    where = f" ({_list([row])})" if row.setting else ""
    text = f"By chance alone, speeds differ by up to {_interval(most)}{where}"
    wrong = [row for row, one in known if one.judgement in ("faster", "slower")]
    text += f"; judged different from itself: {_list(wrong) if wrong else 'nothing'}."
    is_noisy = any(one.is_too_noisy for _, one in known)
    return f"{text} Too noisy: use more rounds (--repeats) or longer runs (--seconds)." if is_noisy else text


def _of_arm(comparison: Comparison, arm: str, names: Mapping[str, str], scaling: Scaling | None) -> Iterator[str]:
    """Yields a sentence for each finding that an arm has beside the baseline."""
    known = [(row, one) for row in comparison.rows if (one := row.entries[arm].speedup)]
    for finding, template in _TEMPLATES.items():
        if not (found := [(row, one) for row, one in known if one.finding == finding and not one.is_suggested]):
            continue
        row, _ = min(found, key=lambda place: place[1].ratio)
        low, high = min(one.low or 0.0 for _, one in found), max(one.high or 0.0 for _, one in found)
        yield template.format(
            arm=names[arm],
            verb="are" if scaling else "is",
            base=names[comparison.baseline],
            where=_where([row for row, _ in found], comparison),
            ratio=_ratios([one for _, one in found]) + (scaling.describe_efficiency(arm) if scaling else ""),
            advice="" if _is_incomplete(comparison) else " Use --repeats 3.",
            open=f"{low:.2f}x to {high:.2f}x",
            why=describe_cause(row.entries[arm], row.entries[comparison.baseline]) if finding == "slower" else "",
        )
    if hints := [(row, one) for row, one in known if one.is_suggested]:  # its own interval says more than the table
        num = max(one.num_family for _, one in hints)
        where = _where([row for row, _ in hints], comparison)
        yield (
            f"A hint only{where}: {names[arm]} may be {_ratios([one for _, one in hints])} as fast as "
            f"{names[comparison.baseline]}, not significant among {num} comparisons. Use more rounds (--repeats)."
        )


def _uses(comparison: Comparison, names: Mapping[str, str]) -> Iterator[str]:
    """Says which arm to use for which settings; nothing where settings are of several machines, or none is fastest."""
    hosts = {frozenset(entry.host for entry in row.entries.values() if entry.runs) for row in comparison.rows}
    rows = [row for row in comparison.rows if any(entry.runs for entry in row.entries.values())]
    if len(hosts - {frozenset()}) > 1 or len(comparison.arms) < 2 or (len(comparison.arms) == 2 and len(rows) < 2):
        return
    standings = [one for one in find_standings(comparison) if one.row in rows]
    clear = [one for one in standings if len(one.fastest) == 1]
    if not clear:
        if len(standings) == 1 and 1 < len(standings[0].fastest) < len(comparison.arms):
            yield f"{join_words([names[arm] for arm in standings[0].fastest])} are too close to call."
        return
    if len({one.fastest for one in standings}) == 1:
        where = " everywhere" if len(standings) > 1 else ""
        lead = _lead(clear, names) if len(comparison.arms) > 2 else ""
        yield _TURNING_POINT.format(uses=f"{names[clear[0].fastest[0]]}{where}{lead}")
        return
    networks: dict[str, list[str]] = {}
    for network, own in _by_network(standings).items():
        if any(len(one.fastest) == 1 for one in own):
            networks.setdefault(_by_batch_size(own, names), []).append(network)
    for text, of in networks.items():
        yield f"With {'; '.join(of)}: {text}" if any(of) else text


def _by_network(standings: Sequence[Standing]) -> dict[str, list[Standing]]:
    """Returns the standings of each network, or whatever else is varied, by batch size."""
    networks: dict[str, list[Standing]] = {}
    for one in sorted(standings, key=lambda one: one.row.global_batch_size or 0):
        rest = {key: value for key, value in one.row.setting.items() if key != BATCH_KEY}
        networks.setdefault(describe_setting(rest), []).append(one)
    return networks


def _by_batch_size(standings: Sequence[Standing], names: Mapping[str, str]) -> str:
    """Says what to use up to which batch size, and at which the runs do not decide."""
    uses, open_at, unmeasured = list[str](), list[str](), list[str]()
    is_turning = len({one.fastest for one in standings if len(one.fastest) == 1}) > 1
    for fastest, own in ((key, list(own)) for key, own in itertools.groupby(standings, key=lambda one: one.fastest)):
        low, high = (one.row.global_batch_size or 0 for one in (own[0], own[-1]))
        span = f"{low:,}" if len(own) == 1 else f"{low:,} to {high:,}"
        where = f" {'at' if len(own) == 1 else 'from'} batch {span}"
        if is_turning and own[0] is standings[0]:
            where = f" up to batch {high:,}"
        elif is_turning and own[-1] is standings[-1]:
            where = f" from batch {low:,}"
        elif len(own) == len(standings):
            where = " at every batch size" if len(own) > 1 else ""
        if len(fastest) == 1:
            uses.append(names[fastest[0]] + where)
        else:
            (open_at if fastest else unmeasured).append(span)
    text = _TURNING_POINT.format(uses=join_words(uses))
    text += f" Undecided at batch {', '.join(open_at)}." if open_at else ""
    return text + (f" Not all are measured, or comparable, at batch {', '.join(unmeasured)}." if unmeasured else "")


def _lead(own: Sequence[Standing], names: Mapping[str, str]) -> str:
    ratios = [one.ratio for one in own if one.ratio is not None]
    followers = {one.next_arm for one in own if one.next_arm}
    following = f", {names[followers.pop()]}" if len(followers) == 1 else ""
    return f": {describe_span(ratios, 'x')} the speed of the next{following}" if ratios else ""


def _is_incomplete(comparison: Comparison) -> bool:
    """Says whether runs of a sweep are still to be made, which may judge what is not judged yet."""
    return any(entry.outcome == "MISSING" for row in comparison.rows for entry in row.entries.values())


def _range_of_speeds(comparison: Comparison) -> Iterator[str]:
    """Says between what the speeds of the one arm lie, where it was measured at several settings."""
    speeds = {speed: row for row in comparison.rows if (speed := row.entries[comparison.baseline].speed)}
    if len(speeds) > 1:
        low, high = min(speeds), max(speeds)
        ends = (f"{describe_span([one], ' samples/s')} for {_list([speeds[one]])}" for one in (low, high))
        yield f"Only {comparison.baseline} was measured: from {' to '.join(ends)}."


def _missing(comparison: Comparison, names: Mapping[str, str]) -> Iterator[str]:
    """Says which points failed and why; of those that were not reached, how many."""
    points = [(row, entry) for row in comparison.rows for entry in row.entries.values()]
    unreached = [entry for _, entry in points if entry.outcome == "MISSING"]
    failed = [(row, entry) for row, entry in points if entry.outcome not in ("FINISHED", "MISSING")]
    for row, entry in failed[:_NUM_NAMED]:
        where = f" for {_list([row])}" if row.setting else ""
        reason = entry.reason.rstrip(".")
        yield _FAILED.format(arm=names[entry.arm], where=where, outcome=entry.outcome, reason=reason)
    if len(failed) > _NUM_NAMED:
        yield f"{count(len(failed) - _NUM_NAMED, 'more point')} failed, in one round or more."
    if unreached:
        never = sum(entry.speed is None for entry in unreached)
        told = [f"{never} without runs"] * (never > 0)
        told += [f"{len(unreached) - never} with fewer than planned"] * (never < len(unreached))
        yield f"Incomplete: of {count(len(points), 'point')}, {join_words(told)}."


def _limits(comparison: Comparison, names: Mapping[str, str]) -> Iterator[str]:
    if comparison.shares_cores:
        yield f"The devices of {', '.join(comparison.shares_cores)} share cores: this measures overhead, not scaling."
    yield from _missing(comparison, names)
    entries = [(row, entry) for row in comparison.rows for entry in row.entries.values()]
    fewer = [
        entry
        for row, entry in entries
        if (one := entry.speedup)
        and one.is_paired
        and one.num < max(len(entry.runs), len(row.entries[comparison.baseline].runs))
    ]
    if fewer:
        arms = join_words(list(dict.fromkeys(names[entry.arm] for entry in fewer)))
        yield f"{arms}: speed-ups use common rounds only, speeds use all runs, so their quotient differs."
    yield from _unequal(comparison)
    yield from place_sentences(comparison, lambda rows: _where(rows, comparison))
    if num := sum(len(entry.left_out) for _, entry in entries):
        yield (
            f"{count(num, 'older run')} left out: versions, settings or network differ from newer runs of the same "
            "point. Compare with `tfbench diff RUN RUN`."
        )
    if comparison.is_synthetic:
        yield "Synthetic data: compare speed, ignore accuracy."


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
        yield f"Speed-ups compare runs of one machine: others than that of {comparison.baseline} have none."
    if names:
        yield f"Not comparable: arms differ in {', '.join(sorted(names))}."


def _where(rows: Sequence[Row], comparison: Comparison) -> str:
    """Returns " for batch 32, 64"; where rows are many those that are not among them, if these are fewer."""
    others = [row for row in comparison.rows if row not in rows]
    if not others:
        return f" at all {len(rows)} settings" if len(rows) > 1 else f" for {_list(rows)}" if rows[0].setting else ""
    if len(rows) > _NUM_NAMED and len(others) < len(rows):
        return f" at {len(rows)} of {len(comparison.rows)} settings, all but {_list(others)}"
    return f" for {_list(rows)}"


def _list(rows: Sequence[Row]) -> str:
    more = f" and {len(rows) - _NUM_NAMED} more" if len(rows) > _NUM_NAMED else ""
    keys = {tuple(row.setting) for row in rows}
    if len(keys) == 1 and len(own := keys.pop()) == 1:  # its name once
        values = ", ".join(format_value(row.setting[own[0]]) for row in rows[:_NUM_NAMED])
        return f"{'batch ' if own[0] == BATCH_KEY else own[0].rpartition('.')[2] + '='}{values}{more}"
    named = [describe_setting(row.setting) or "the recipe as it is" for row in rows[:_NUM_NAMED]]
    return "; ".join(named) + more


def _ratios(found: Sequence[Speedup]) -> str:
    """Returns "0.68x [0.59, 0.77]" of one setting, "0.50x to 0.67x" of several."""
    ratios = [one.ratio for one in found]
    low, high = f"{min(ratios):.2f}x", f"{max(ratios):.2f}x"
    return _interval(found[0]) if len(found) == 1 else low if low == high else f"{low} to {high}"


def _interval(one: Speedup) -> str:
    interval = "" if one.low is None or one.high is None else f" [{one.low:.2f}, {one.high:.2f}]"
    return f"{one.ratio:.2f}x{interval}"
