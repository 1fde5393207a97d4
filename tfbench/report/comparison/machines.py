"""The machines of a comparison as a section and as JSON: what each setup costs on each."""

from typing import Any

from tfbench.analysis.comparison.comparison import Comparison
from tfbench.analysis.comparison.machines import (
    MachineSetup,
    bare_setup,
    energy_parts,
    find_target,
    list_setups,
    version_warnings,
)
from tfbench.records.sweep import format_value
from tfbench.report.comparison.speeds import short_key, speed_text
from tfbench.report.document import to_plain
from tfbench.report.formats import format_si, format_time
from tfbench.report.table import Column, Section, Table

_FIGURES = ("samples/s", "an hour", "epoch", "epoch costs", "to accuracy", "to accuracy costs", "epoch takes")
_NOTE = (
    "The fastest setup of each machine first. What an epoch costs is of its training steps, at that speed; the way to "
    "an accuracy is paid for from the request of a run. Machines are not judged against each other."
)


def machines_section(comparison: Comparison) -> Section | None:
    """Returns a row a setting, machine and setup, the fastest of each machine first; None where all runs are of one."""
    setups = list_setups(comparison)
    if not setups:
        return None
    rows = [
        {
            **one.row.setting,
            "machine": one.machine,
            "bare setup": bare_setup(one.entry),
            **{name: text or None for name, text in zip(_FIGURES, _figures(one), strict=True)},
        }
        for one in setups
    ]
    columns = (
        *(Column(key, short_key(key), format_value, "left") for key in comparison.keys),
        Column("machine", "machine", align="left"),
        Column("bare setup", "setup", align="left"),
        *(Column(name, name, rank=place) for place, name in enumerate(_FIGURES)),
    )
    return Section("Machines", tables=(Table("setups of each machine", columns, rows, (_NOTE,)),))


def machines_document(comparison: Comparison) -> dict[str, Any] | None:
    """Returns the same as plain values: seconds, joules, costs in the currency of the price; None of one machine."""
    setups = [
        to_plain(one, without=("row", "entry", "price"))
        | {
            "setting": one.row.setting,
            "setup": one.entry.setup,
            "samples_per_second": one.entry.speed,
            "price_per_hour": one.price.per_hour if one.price else None,
            "currency": one.price.currency if one.price else None,
            "energy_parts": list(energy_parts(one.entry)),
        }
        for one in list_setups(comparison)
    ]
    warnings, target = version_warnings(comparison), find_target(comparison)
    return {"setups": setups, "target_accuracy": target, "warnings": warnings} if setups else None


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
        f"{format_si(joules, 'J')} ({', '.join(energy_parts(one.entry))})" if joules else "",
    ]
