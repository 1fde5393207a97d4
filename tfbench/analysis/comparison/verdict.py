"""What a comparison shows, in plain sentences, and no more than its intervals support."""

import math
from collections.abc import Iterator, Mapping, Sequence

from tfbench.analysis.comparison.brief import name_setups
from tfbench.analysis.comparison.comparison import Comparison, Entry, Row, describe_where
from tfbench.analysis.comparison.fastest import which_to_use
from tfbench.analysis.comparison.judging import Finding, Speedup, describe_ratio
from tfbench.analysis.comparison.machines import machine_caveats, machine_sentences, spans_machines
from tfbench.analysis.comparison.scaling import Scaling, find_scaling
from tfbench.analysis.run.warnings import MIN_HEADROOM
from tfbench.recipe.backend_support import title_of
from tfbench.records.sweep import AGAIN
from tfbench.wording import count, format_share, join_words

_TEMPLATES: dict[Finding, str] = {
    "faster": "{setup} {verb} faster than {base}{where}: {ratio}.",
    "slower": "{setup} {verb} slower than {base}{where}: {ratio}.",
    "no measurable difference": "{setup} and {base} show no measurable difference{where}: {ratio}.",
    "too noisy to tell": "Inconclusive{where}: {setup} may be {open} as fast as {base}.",
    "not judged": "{setup} {verb} not judged{where} (one run): {ratio}.",
}
_UNKNOWN = "Inconclusive{where}: the runs vary too much to compare {setup} with {base}."
_UNKNOWN_ABOVE = 10.0  # times the low end of what may be: a range that tells nothing
# setups beside the baseline; of more only those are told of which something is not known
_NUM_TOLD = 2
_NUM_FAILED = 4  # reasons of failures that are told; the table marks all


def find_verdict(comparison: Comparison) -> tuple[str, ...]:
    """Returns the sentences of the verdict, the most important first.

    Of several machines the one with the best figures; then which setup to use where, if that can be
    said; for each beside the baseline where it is faster, slower, not to be told apart, or not
    judged; what failed or is missing; and what would tell more. Setups that differ in their number
    of devices alone are called by it.
    """
    scaling = find_scaling(comparison)
    names = _find_names(comparison, scaling)
    if comparison.setups[1:] == (f"{comparison.baseline} {AGAIN}",):
        return (_by_chance(comparison), *_missing(comparison, names))
    others = [setup for setup in comparison.setups if setup != comparison.baseline]
    told = list(which_to_use(comparison, names))
    found = [*machine_sentences(comparison), *_unequal(comparison), *told]
    is_told = bool(told) and len(others) > _NUM_TOLD
    for setup in others:
        found += _of_setup(comparison, setup, names, scaling, only_open=is_told)
    return (*found, *_missing(comparison, names), *_advice(comparison))


def _find_names(comparison: Comparison, scaling: Scaling | None) -> dict[str, str]:
    """Returns what sentences call setups.

    By number of devices, backend or label, whatever they differ in.
    """
    if scaling is None:
        runs = [
            (setup, entry.runs)
            for row in comparison.rows
            for setup, entry in row.entries.items()
            if entry.runs
        ]
        return name_setups(comparison.setups, {setup: own[0].backend for setup, own in runs})
    noun = "replica" if scaling.has_replicas else "device"
    names = {setup: setup for setup in comparison.setups}
    for point in scaling.points:
        mode = f" ({point.mode})" if point.mode and not scaling.has_replicas else ""
        names[point.entry.setup] = f"{count(point.num_devices, noun)}{mode}"
    return names


