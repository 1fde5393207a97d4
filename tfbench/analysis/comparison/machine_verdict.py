"""On which of several machines to train, in plain sentences, and what would have to be known to say more."""

import re
from collections.abc import Callable, Iterator, Sequence

from tfbench.analysis.comparison.comparison import Comparison, Entry, Row
from tfbench.analysis.comparison.energy import energy_parts
from tfbench.analysis.comparison.hosts import host_of, machine_in
from tfbench.analysis.comparison.machine_ranking import (
    BestArm,
    MachineComparison,
    Measure,
    Ranking,
    parts_beside_gpus,
)
from tfbench.analysis.run.energy import name_parts
from tfbench.wording import count, describe_span, join_words

_OF_MONEY: tuple[Measure, ...] = ("epoch_cost", "cost_to_accuracy")
_OF_ENERGY: tuple[Measure, ...] = ("epoch_joules",)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_NUM_NAMED = 6  # settings that a sentence names


def bare_arm(entry: Entry) -> str:
    """Returns what an arm is called where its machine is said anyway."""
    words = [word for word in entry.arm.split() if not machine_in(word)]
    return " ".join(words).removesuffix(f" on {entry.host}")


def machine_sentences(found: MachineComparison, describe_rows: Callable[[Sequence[Row]], str]) -> Iterator[str]:
    """Yields who is fastest, cheapest and thriftiest, as far as that can be said.

    Args:
        found: What the machines are good for.
        describe_rows: Names settings.
    """
    for measure, rankings in found.rankings.items():
        yield f"{_title(measure, found)}: {_describe(measure, rankings, found, describe_rows)}."


def place_sentences(comparison: Comparison, describe_rows: Callable[[Sequence[Row]], str]) -> Iterator[str]:
    """Yields which runs are left out since they are of another machine, and which settings are of which machine."""
    split = [(row, entry) for row in comparison.rows for entry in row.entries.values() if entry.elsewhere]
    if split:
        num = sum(len(entry.elsewhere) for _, entry in split)
        told = [_tell_host(entry, describe_rows([row])) for row, entry in split[:_NUM_NAMED]]
        more = f"; and {count(len(split) - _NUM_NAMED, 'more point')}" if len(split) > _NUM_NAMED else ""
        yield (
            f"{count(num, 'run')} {'is' if num == 1 else 'are'} left out, since runs of two machines have no speed in "
            f"common: {'; '.join(told)}{more}."
        )
    places: dict[str, list[Row]] = {}
    for row in comparison.rows:
        hosts = {entry.host for entry in row.entries.values() if entry.runs and not machine_in(entry.arm)}
        if len(hosts) == 1:
            places.setdefault(hosts.pop(), []).append(row)
    if len(places) > 1:
        where = "; ".join(f"{describe_rows(rows)} on {host}" for host, rows in places.items())
        yield (
            f"Settings are of several machines: {where}. Arms are compared within a machine; what differs from one "
            "setting to the next may be due to the machine."
        )


def find_notes(found: MachineComparison) -> tuple[str, ...]:
    """Returns what is not known of machines, and how it would be."""
    return tuple(_notes(found))


def _tell_host(entry: Entry, setting: str) -> str:
    others = list(dict.fromkeys(map(host_of, entry.elsewhere)))
    return f"{entry.arm} for {setting} is of {entry.host}, without {join_words(others)}"


def _title(measure: Measure, found: MachineComparison) -> str:
    target = "" if found.target_accuracy is None else f"{found.target_accuracy:g}"
    return {
        "samples_per_second": "Fastest machine",
        "epoch_cost": "Cheapest machine, by the training steps of an epoch",
        "cost_to_accuracy": f"Cheapest machine, to a validation accuracy of {target}",
        "epoch_joules": "Thriftiest machine, by the energy of an epoch",
    }[measure]


