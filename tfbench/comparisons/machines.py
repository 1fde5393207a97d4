"""What each setup costs on each of several machines: time, money and energy side by side.

Of energy only what was measured counts, and only of the same parts of a machine.

These figures are not judged: rounds of two machines do not pair, since what slows the one says
nothing of the other. The lowest is named as it was measured.
"""

import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tfbench.comparisons.comparison import Comparison
from tfbench.comparisons.entries import Entry, Row
from tfbench.comparisons.equality import BETWEEN_MACHINES, VERSIONS, find_unequal_settings
from tfbench.comparisons.fastest import describe_where
from tfbench.comparisons.speeds import short_key, speed_text
from tfbench.comparisons.user_settings import MachineSettings
from tfbench.runs.cost import SECONDS_PER_HOUR
from tfbench.show.document import to_document
from tfbench.show.formats import format_si, format_time
from tfbench.show.table import Column, Section, Table
from tfbench.store.brief import machine_in, machine_of
from tfbench.sweeps.plan import format_value
from tfbench.wording import join_words


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class MachineSetup:
    """A configuration under a setup on one machine.

    A figure that not every run of it has is None. An epoch is its training steps at that speed.
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
Unit = Callable[[MachineSetup], object]  # figures of one unit alone are compared


def list_setups(comparison: Comparison) -> list[MachineSetup]:
    """Returns the setups of each machine by configuration, the fastest of each machine first.

    Nothing where all runs are of one machine.
    """
    if len({machine_of(run) for run in comparison.runs}) < 2:
        return []
    listed = []
    for row in comparison.rows:
        setups = []
        for entry in row.measured_entries():
            if all(run.num_machines == 1 for run in entry.runs):
                setups.append(_measure(row, entry, comparison.settings.machines))
        machines = list(dict.fromkeys(setup.machine for setup in setups))
        setups.sort(key=lambda setup: -(setup.entry.speed or 0.0))
        setups.sort(key=lambda setup: machines.index(setup.machine))
        listed += setups
    return listed


def bare_setup(entry: Entry) -> str:
    """Returns what a setup is called where its machine is said anyway."""
    words = [word for word in entry.setup.split() if not machine_in(word)]
    return " ".join(words).removesuffix(f" on {entry.host}")


def machine_sentences(comparison: Comparison) -> Iterator[str]:
    """Yields a sentence a measure: which machine has the best figure, for which configurations."""
    setups = list_setups(comparison)
    measures: tuple[tuple[str, Measure, Unit], ...] = (
        ("Fastest machine", lambda setup: setup.entry.step_seconds, lambda setup: None),
        (
            "Cheapest machine for the steps of an epoch",
            lambda setup: setup.epoch_cost,
            lambda setup: setup.currency,
        ),
        ("Least energy for an epoch", lambda setup: setup.epoch_joules, lambda setup: None),
    )
    for title, measure, unit in measures:
        winners = defaultdict(list)
        for row in comparison.rows:
            of_row = [setup for setup in setups if setup.row is row]
            best = _find_best(of_row, measure, unit, comparison)
            if best and not row.has_lost_runs:
                winners[f"{best.machine} by {bare_setup(best.entry)}"].append(row)
        if winners:
            parts = [f"{name}{describe_where(rows, comparison)}" for name, rows in winners.items()]
            yield f"{title} (not judged): {'; '.join(parts)}."


def spans_machines(comparison: Comparison) -> bool:
    """Says whether a ratio is of two machines."""
    for row in comparison.rows:
        base = row.entries[comparison.baseline]
        for entry in row.entries.values():
            if entry.speedup and entry.host != base.host:
                return True
    return False


def machine_caveats(comparison: Comparison) -> Iterator[str]:
    """Yields caveats on machines' versions and mixed hosts.

    Hosts are mixed where configurations that name none ran on several.
    """
    versions = _list_versions(comparison)
    if versions:
        yield (
            "Machines have different versions, which may explain differences in speed:"
            f" {'; '.join(versions)}."
        )
    hosts: dict[str, None] = {}
    for row in comparison.rows:
        of_row: dict[str, None] = {}
        for entry in row.measured_entries():
            if not machine_in(entry.setup):
                of_row[entry.host] = None
        if len(of_row) == 1:
            hosts |= of_row
    if len(hosts) > 1:
        yield (
            "Configurations ran on several machines, which may explain differences:"
            f" {join_words(list(hosts))}."
        )


def _list_versions(comparison: Comparison) -> list[str]:
    """Returns for each program of which machines have several versions where each of them is."""
    differing = []
    for name in VERSIONS:
        all_machines = set()
        machines_by_version: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for run in comparison.runs:
            version = run.settings.get(name)
            if version:
                all_machines.add(machine_of(run))
                machines_by_version[version][machine_of(run)] = None
        if len(machines_by_version) > 1 and len(all_machines) > 1:
            places = []
            for version, machines in machines_by_version.items():
                places.append(f"{version} on {join_words(list(machines))}")
            differing.append(f"{name} {', '.join(places)}")
    return differing


def _find_best(
    setups: Sequence[MachineSetup],
    measure: Measure,
    unit: Unit,
    comparison: Comparison,
) -> MachineSetup | None:
    """Returns the setup with the lowest figure.

    None where there is no other machine, or figures have no common measure: runs that differ in
    what must be equal on any machine, or currencies.
    """
    measured = [setup for setup in setups if measure(setup)]
    measured.sort(key=lambda setup: measure(setup) or 0.0)
    if len({setup.machine for setup in measured}) < 2 or len(set(map(unit, measured))) > 1:
        return None
    best, *others = measured
    compared = (*comparison.compared, *BETWEEN_MACHINES)
    for setup in others:
        settings = (best.entry.runs[0].settings, setup.entry.runs[0].settings)
        if setup.machine != best.machine and find_unequal_settings(*settings, compared=compared):
            return None
    return best


def _measure(row: Row, entry: Entry, settings: Mapping[str, MachineSettings]) -> MachineSetup:
    """Returns an entry's figures.

    Its price is the user's, else the newest recipe's for an instance of this name.
    """
    newest = max(entry.runs, key=lambda run: run.created)
    machine = machine_of(newest)
    samples = newest.train_samples or 0
    price = None
    currency = str(newest.cost.get("currency", ""))
    if newest.cost.get("instance") in (machine, entry.host):
        price = newest.cost.get("price_per_hour") or None
    machine_settings = settings.get(machine) or settings.get(entry.host)
    if machine_settings:
        price = machine_settings.price_per_hour
        currency = machine_settings.currency or currency
    return MachineSetup(
        machine=machine,
        row=row,
        entry=entry,
        price_per_hour=price,
        currency=currency,
        epoch_seconds=_divide(samples, entry.speed),
        epoch_joules=_divide(samples, samples_per_joule(entry)),
    )


def _divide(samples: int, rate: float | None) -> float | None:
    return samples / rate if samples and rate else None


def samples_per_joule(entry: Entry) -> float | None:
    """Returns the geometric mean over an entry's runs.

    None unless all of them have it.
    """
    values = []
    for run in entry.runs:
        value = run.metrics.get("samples_per_joule")
        if not value:
            return None
        values.append(value)
    return statistics.geometric_mean(values) if values else None


def has_energy(comparison: Comparison) -> bool:
    """Says whether every entry with a speed has a measured figure of energy, and there is one."""
    measured = comparison.measured_entries()
    return bool(measured) and all(samples_per_joule(entry) is not None for entry in measured)


_NOTE = (
    "The fastest setup of each machine first. Cost and energy per epoch cover training steps only."
    " These figures have no intervals."
)


def machines_section(comparison: Comparison) -> Section | None:
    """Returns a row for each configuration, machine and setup, the fastest of each machine first.

    None where all runs are of one.
    """
    columns = (
        *(Column(key, short_key(key), format_value, "left") for key in comparison.keys),
        Column("machine", "machine", align="left"),
        Column("bare setup", "setup", align="left"),
        Column("speed", "samples/s"),
        Column("price", "price/h", rank=1),
        Column("epoch_seconds", "epoch", lambda seconds: format_time(seconds, 3), rank=2),
        Column("cost", "cost/epoch", rank=3),
        Column("energy", "energy/epoch", rank=4),
    )
    rows = []
    for setup in list_setups(comparison):
        energy = ""
        if setup.epoch_joules:
            energy = format_si(setup.epoch_joules, "J")
        rows.append(
            {
                **setup.row.configuration,
                "machine": setup.machine,
                "bare setup": bare_setup(setup.entry),
                "speed": speed_text(setup.entry),
                "price": _money(setup.price_per_hour, setup.currency),
                "epoch_seconds": setup.epoch_seconds,
                "cost": _money(setup.epoch_cost, setup.currency),
                "energy": energy,
            }
        )
    if not rows:
        return None
    return Section("Machines", tables=(Table("setups of each machine", columns, rows, (_NOTE,)),))


def machines_document(comparison: Comparison) -> list[dict[str, Any]]:
    """Returns the same as plain values: seconds, joules, costs in the currency of the price.

    Nothing of one machine.
    """
    return [
        {
            **to_document(setup, without=("row", "entry")),
            "configuration": setup.row.configuration,
            "setup": setup.entry.setup,
            "samples_per_second": setup.entry.speed,
        }
        for setup in list_setups(comparison)
    ]


def _money(value: float | None, currency: str) -> str:
    """Returns "1,200 EUR"; "" without a price."""
    if not value:
        return ""
    digits = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{digits} {currency}"
