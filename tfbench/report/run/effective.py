"""What was in effect in a run, as a section."""

from collections.abc import Sequence

from tfbench.analysis.run.effective import EffectiveValue
from tfbench.records.run import RunResult
from tfbench.report.comparison.difference import format_value
from tfbench.report.table import Column, Section, Table


def effective_section(result: RunResult, values: Sequence[EffectiveValue]) -> Section:
    """Returns what was in effect beside what was asked for, and in a sentence what differs."""
    columns = (
        Column("mark", " ", align="left"),
        Column("name", "setting", align="left"),
        Column("effective", "in effect", align="left"),
        Column("asked", "asked for", align="left"),
    )
    rows = [
        {
            "mark": "!" if value.differs else "",
            "name": value.name,
            "effective": _describe(value),
            "asked": None if value.asked is None else format_value(value.asked),
        }
        for value in values
    ]
    differing = [value.name for value in values if value.differs]
    verdict = f"Not as asked for: {', '.join(differing)}." if differing else "All settings are as asked for."
    title = f"{result.request.name} ({result.request.run_id})"
    return Section(title, (verdict,), (Table("effective settings", columns, rows),))


def _describe(value: EffectiveValue) -> str:
    is_own_choice = value.name in ("intra_op_threads", "inter_op_threads") and value.effective == 0
    if is_own_choice:
        return "0: one per core"
    return "-" if value.effective is None else format_value(value.effective)