def _by_chance(comparison: Comparison) -> str:
    """Says what differs where every setup was compared with itself."""
    found = [
        (row, one) for row in comparison.rows if (one := row.entries[comparison.setups[1]].speedup)
    ]
    if not (known := [(row, one) for row, one in found if one.low is not None]):
        return "Not judged: two rounds are needed (--repeats 3)."
    row, most = max(known, key=lambda place: abs(math.log(place[1].ratio)))
    text = (
        f"Largest difference by chance: {describe_ratio(most)}{describe_where([row], comparison)}."
    )
    if wrong := [row for row, one in known if one.judgement in ("faster", "slower")]:
        text += f" Judged different from itself{describe_where(wrong, comparison)}."
    else:
        row, noisiest = max(known, key=lambda place: place[1].noise_limit or 0.0)
        where = describe_where([row], comparison) if len(known) > 1 else ""
        text += (
            " Such runs do not show differences below"
            f" {format_share(noisiest.noise_limit or 0.0)}{where}."
        )
    is_noisy = any(one.is_too_noisy for _, one in known)
    return f"{text} Try more rounds (--repeats) or longer runs (--seconds)." if is_noisy else text


def _of_setup(
    comparison: Comparison,
    setup: str,
    names: Mapping[str, str],
    scaling: Scaling | None,
    *,
    only_open: bool,
) -> Iterator[str]:
    """Yields what was found of a setup beside the baseline, a sentence a finding.

    Nothing if all of it is told.
    """
    known = [(row, one) for row in comparison.rows if (one := row.entries[setup].speedup)]
    hints = [
        (row, one) for row, one in known if one.is_suggested
    ]  # whose own interval says more than the table
    found = {
        name: [place for place in known if place[1].finding == name and place not in hints]
        for name in _TEMPLATES
    }
    unclear = [places for name, places in found.items() if name not in ("faster", "slower")]
    if only_open and not hints and not any(unclear):
        return
    is_several = names[setup][:1].isdigit() and names[setup][:2] != "1 "  # "2 replicas"
    efficiency = scaling.describe_efficiency(setup) if scaling else ""
    for name, places in found.items():
        if not places:
            continue
        low = min(one.low or 0.0 for _, one in places)
        high = max(one.high or 0.0 for _, one in places)
        is_unknown = name == "too noisy to tell" and high > _UNKNOWN_ABOVE * low
        sentence = (_UNKNOWN if is_unknown else _TEMPLATES[name]).format(
            setup=names[setup],
            verb="are" if is_several else "is",
            base=names[comparison.baseline],
            where=describe_where([row for row, _ in places], comparison),
            ratio=_ratios([one for _, one in places]) + efficiency,
            open=f"{low:.2f}x to {high:.2f}x",
        )
        slowest = min(places, key=lambda place: place[1].ratio)[0]
        yield sentence + (_describe_cause(slowest.entries[setup]) if name == "slower" else "")
    if hints:
        where = describe_where([row for row, _ in hints], comparison)
        family = max(one.num_family for _, one in hints)
        ratio = _ratios([one for _, one in hints])
        yield (
            f"{names[setup]} may differ{where}: {ratio}, not significant among {family}"
            " comparisons."
        )


def _describe_cause(entry: Entry) -> str:
    """Returns what was measured that makes a setup slower: a sentence after a blank.

    "" where nothing is known.
    """
    share = entry.input_share
    collectives = entry.transfer_share
    if (
        share is not None and 1 / MIN_HEADROOM < share <= 1
    ):  # more than the step it is part of tells nothing
        return f" The input pipeline alone takes {100 * share:.0f} % of a step."
    return f" Communication takes {100 * collectives:.0f} % of a step." if collectives else ""


def _advice(comparison: Comparison) -> Iterator[str]:
    """Yields what would tell more, where something is open that no planned run is going to tell."""
    speedups = [
        entry.speedup for row in comparison.rows for entry in row.entries.values() if entry.speedup
    ]
    is_going_on = any(
        entry.outcome == "MISSING" for row in comparison.rows for entry in row.entries.values()
    )
    if is_going_on or spans_machines(comparison):
        return
    if any(one.is_too_noisy or one.is_suggested for one in speedups):
        yield "Try more rounds (--repeats) or longer runs (--seconds)."
    elif any(one.judgement == "not judged" for one in speedups):
        yield "Try --repeats 3."


