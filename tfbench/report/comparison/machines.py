"""The machines of a comparison as cells of a table, as text and as JSON: what each setup costs on each."""

from typing import Any, NamedTuple

from tfbench.analysis.comparison.comparison import Comparison
from tfbench.analysis.comparison.energy import energy_parts
from tfbench.analysis.comparison.machines import MachineSetup, bare_arm, find_target, list_setups, version_cautions
from tfbench.records.sweep import describe_setting, format_value
from tfbench.report.comparison.speeds import speed_text
from tfbench.report.formats import format_energy, format_time, wrap
from tfbench.report.text_table import fits, table_lines

_FIGURES = ("samples/s", "an hour", "epoch", "epoch costs", "to accuracy", "to accuracy costs", "epoch takes")


class Cells(NamedTuple):
    """The setups of each machine at each setting as texts; columns without any figure are left out."""

    header: list[str]
    rows: list[list[str]]
    left: list[str]  # columns that stand to the left


def machine_cells(comparison: Comparison) -> Cells | None:
    """Returns a row a setting, machine and arm, the fastest of each machine first; None where all runs are of one."""
    setups = list_setups(comparison)
    if not setups:
        return None
    named = [*(key.rpartition(".")[2] for key in comparison.keys), "machine", "arm"]
    rows = [
        [
            *(format_value(one.row.setting.get(key)) for key in comparison.keys),
            *(one.machine, bare_arm(one.entry)),
            *_figures(one),
        ]
        for one in setups
    ]
    header = [*named, *_FIGURES]
    kept = [place for place in range(len(header)) if place < len(named) or any(row[place] for row in rows)]
    return Cells([header[place] for place in kept], [[row[place] for place in kept] for row in rows], named)


def machine_lines(comparison: Comparison, width: int) -> list[str]:
    """Returns the setups of each machine as a table; where it does not fit, as a line or more each."""
    cells = machine_cells(comparison)
    if cells is None:
        return []
    lines = table_lines(cells.header, cells.rows, left=cells.left)
    if not fits(lines, width):
        lines, num = [], len(cells.left)
        for one, row in zip(list_setups(comparison), cells.rows, strict=True):
            lines += wrap(", ".join(filter(None, (describe_setting(one.row.setting), *row[num - 2 : num]))), width)
            figures = [f"{name} {text}" for name, text in zip(cells.header[num:], row[num:], strict=True) if text]
            lines += wrap(", ".join(figures), width, first="    ")
    return ["Machines, the fastest arm of each first", *lines]


def machines_json(comparison: Comparison) -> dict[str, Any] | None:
    """Returns the same as plain values: seconds, joules, costs in the currency of the price; None of one machine."""
    setups = [
        {
            "setting": one.row.setting,
            "machine": one.machine,
            "arm": one.entry.arm,
            "samples_per_second": one.entry.speed,
            "price_per_hour": one.price.per_hour if one.price else None,
            "currency": one.price.currency if one.price else None,
            "epoch_seconds": one.epoch_seconds,
            "epoch_cost": one.epoch_cost,
            "seconds_to_accuracy": one.seconds_to_accuracy,
            "cost_to_accuracy": one.cost_to_accuracy,
            "epoch_joules": one.epoch_joules,
            "energy_parts": list(energy_parts(one.entry)),
        }
        for one in list_setups(comparison)
    ]
    cautions, target = version_cautions(comparison), find_target(comparison)
    return {"setups": setups, "target_accuracy": target, "cautions": cautions} if setups else None


def _figures(one: MachineSetup) -> list[str]:
    price, joules = one.price, one.epoch_joules

    def money(value: float | None) -> str:
        return f"{value:{',.0f' if value >= 1000 else '.3g'}} {price.currency}" if price and value else ""

    def time(seconds: float | None) -> str:
        return format_time(seconds, 3) if seconds else ""

    return [
        speed_text(one.entry),
        money(price.per_hour if price else None),
        *(time(one.epoch_seconds), money(one.epoch_cost)),
        *(time(one.seconds_to_accuracy), money(one.cost_to_accuracy)),
        f"{format_energy(joules)} ({', '.join(energy_parts(one.entry))})" if joules else "",
    ]
