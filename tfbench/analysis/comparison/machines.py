"""What each setup costs on each of several machines: time, money and energy side by side.

Of energy only what was measured counts, and only of the same parts of a machine.

Machines are not judged against each other: rounds of two of them do not pair, since what slows the one says nothing of
the other. The lowest figure is named as it was measured.
"""

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tfbench.analysis.comparison.brief import host_of, machine_in, machine_of
from tfbench.analysis.comparison.comparison import Comparison, Entry, Row, describe_where
from tfbench.analysis.comparison.equality import BETWEEN_MACHINES, VERSIONS, find_unequal_settings
from tfbench.analysis.comparison.intervals import geometric_mean
from tfbench.analysis.run.cost import SECONDS_PER_HOUR
from tfbench.records.energy import Part
from tfbench.wording import count, join_words


class Price(NamedTuple):
    """What an hour of a machine costs."""

    per_hour: float
    currency: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class MachineSetup:
    """A setting under a setup on one machine; a figure that not every run of it has is None.

    An epoch is its training steps at that speed; the way to the accuracy that all runs are to reach counts from the
    request of a run.
    """

    machine: str
    row: Row
    entry: Entry
    price: Price | None
    epoch_seconds: float | None
    seconds_to_accuracy: float | None
    epoch_joules: float | None

    @property
    def epoch_cost(self) -> float | None:
        """What an epoch costs, in the currency of the price."""
        return self._cost(self.epoch_seconds)

    @property
    def cost_to_accuracy(self) -> float | None:
        """What the way to the accuracy costs."""
        return self._cost(self.seconds_to_accuracy)

    def _cost(self, seconds: float | None) -> float | None:
        return seconds * self.price.per_hour / SECONDS_PER_HOUR if seconds and self.price else None


Measure = Callable[[MachineSetup], float | None]  # of which less is better


def list_setups(comparison: Comparison) -> list[MachineSetup]:
    """Returns for each setting what its machines have, the fastest of each first; nothing where all runs are of one."""
    if len({machine_of(run) for run in comparison.runs}) < 2:
        return []
    target, found = find_target(comparison), []
    prices = _find_prices(comparison)
    for row in comparison.rows:
        machines: dict[str, list[Entry]] = {}
        for entry in row.entries.values():
            if entry.runs and all(run.num_machines == 1 for run in entry.runs):
                machines.setdefault(machine_of(entry.runs[0]), []).append(entry)
        for name, entries in machines.items():
            for entry in sorted(entries, key=lambda entry: -(entry.speed or 0.0)):
                found.append(_measure(name, row, entry, prices[name], target))
    return found


def find_target(comparison: Comparison) -> float | None:
    """Returns the accuracy that all runs are to reach; None: they have none, or several."""
    targets = {run.target_accuracy for run in comparison.runs}
    return targets.pop() if len(targets) == 1 else None


def bare_setup(entry: Entry) -> str:
    """Returns what a setup is called where its machine is said anyway."""
    words = [word for word in entry.setup.split() if not machine_in(word)]
    return " ".join(words).removesuffix(f" on {entry.host}")


def machine_sentences(comparison: Comparison) -> Iterator[str]:
    """Yields a sentence a measure: which machine has the best figure, for which settings."""
    setups, target = list_setups(comparison), find_target(comparison)
    measures: tuple[tuple[str, Measure, Callable[[MachineSetup], object]], ...] = (
        ("Fastest machine", lambda one: one.entry.step_seconds, lambda one: None),
        ("Cheapest machine for the steps of an epoch", lambda one: one.epoch_cost, _currency),
        (f"Cheapest machine to a validation accuracy of {target or 0:g}", lambda one: one.cost_to_accuracy, _currency),
        ("Least energy for an epoch", lambda one: one.epoch_joules, _parts_beside_gpus),
    )
    for title, measure, unit in measures:
        found: dict[str, list[Row]] = {}
        for row in comparison.rows:
            if best := _find_best([one for one in setups if one.row is row], measure, unit, comparison):
                found.setdefault(f"{best.machine} by {bare_setup(best.entry)}", []).append(row)
        if found:
            told = [f"{name}{describe_where(rows, comparison)}" for name, rows in found.items()]
            yield f"{title} (not judged): {'; '.join(told)}."


def place_sentences(comparison: Comparison) -> Iterator[str]:
    """Yields which runs are left out since they are of another machine, and which settings are of which machine."""
    elsewhere = [run for row in comparison.rows for entry in row.entries.values() for run in entry.elsewhere]
    if elsewhere:
        names = join_words(list(dict.fromkeys(map(host_of, elsewhere))))
        yield f"{count(len(elsewhere), 'run')} left out, from another machine than most of their setting: {names}."
    places: dict[str, list[Row]] = {}
    for row in comparison.rows:
        hosts = {entry.host for entry in row.entries.values() if entry.runs and not machine_in(entry.setup)}
        if len(hosts) == 1:
            places.setdefault(hosts.pop(), []).append(row)
    if len(places) > 1:
        where = "; ".join(f"{host}{describe_where(rows, comparison)}" for host, rows in places.items())
        yield f"Settings ran on several machines, which may explain differences between them: {where}."


