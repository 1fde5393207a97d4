"""What a run took of energy, in a sentence, as a section and as a JSON object."""

from collections.abc import Mapping
from typing import Any

from tfbench.analysis.run.energy import find_energy, name_parts
from tfbench.records.run import RunResult
from tfbench.report.document import to_plain
from tfbench.report.formats import format_number, format_time
from tfbench.report.table import Section, facts


def energy_pairs(result: RunResult, metrics: Mapping[str, float | None]) -> list[tuple[str, str]]:
    """Returns joules, watts and what a joule trains, as far as they were measured, with what they are of."""
    units = {"samples_per_joule": "samples/J", "energy_joules_per_epoch": "J an epoch", "mean_watts": "W"}
    known = [(metrics[name], unit) for name, unit in units.items() if metrics.get(name) is not None]
    energy = find_energy(result)
    if energy is None or not known:
        return []
    text = ", ".join(f"{format_number(value)} {unit}" for value, unit in known)
    return [("energy", f"{text} ({name_parts(energy.parts)})")]


def source_section(result: RunResult) -> Section | None:
    """Returns which counters of energy a run had, and why others could not be read; None of an older run."""
    found = result.energy
    if found is None:
        return None
    pairs = [
        (source.name, f"{source.part}, renewed every {format_time(source.resolution_seconds)}")
        for source in found.sources
    ]
    pairs += [("not read", problem) for problem in found.problems]
    energy = find_energy(result)
    reasons = [problem for problem in energy.problems if problem not in found.problems] if energy else []
    return Section("Energy", tables=(facts(pairs + [("no figure", reason) for reason in reasons]),))


def energy_document(result: RunResult) -> dict[str, Any] | None:
    """Returns what was measured of energy in joules, of what, and why there is no more; None: it was not looked for."""
    energy, found = find_energy(result), result.energy
    if energy is None or found is None:
        return None
    return {"sources": to_plain(found.sources), **to_plain(energy)}