def _missing(comparison: Comparison, names: Mapping[str, str]) -> Iterator[str]:
    """Says which configurations failed and why; of those that were not reached, how many."""
    places = [(row, entry) for row in comparison.rows for entry in row.entries.values()]
    unreached = [entry for _, entry in places if entry.outcome == "MISSING"]
    failed: dict[tuple[str, str, str], list[Row]] = {}
    for row, entry in places:
        if entry.outcome not in ("FINISHED", "MISSING"):
            failed.setdefault((entry.setup, entry.outcome, entry.reason.rstrip(".")), []).append(
                row
            )
    for (setup, outcome, reason), rows in list(failed.items())[:_NUM_FAILED]:
        yield f"{names[setup]} failed{describe_where(rows, comparison)}: {outcome}, {reason}."
    if num := sum(len(rows) for rows in list(failed.values())[_NUM_FAILED:]):
        yield f"{count(num, 'more result')} failed."
    if unreached:
        never = sum(entry.speed is None for entry in unreached)
        told = [f"{never} without runs"] * (never > 0)
        told += [f"{len(unreached) - never} with fewer than planned"] * (never < len(unreached))
        yield f"Incomplete: of {count(len(places), 'result')}, {join_words(told)}."


def find_caveats(comparison: Comparison) -> Iterator[str]:
    """Yields what limits the verdict, a sentence each."""
    scaling = find_scaling(comparison)
    yield from _unequal(comparison, is_compared=True)
    if comparison.shares_cores:
        yield "Logical CPU devices share all cores: this shows overhead, not scaling."
    if scaling and scaling.kind == "weak":
        yield "Weak scaling: the global batch grows with the devices. Compare speed, not accuracy."
    if comparison.is_synthetic:
        yield "Synthetic data: compare speed, ignore accuracy."
    if len({run.backend for run in comparison.runs}) > 1:
        compilers = [
            f"{title_of(run.backend)}: {run.settings.get('compiler')}" for run in comparison.runs
        ]
        yield (
            "Backends start from equal weights and batches. They compile steps"
            f" ({'; '.join(dict.fromkeys(compilers))}), load batches and draw dropout each in its"
            " own way."
        )
    yield from machine_caveats(comparison)
    if num := sum(len(entry.left_out) for row in comparison.rows for entry in row.entries.values()):
        yield (
            f"{count(num, 'run')} left out: another machine than most of the configuration, or"
            " other versions, settings or network than the newest. Compare with `tfbench diff RUN"
            " RUN`."
        )


def _unequal(comparison: Comparison, *, is_compared: bool = False) -> Iterator[str]:
    """Says which settings of setups differ although they must be equal.

    Such setups are not compared, or with `is_compared` they nevertheless are.
    """
    entries = [
        entry
        for row in comparison.rows
        for entry in row.entries.values()
        if bool(entry.speedup) is is_compared
    ]
    names = sorted({difference.name for entry in entries for difference in entry.unequal})
    if names:
        yield (
            f"{'Compared although' if is_compared else 'Not comparable:'} setups differ in"
            f" {join_words(names)}."
        )


def _ratios(found: Sequence[Speedup]) -> str:
    """Returns the ratios of one configuration, of two, or the range of several.

    They read "0.68x [0.59, 0.77]", "0.67x and 0.50x", and "0.50x to 0.67x".
    """
    if len(found) == 1:
        return describe_ratio(found[0])
    shown = [
        f"{one.ratio:.2f}x"
        for one in (found if len(found) == 2 else sorted(found, key=lambda one: one.ratio))
    ]
    return (
        shown[0]
        if shown[0] == shown[-1]
        else f"{shown[0]} {'and' if len(found) == 2 else 'to'} {shown[-1]}"
    )