def version_warnings(comparison: Comparison) -> list[str]:
    """Says in which versions machines differ, and which they have."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for run in comparison.runs:
        for name in VERSIONS:
            if value := (run.environment or {}).get(name):
                found.setdefault(name, {}).setdefault(value, {})[machine_of(run)] = None
    told = [
        f"{name} {', '.join(f'{version} on {join_words(list(on))}' for version, on in having.items())}"
        for name, having in found.items()
        if len(having) > 1 and len({machine for on in having.values() for machine in on}) > 1
    ]
    if not told:
        return []
    return [f"Machines have different versions, which may explain differences in speed: {'; '.join(told)}."]


def _find_best(
    setups: Sequence[MachineSetup], measure: Measure, unit: Callable[[MachineSetup], object], comparison: Comparison
) -> MachineSetup | None:
    """Returns the setup with the lowest figure.

    None where there is no other machine, or figures have no common measure: runs that differ in what must be equal on
    any machine, currencies, energy with processors and without.
    """
    figures = [(value, one) for one in setups if (value := measure(one))]
    known = [one for _, one in sorted(figures, key=lambda figure: figure[0])]
    others = [one for one in known if one.machine != known[0].machine]
    if not others:
        return None
    top, settings = known[0], known[0].entry.runs[0].settings
    compared = (*comparison.compared, *BETWEEN_MACHINES)
    if any(find_unequal_settings(settings, one.entry.runs[0].settings, compared=compared) for one in others):
        return None
    if len({unit(one) for one in known}) > 1:
        return None
    return top


def _currency(setup: MachineSetup) -> str:
    return setup.price.currency if setup.price else ""


def _parts_beside_gpus(setup: MachineSetup) -> frozenset[str]:
    """Returns of what, beside the GPUs in use, its energy is: without the processors' it is no whole."""
    return frozenset(energy_parts(setup.entry)) - {"gpu"}


def _measure(name: str, row: Row, entry: Entry, price: Price | None, target: float | None) -> MachineSetup:
    samples = entry.runs[0].train_samples
    reached = [run.seconds_to_accuracy for run in entry.runs if run.seconds_to_accuracy] if target is not None else []
    per_joule = samples_per_joule(entry)
    return MachineSetup(
        machine=name,
        row=row,
        entry=entry,
        price=price,
        epoch_seconds=samples / entry.speed if samples and entry.speed else None,
        seconds_to_accuracy=geometric_mean(reached) if len(reached) == len(entry.runs) else None,
        epoch_joules=samples / per_joule if samples and per_joule else None,
    )


def _find_prices(comparison: Comparison) -> dict[str, Price | None]:
    """Returns the price of each machine: the user's, else the newest recipe's for an instance of this name."""
    settings, prices = comparison.machine_settings, dict[str, Price | None]()
    runs = sorted(comparison.runs, key=lambda run: run.created, reverse=True)
    for name in map(machine_of, runs):
        own = [run for run in runs if machine_of(run) == name]
        hosts = {host_of(run) for run in own}
        names = [name, *(hosts if len(hosts) == 1 else ())]
        costs = [run.cost for run in own if run.cost]
        currency = str(costs[0].get("currency", "")) if costs else ""
        known = [
            Price(settings[one].price_per_hour, settings[one].currency or currency) for one in names if one in settings
        ]
        known += [
            Price(cost["price_per_hour"], str(cost["currency"]))
            for cost in costs
            if cost.get("instance") in names and cost.get("price_per_hour")
        ]
        prices[name] = known[0] if known else None
    return prices


def samples_per_joule(entry: Entry) -> float | None:
    """Returns the geometric mean over an entry's runs; None unless all of them have it, of the same parts."""
    known = _values(entry, "samples_per_joule")
    return statistics.geometric_mean(known) if known else None


def energy_per_epoch(entry: Entry) -> float | None:
    """Returns the mean joules of an epoch over an entry's runs; None unless all of them have it, of the same parts."""
    known = _values(entry, "energy_joules_per_epoch")
    return statistics.fmean(known) if known else None


def energy_parts(entry: Entry) -> tuple[Part, ...]:
    """Returns what of the machine the energy of an entry is of; nothing if it has none, or its runs are of several."""
    found = {tuple(run.energy_parts) for run in entry.runs}
    return found.pop() if len(found) == 1 else ()


def has_energy(comparison: Comparison) -> bool:
    """Says whether every entry with a speed has a measured figure of energy, and there is one."""
    measured = [entry for row in comparison.rows for entry in row.entries.values() if entry.runs]
    return bool(measured) and all(samples_per_joule(entry) is not None for entry in measured)


def _values(entry: Entry, name: str) -> list[float]:
    """Returns a figure of all runs of an entry; nothing if one lacks it, or they are of different parts."""
    values = [run.metrics.get(name) for run in entry.runs]
    known = [value for value in values if value]
    return known if len(known) == len(values) and energy_parts(entry) else []
