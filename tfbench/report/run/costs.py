"""What a run cost, and what it took of energy: in a sentence, as a section and as a JSON object."""

from collections.abc import Mapping
from typing import Any

from tfbench.analysis.run.cost import Cost, Target, compute_cost
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


def list_energy_problems(result: RunResult) -> list[tuple[str, str]]:
    """Returns why counters of energy could not be read, or made no figure."""
    energy = find_energy(result)
    return [("energy", f"not measured: {problem}") for problem in energy.problems] if energy else []


def energy_document(result: RunResult) -> dict[str, Any] | None:
    """Returns what was measured of energy in joules, of what, and why there is no more; None: it was not looked for."""
    energy, found = find_energy(result), result.energy
    if energy is None or found is None:
        return None
    return {"sources": to_plain(found.sources), **to_plain(energy)}


def cost_section(result: RunResult) -> Section | None:
    """Returns what a run cost; None without a price."""
    cost = compute_cost(result)
    if cost is None:
        return None
    pairs = [("machine", describe_cost(cost))]
    if cost.epoch is not None:
        pairs.append(("an epoch", f"{_money(cost.epoch, cost)}, training and validation"))
    if cost.target:
        pairs.append(("to accuracy", _describe_target(cost.target, cost)))
    return Section("Cost, from the request of the run to its end", tables=(facts(pairs),))


def describe_cost(cost: Cost) -> str:
    """Returns what the machine cost, for how long, and at which price."""
    price = _money(cost.price_per_hour, cost) + " an hour" + (f" ({cost.instance})" if cost.instance else "")
    return f"{_money(cost.machine, cost)} for {_duration(cost.hours)} at {price}"


def _describe_target(target: Target, cost: Cost) -> str:
    wanted = f"val_accuracy {format_number(target.val_accuracy)} ({target.origin})"
    if target.machine is None:
        return f"not reached: {wanted}"
    return f"{_money(target.machine, cost)} to {wanted} in epoch {target.epoch}"


def _money(value: float, cost: Cost) -> str:
    return f"{format_number(value)} {cost.currency}"


def _duration(hours: float) -> str:
    return f"{format_number(hours)} h" if hours >= 1 else format_time(hours * 3600)
