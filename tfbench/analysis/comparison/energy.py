"""Energy of runs side by side: only what was measured, and only of the same parts of a machine."""

import statistics

from tfbench.analysis.comparison.comparison import Comparison, Entry
from tfbench.records.energy import Part


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
