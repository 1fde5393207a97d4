"""The machines of a comparison, as the section of a page."""

from typing import Any

from tfbench.analysis.comparison.comparison import Comparison
from tfbench.analysis.comparison.machine_ranking import MachineComparison
from tfbench.analysis.comparison.machine_verdict import find_notes
from tfbench.analysis.comparison.machines import Machine, describe_gpus
from tfbench.report.comparison.machines import describe_facts, machine_cells
from tfbench.report.html.facts import describe_environment, describe_gpu
from tfbench.report.html.page import Table
from tfbench.wording import join_words


def machine_section(comparison: Comparison, found: MachineComparison) -> dict[str, Any]:
    """Returns the best arm of each machine at each setting, what the machines are, and what is not known of them."""
    cells = machine_cells(comparison, found, repeats_settings=True)
    return {
        "best_arms": Table(
            label="best arm of each machine",
            header=cells.header,
            rows=cells.rows,
            text_columns=[cells.header.index(name) for name in cells.left],
            is_stacked=True,
        ),
        "described": _described(found.machines),
        "notes": find_notes(found),
    }


def _described(machines: tuple[Machine, ...]) -> Table:
    """Returns a row for each thing that is known of machines, and a column for each of them."""
    listed = [_list_facts(machine) for machine in machines]
    labels = dict.fromkeys(label for facts in listed for label, value in facts.items() if value)
    return Table(
        label="what the machines are",
        header=["", *(machine.name for machine in machines)],
        rows=[[label, *(facts.get(label, "") for facts in listed)] for label in labels],
        text_columns=(0,),
        long_columns=range(1, len(machines) + 1),
        is_stacked=True,
    )


def _list_facts(machine: Machine) -> dict[str, str]:
    facts = {} if machine.hosts == (machine.name,) else {"host": join_words(machine.hosts)}
    if machine.environment:
        described = dict(describe_environment(machine.environment))
        facts |= {label: value for label, value in described.items() if label != "host"}
        facts["GPU"] = "; ".join(describe_gpus(machine.environment, describe_gpu))
    facts |= {
        title: " or ".join(sorted(machine.versions[title]))
        for title in facts
        if title in machine.versions and len(machine.versions[title]) > 1
    }
    return facts | dict(describe_facts(machine))
