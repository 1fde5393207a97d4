"""The machines of a comparison as text, as cells of tables and as JSON: what each is, and what it is good for."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tfbench.analysis.comparison.comparison import Comparison
from tfbench.analysis.comparison.machine_ranking import BestArm, MachineComparison, Measure, Ranking
from tfbench.analysis.comparison.machine_verdict import bare_arm, find_notes
from tfbench.analysis.comparison.machines import Machine, Peak, describe_gpus
from tfbench.records.sweep import describe_setting, format_value
from tfbench.report.comparison.speeds import speed_text, with_interval
from tfbench.report.formats import (
    TEXT_WIDTH,
    format_bytes,
    format_energy,
    format_flops,
    format_number,
    format_time,
    wrap,
)
from tfbench.report.html.facts import describe_gpu
from tfbench.report.table import table_of
from tfbench.schema import to_plain
from tfbench.wording import count, join_words

_EPOCH, _TO_ACCURACY = "epoch", "to accuracy"
_COLUMNS: dict[str, Measure] = {
    "epoch costs": "epoch_cost",
    "to accuracy costs": "cost_to_accuracy",
    "epoch takes": "epoch_joules",
}


class Cells(NamedTuple):
    """The best arm of each machine at each setting, as texts; columns without any figure are left out."""

    header: list[str]
    rows: list[list[str]]
    left: list[str]  # columns that stand to the left


def machine_cells(comparison: Comparison, found: MachineComparison, *, repeats_settings: bool = False) -> Cells:
    """Returns a row a setting and machine, the setting in the first of them alone, unless it is to be repeated."""
    keys = [key.rpartition(".")[2] for key in comparison.keys]
    header = [*keys, "machine", "best arm", "samples/s", _EPOCH, *list(_COLUMNS)[:2], _TO_ACCURACY, *list(_COLUMNS)[2:]]
    rows = []
    for row, arms in found.settings:
        for arm in arms:
            is_told = repeats_settings or arm is arms[0]
            setting = [format_value(row.setting.get(key)) if is_told else "" for key in comparison.keys]
            rows.append([*setting, arm.machine, bare_arm(arm.entry), speed_text(arm.entry), *_figures(arm, found)])
    num_kept = len(keys) + 3
    kept = [place for place in range(len(header)) if place < num_kept or any(row[place] for row in rows)]
    return Cells(
        header=[header[place] for place in kept],
        rows=[[row[place] for place in kept] for row in rows],
        left=[*keys, "machine", "best arm"],
    )


def describe_facts(machine: Machine) -> Iterator[tuple[str, str]]:
    """Yields what is known of a machine beside its hardware and versions, with labels; "" for what is not known."""
    price = machine.price
    yield "price", f"{format_number(price.per_hour)} {price.currency} an hour" if price else ""
    yield "peak", "; ".join(map(_describe_peak, machine.peaks))
    yield "runs", str(machine.num_runs)


def machine_lines(comparison: Comparison, found: MachineComparison, width: int) -> list[str]:
    """Returns the best arms as a table, then what each machine is, and what is not known."""
    cells = machine_cells(comparison, found)
    table = table_of(cells.header, cells.rows, left=cells.left).text(10**6)
    lines = ["Machines, by the fastest arm of each"]
    lines += table if max(map(len, table)) <= width else _headed_lines(comparison, found, width)
    width, size = min(width, TEXT_WIDTH), max(len(machine.name) for machine in found.machines)
    for machine in found.machines:
        lines += wrap(_describe(machine), width, first=f"  {machine.name:{size}}  ")
    return [*lines, *(line for note in find_notes(found) for line in wrap(note, width, first="- "))]


def machines_json(found: MachineComparison) -> dict[str, Any]:
    """Returns the machines and what they are good for as plain values.

    Times are in seconds, energies in joules, costs in the currency of the price; `epoch` is of the training steps of an
    epoch at that speed, "to accuracy" counts from the request of a run, of energy from the start of its training.
    """
    return {
        "machines": [_machine_json(machine) for machine in found.machines],
        "settings": [
            {"setting": row.setting, "best_arms": [_best_arm_json(arm) for arm in arms]} for row, arms in found.settings
        ],
        "rankings": {
            measure: [_ranking_json(ranking) for ranking in rankings] for measure, rankings in found.rankings.items()
        },
        "target_accuracy": found.target_accuracy,
        "unequal": {names: list(differing) for names, differing in found.unequal.items()},
        "cautions": list(found.cautions),
        "notes": list(find_notes(found)),
    }


def _figures(arm: BestArm, found: MachineComparison) -> list[str]:
    price = next((machine.price for machine in found.machines if machine.name == arm.machine), None)
    currency = price.currency if price else ""

    def text(measure: Measure) -> str:
        figure = arm.figures.get(measure)
        if figure is None:
            return ""
        in_joules = measure == "epoch_joules"
        value = format_energy(figure.value) if in_joules else f"{figure.value:.3g} {currency}"
        return with_interval(value, figure.interval)

    costs, energies = (list(map(text, group)) for group in (list(_COLUMNS.values())[:2], list(_COLUMNS.values())[2:]))
    times = [
        "" if seconds is None else format_time(seconds, 3) for seconds in (arm.epoch_seconds, arm.seconds_to_accuracy)
    ]
    return [times[0], *costs, times[1], *energies]


def _headed_lines(comparison: Comparison, found: MachineComparison, width: int) -> list[str]:
    """Returns the same where the table does not fit: each setting is a heading, with the machines below it."""
    cells, num_keys = machine_cells(comparison, found), len(comparison.keys)
    rows, lines = iter(cells.rows), []
    for row, arms in found.settings:
        lines += wrap(describe_setting(row.setting) or "all runs", width)
        for _ in arms:
            machine, arm, speed, *others = next(rows)[num_keys:]
            named = zip(cells.header[num_keys + 3 :], others, strict=True)
            texts = [f"{arm}, {speed} samples/s", *(f"{name} {text}" for name, text in named if text)]
            lines += [f"  {machine}", *wrap(", ".join(texts), width, first="    ")]
    return lines


def _describe(machine: Machine) -> str:
    parts = []
    if e := machine.environment:
        parts = [
            f"{e.cpu_model}, {e.usable_cores} of {e.num_logical_cores} logical cores, {format_bytes(e.memory_bytes)}"
        ]
        parts += describe_gpus(e, describe_gpu)
    versions = [
        f"{title} {' or '.join(sorted(machine.versions[title]))}"
        for title in ("TensorFlow", "JAX", "PyTorch", "Keras", "Python", "tfbench")
        if title in machine.versions
    ]
    hosts = [f"hosts {join_words(machine.hosts)}"] if machine.hosts != (machine.name,) else []
    facts = [f"{label} {text}" for label, text in describe_facts(machine) if text and label != "runs"]
    texts = [*hosts, *parts, ", ".join(versions), *facts, count(machine.num_runs, "run")]
    return "; ".join(text for text in texts if text)


def _describe_peak(peak: Peak) -> str:
    precision = f" in {peak.precision}" if peak.precision else ""
    return f"{format_flops(peak.flops_per_second)}{precision} on {peak.devices}"


def _machine_json(machine: Machine) -> dict[str, Any]:
    return {
        "name": machine.name,
        "hosts": list(machine.hosts),
        "num_runs": machine.num_runs,
        "environment": to_plain(machine.environment) if machine.environment else None,
        "versions": {title: sorted(versions) for title, versions in machine.versions.items()},
        "peaks": [peak._asdict() for peak in machine.peaks],
        "price_per_hour": machine.price.per_hour if machine.price else None,
        "currency": machine.price.currency if machine.price else None,
    }


def _best_arm_json(arm: BestArm) -> dict[str, Any]:
    figures = {
        measure: {
            "value": figure.value,
            "low": figure.interval.low if figure.interval else None,
            "high": figure.interval.high if figure.interval else None,
        }
        for measure, figure in arm.figures.items()
    }
    return {
        "machine": arm.machine,
        "arm": arm.entry.arm,
        "epoch_seconds": arm.epoch_seconds,
        "seconds_to_accuracy": arm.seconds_to_accuracy,
        "figures": figures,
    }


def _ranking_json(ranking: Ranking) -> dict[str, Any]:
    return {
        "setting": ranking.row.setting,
        "best": list(ranking.best),
        "next": ranking.next_machine or None,
        "ratio": ranking.ratio,
        "judged": ranking.is_judged,
        "without": list(ranking.without),
    }
