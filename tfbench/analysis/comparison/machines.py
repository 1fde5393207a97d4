"""What each setup costs on each of several machines: time, money and energy side by side.

Of energy only what was measured counts, and only of the same parts of a machine.

Machines are not judged against each other: rounds of two of them do not pair, since what slows the
one says nothing of the other. The lowest figure is named as it was measured.
"""

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

from tfbench.analysis.comparison.brief import machine_in, machine_of
from tfbench.analysis.comparison.comparison import Comparison, Entry, Row, describe_where
from tfbench.analysis.comparison.equality import BETWEEN_MACHINES, VERSIONS, find_unequal_settings
from tfbench.analysis.comparison.judging import SESSION_SCATTER
from tfbench.analysis.run.cost import SECONDS_PER_HOUR
from tfbench.records.energy import EnergyPart
from tfbench.records.settings import MachineSettings
from tfbench.wording import join_words


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class MachineSetup:
    """A configuration under a setup on one machine; a figure that not every run of it has is None.

    An epoch is its training steps at that speed.
    """

    machine: str
    row: Row
    entry: Entry
    price_per_hour: float | None
    currency: str
    epoch_seconds: float | None
    epoch_joules: float | None

    @property
    def epoch_cost(self) -> float | None:
        """What an epoch costs, in the currency of the price."""
        if self.epoch_seconds is None or self.price_per_hour is None:
            return None
        return self.epoch_seconds * self.price_per_hour / SECONDS_PER_HOUR


Measure = Callable[[MachineSetup], float | None]  # of which less is better


def list_setups(comparison: Comparison) -> list[MachineSetup]:
    """Returns for each configuration what its machines have, the fastest of each first.

    Nothing where all runs are of one.
    """
    found: list[MachineSetup] = []
    if len({machine_of(run) for run in comparison.runs}) < 2:
        return found
    for row in comparison.rows:
        measured = [entry for entry in row.entries.values() if entry.runs]
        entries = [entry for entry in measured if all(run.num_machines == 1 for run in entry.runs)]
        own = [_measure(row, entry, comparison.machine_settings) for entry in entries]
        machines = list(dict.fromkeys(one.machine for one in own))
        found += sorted(
            own, key=lambda one: (machines.index(one.machine), -(one.entry.speed or 0.0))
        )
    return found


def bare_setup(entry: Entry) -> str:
    """Returns what a setup is called where its machine is said anyway."""
    words = [word for word in entry.setup.split() if not machine_in(word)]
    return " ".join(words).removesuffix(f" on {entry.host}")


def machine_sentences(comparison: Comparison) -> Iterator[str]:
    """Yields a sentence a measure: which machine has the best figure, for which configurations."""
    setups = list_setups(comparison)
    measures: tuple[tuple[str, Measure, Callable[[MachineSetup], object]], ...] = (
        ("Fastest machine", lambda one: one.entry.step_seconds, lambda one: None),
        (
            "Cheapest machine for the steps of an epoch",
            lambda one: one.epoch_cost,
            lambda one: one.currency,
        ),
        ("Least energy for an epoch", lambda one: one.epoch_joules, _parts_beside_gpus),
    )
    for title, measure, unit in measures:
        found: dict[str, list[Row]] = {}
        for row in comparison.rows:
            if best := _find_best(
                [one for one in setups if one.row is row], measure, unit, comparison
            ):
                found.setdefault(f"{best.machine} by {bare_setup(best.entry)}", []).append(row)
        if found:
            told = [f"{name}{describe_where(rows, comparison)}" for name, rows in found.items()]
            yield f"{title} (not judged): {'; '.join(told)}."


def spans_machines(comparison: Comparison) -> bool:
    """Says whether a ratio is of two machines."""
    places = [
        (row.entries[comparison.baseline], entry)
        for row in comparison.rows
        for entry in row.entries.values()
    ]
    return any(base.host != entry.host for base, entry in places if entry.speedup)


