"""The machines of a comparison, as sections."""

from tfbench.analysis.comparison.comparison import Comparison
from tfbench.analysis.comparison.machine_ranking import MachineComparison
from tfbench.analysis.comparison.machine_verdict import find_notes
from tfbench.analysis.comparison.machines import Machine, describe_gpus
from tfbench.report.comparison.machines import describe_facts, machine_cells
from tfbench.report.html.facts import describe_environment, describe_gpu
from tfbench.report.table import Column, Section, Table, table_of
from tfbench.wording import join_words


def machine_sections(comparison: Comparison, found: MachineComparison) -> list[Section]:
    """Returns the best arm of each machine at each setting, what the machines are, and what is not known of them."""
    cells = machine_cells(comparison, found, repeats_settings=True)
    table = table_of(cells.header, cells.rows, left=cells.left)
    return [Section("Machines", find_notes(found), (table, _described(found.machines)))]


def _described(machines: tuple[Machine, ...]) -> Table:
    """Returns a row for each thing that is known of machines, and a column for each of them."""
    listed = [_list_facts(machine) for machine in machines]
    labels = dict.fromkeys(label for facts in listed for label, value in facts.items() if value)
    columns = (Column("label", "", align="left"), *(Column(one.name, one.name, align="left") for one in machines))
    rows = [
        {"label": label, **{one.name: told.get(label, "") for one, told in zip(machines, listed, strict=True)}}
        for label in labels
    ]
    return Table("what the machines are", columns, rows)


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
