"""The machines of a comparison as a section and as JSON: what each setup costs on each."""

from typing import Any

from tfbench.comparisons.comparison import Comparison
from tfbench.comparisons.machines import bare_setup, energy_parts, list_setups
from tfbench.comparisons.speeds import short_key, speed_text
from tfbench.show.document import to_document
from tfbench.show.formats import format_si, format_time
from tfbench.show.table import Column, Section, Table
from tfbench.sweeps.plan import format_value

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
            parts = ", ".join(energy_parts(setup.entry))
            energy = f"{format_si(setup.epoch_joules, 'J')} ({parts})"
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
            "energy_parts": list(energy_parts(setup.entry)),
        }
        for setup in list_setups(comparison)
    ]


def _money(value: float | None, currency: str) -> str:
    """Returns "1,200 EUR"; "" without a price."""
    if not value:
        return ""
    digits = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{digits} {currency}"