def machine_caveats(comparison: Comparison) -> Iterator[str]:
    """Yields caveats on machines' versions, drifting levels and mixed hosts.

    Hosts are mixed where configurations that name none ran on several.
    """
    differing = []
    for name in VERSIONS:
        having: dict[str, dict[str, None]] = {}
        for run in comparison.runs:
            if version := run.settings.get(name):
                having.setdefault(version, {})[machine_of(run)] = None
        if (
            len(having) > 1
            and len({machine for machines in having.values() for machine in machines}) > 1
        ):
            told = (
                f"{version} on {join_words([*machines])}" for version, machines in having.items()
            )
            differing.append(f"{name} {', '.join(told)}")
    if differing:
        yield (
            "Machines have different versions, which may explain differences in speed:"
            f" {'; '.join(differing)}."
        )
    if spans_machines(comparison):
        drift = (
            f"{100 * SESSION_SCATTER:.0f} % from one session to the next, which more rounds do not"
            " show"
        )
        yield f"Ratios between machines, not speeds, allow for levels that drift by {drift}."
    hosts: dict[str, None] = {}
    for row in comparison.rows:
        own = {
            entry.host
            for entry in row.entries.values()
            if entry.runs and not machine_in(entry.setup)
        }
        hosts |= dict.fromkeys(own if len(own) == 1 else ())
    if len(hosts) > 1:
        yield (
            "Configurations ran on several machines, which may explain differences:"
            f" {join_words([*hosts])}."
        )


def _find_best(
    setups: Sequence[MachineSetup],
    measure: Measure,
    unit: Callable[[MachineSetup], object],
    comparison: Comparison,
) -> MachineSetup | None:
    """Returns the setup with the lowest figure.

    None where there is no other machine, or figures have no common measure: runs that differ in
    what must be equal on any machine, currencies, energy with processors and without.
    """
    figures = [(value, one) for one in setups if (value := measure(one))]
    known = [one for _, one in sorted(figures, key=lambda figure: figure[0])]
    others = [one for one in known if one.machine != known[0].machine]
    if not others or len({unit(one) for one in known}) > 1:
        return None
    settings = known[0].entry.runs[0].settings
    compared = (*comparison.compared, *BETWEEN_MACHINES)
    if any(
        find_unequal_settings(settings, one.entry.runs[0].settings, compared=compared)
        for one in others
    ):
        return None
    return known[0]


def _parts_beside_gpus(setup: MachineSetup) -> frozenset[str]:
    """Returns of what, beside the GPUs in use, its energy is.

    Without the processors' it is no whole.
    """
    return frozenset(energy_parts(setup.entry)) - {"gpu"}


def _measure(row: Row, entry: Entry, settings: Mapping[str, MachineSettings]) -> MachineSetup:
    """Returns an entry's figures.

    Its price is the user's, else the newest recipe's for an instance of this name.
    """
    newest = max(entry.runs, key=lambda run: run.created)
    names = (machine_of(newest), entry.host)
    samples = newest.train_samples
    per_joule = samples_per_joule(entry)
    cost = newest.cost
    own = next((settings[name] for name in names if name in settings), None)
    price = cost.get("price_per_hour") or None if cost.get("instance") in names else None
    return MachineSetup(
        machine=names[0],
        row=row,
        entry=entry,
        price_per_hour=own.price_per_hour if own else price,
        currency=own.currency if own and own.currency else str(cost.get("currency", "")),
        epoch_seconds=samples / entry.speed if samples and entry.speed else None,
        epoch_joules=samples / per_joule if samples and per_joule else None,
    )


def samples_per_joule(entry: Entry) -> float | None:
    """Returns the geometric mean over an entry's runs.

    None unless all of them have it, of the same parts.
    """
    values = [run.metrics.get("samples_per_joule") for run in entry.runs]
    known = [value for value in values if value]
    is_known = known and len(known) == len(values) and energy_parts(entry)
    return statistics.geometric_mean(known) if is_known else None


def energy_parts(entry: Entry) -> tuple[EnergyPart, ...]:
    """Returns what of the machine the energy of an entry is of.

    Nothing if it has none, or its runs are of several.
    """
    found = {tuple(run.energy_parts) for run in entry.runs}
    return found.pop() if len(found) == 1 else ()


def has_energy(comparison: Comparison) -> bool:
    """Says whether every entry with a speed has a measured figure of energy, and there is one."""
    measured = [entry for row in comparison.rows for entry in row.entries.values() if entry.runs]
    return bool(measured) and all(samples_per_joule(entry) is not None for entry in measured)