def _describe(
    measure: Measure,
    rankings: Sequence[Ranking],
    found: MachineComparison,
    describe_rows: Callable[[Sequence[Row]], str],
) -> str:
    groups: dict[tuple[tuple[str, ...], bool], list[Ranking]] = {}
    for one in rankings:
        best = one.best if len(one.best) == 1 else tuple(sorted(one.best))
        groups.setdefault((best, one.is_judged), []).append(one)
    are_all = len(groups) == 1 and len(rankings) == len(found.settings)
    parts = []
    for (best, is_judged), own in groups.items():
        rows = [one.row for one in own]
        where = "" if are_all and len(own) == 1 else f" for {describe_rows(rows)}"
        if len(best) == 1:
            parts.append(f"{best[0]}{_with_arm(best[0], rows, found)}{where}, {_lead(measure, own)}")
        elif is_judged:
            parts.append(f"these runs do not tell {join_words(best)} apart{where}")
        else:
            parts.append(f"{join_words(best)} are not judged{where}: a single run says nothing of chance")
    without = sorted({name for one in rankings for name in one.without})
    parts += [f"of {join_words(without)} that is not known"] if without else []
    return "; ".join(parts)


def _with_arm(name: str, rows: Sequence[Row], found: MachineComparison) -> str:
    """Returns by which arm a machine is the best, if it is one and the same."""
    arms = {bare_arm(arm.entry) for row, best in found.settings if row in rows for arm in best if arm.machine == name}
    return f" by {arms.pop()}" if len(arms) == 1 else ""


def _lead(measure: Measure, own: Sequence[Ranking]) -> str:
    ratios = [one.ratio for one in own if one.ratio is not None]
    followers = {one.next_machine for one in own}
    following = f", {followers.pop()}" if len(followers) == 1 else ""
    if measure == "samples_per_second":
        return f"{describe_span(ratios, ' times')} as fast as the next{following}"
    what = "cost" if measure in _OF_MONEY else "energy"
    return f"{describe_span(ratios, ' times')} the {what} of the next{following}"


def _list_parts(arms: Sequence[BestArm]) -> Iterator[str]:
    """Yields of what the energy of arms is, and on which machines."""
    machines: dict[str, dict[str, None]] = {}
    for arm in arms:
        machines.setdefault(name_parts(energy_parts(arm.entry)), {})[arm.machine] = None
    yield from (f"{parts} on {join_words(list(names))}" for parts, names in machines.items())


def _notes(found: MachineComparison) -> Iterator[str]:
    unpriced = [machine.name for machine in found.machines if machine.price is None]
    if unpriced:
        key = unpriced[0] if _BARE_KEY.fullmatch(unpriced[0]) else f'"{unpriced[0]}"'
        yield (
            f"No price is known of {join_words(unpriced)}. In your settings, ~/.config/tfbench/config.toml: "
            f"[machines.{key}] and price_per_hour = ... below it."
            f"{f' There is one of {join_words(found.unused_settings)}.' if found.unused_settings else ''}"
        )
    currencies = sorted({machine.price.currency for machine in found.machines if machine.price})
    if len(currencies) > 1:
        yield f"Prices are in {join_words(currencies)}, and are not held against each other."
    arms = [arm for _, best in found.settings for arm in best]
    measured = [arm for arm in arms if any(measure in arm.figures for measure in _OF_ENERGY)]
    known = {arm.machine for arm in measured}
    if unmeasured := [machine.name for machine in found.machines if machine.name not in known]:
        yield (
            f"No energy is known of {join_words(unmeasured)}: it is recorded where the counters of the machine can be "
            "read, and told where every run of an arm has it."
        )
    if measured:
        yield f"Energy is of {'; of '.join(_list_parts(measured))}."
    if len({parts_beside_gpus(arm.entry) for arm in measured}) > 1:
        yield "Where processors or their memory are in that of one machine alone, it is not held against each other."
    reached = {arm.machine for arm in arms if arm.seconds_to_accuracy is not None}
    if reached and (others := [machine.name for machine in found.machines if machine.name not in reached]):
        yield f"Not every run on {join_words(others)} got to a validation accuracy of {found.target_accuracy:g}."
    for names, differing in found.unequal.items():
        yield f"Not all arms of {names} are held against each other: some differ in {', '.join(differing)}."
    if found.num_spread:
        yield f"{count(found.num_spread, 'run')} over several machines at once belong to none of them."
    if not found.rankings and not found.unequal:
        yield "No setting was measured on two machines, so that nothing tells which of them is better."
