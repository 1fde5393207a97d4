"""The machines of a comparison as a section and as JSON: what each setup costs on each."""

from typing import Any

from tfbench.analysis.comparison.comparison import Comparison
from tfbench.analysis.comparison.machines import MachineSetup, bare_setup, energy_parts, list_setups
from tfbench.records.sweep import format_value
from tfbench.report.comparison.speeds import short_key, speed_text
from tfbench.report.document import to_document
from tfbench.report.formats import format_si, format_time
from tfbench.report.table import Column, Section, Table

_NOTE = (
    "The fastest setup of each machine first. Cost and energy per epoch cover training steps only."
    " These figures have no intervals."
)


def machines_section(comparison: Comparison) -> Section | None:
    """Returns a row a configuration, machine and setup, the fastest of each machine first.

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
    rows = [
        {
            **one.row.configuration,
            "machine": one.machine,
            "bare setup": bare_setup(one.entry),
            "speed": speed_text(one.entry),
            "price": _money(one.price_per_hour, one),
            "epoch_seconds": one.epoch_seconds,
            "cost": _money(one.epoch_cost, one),
            "energy": (
                one.epoch_joules
                and f"{format_si(one.epoch_joules, 'J')} ({', '.join(energy_parts(one.entry))})"
            ),
        }
        for one in list_setups(comparison)
    ]
    return (
        Section("Machines", tables=(Table("setups of each machine", columns, rows, (_NOTE,)),))
        if rows
        else None
    )


def machines_document(comparison: Comparison) -> list[dict[str, Any]]:
    """Returns the same as plain values: seconds, joules, costs in the currency of the price.

    Nothing of one machine.
    """
    return [
        to_document(one, without=("row", "entry"))
        | {
            "configuration": one.row.configuration,
            "setup": one.entry.setup,
            "samples_per_second": one.entry.speed,
            "energy_parts": list(energy_parts(one.entry)),
        }
        for one in list_setups(comparison)
    ]


def _money(value: float | None, one: MachineSetup) -> str | None:
    return f"{value:{',.0f' if value >= 1000 else '.3g'}} {one.currency}" if value else None
