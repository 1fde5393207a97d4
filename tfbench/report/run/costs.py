"""What a run cost, and what it took of energy, as labelled texts."""

from collections.abc import Iterator, Mapping

from tfbench.analysis.run.cost import compute_cost
from tfbench.analysis.run.energy import find_energy, name_parts
from tfbench.records.run import RunResult
from tfbench.report.formats import format_number, format_time

_UNITS = {"samples_per_joule": "samples/J", "mean_watts": "W"}


def energy_facts(
    result: RunResult, metrics: Mapping[str, float | None], *, is_full: bool = False
) -> Iterator[tuple[str, str]]:
    """Yields joules, watts and what a joule trains, as far as they were measured; in full also why there is no more."""
    energy = find_energy(result)
    if energy is None:
        return
    if known := [f"{format_number(metrics[name])} {unit}" for name, unit in _UNITS.items() if metrics.get(name)]:
        yield "Energy", f"{', '.join(known)} ({name_parts(energy.parts)})"
    if is_full:
        yield from (("Energy", f"not measured: {problem}") for problem in energy.problems)


def cost_facts(result: RunResult, *, is_full: bool = False) -> Iterator[tuple[str, str]]:
    """Yields what the machine cost, for how long and at which price; in full also an epoch, and the way to a target."""
    cost = compute_cost(result)
    if cost is None:
        return

    def money(value: float) -> str:
        return f"{format_number(value)} {cost.currency}"

    hours = f"{format_number(cost.hours)} h" if cost.hours >= 1 else format_time(cost.hours * 3600)
    instance = f" ({cost.instance})" if cost.instance else ""
    yield "Cost", f"{money(cost.machine)} for {hours} at {money(cost.price_per_hour)} an hour{instance}"
    if is_full and cost.epoch is not None:
        yield "Cost", f"{money(cost.epoch)} an epoch, training and validation"
    if is_full and (target := cost.target):
        wanted = f"val_accuracy {format_number(target.val_accuracy)}"
        reached = None if target.machine is None else f"{money(target.machine)} to {wanted} in epoch {target.epoch}"
        yield "Cost", reached or f"not reached: {wanted}"
