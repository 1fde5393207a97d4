"""What was in effect in a run, as lines of plain text and as a JSON object."""

from collections.abc import Sequence
from typing import Any

from tfbench.analysis.run.effective import EffectiveValue
from tfbench.records.run import RunResult
from tfbench.report.comparison.difference import format_value

_HEAD = ("setting", "in effect", "asked for")
_MARK = "!"
_GAP = "  "
_MAX_WIDTH = 28  # of a column; what is longer, a list of GPUs or flags, has its line alone


def effective_lines(result: RunResult, values: Sequence[EffectiveValue]) -> list[str]:
    """Returns a table of what was in effect and what was asked for; "!" before each that differs.

    Args:
        result: A run that got as far as training.
        values: As of `measure.effective.list_effective`.
    """
    rows = [
        _HEAD,
        *((value.name, _describe(value), "" if value.asked is None else format_value(value.asked)) for value in values),
    ]
    marks = ["", *(_MARK if value.differs else "" for value in values)]
    widths = [min(max(len(row[column]) for row in rows), _MAX_WIDTH) for column in (0, 1)]
    lines = [
        f"{mark:1} {row[0]:{widths[0]}}{_GAP}{row[1]:{widths[1]}}{_GAP}{row[2]}".rstrip()
        for mark, row in zip(marks, rows, strict=True)
    ]
    differing = [value.name for value in values if value.differs]
    verdict = f"Not as asked for: {', '.join(differing)}." if differing else "All that was asked for was in effect."
    return [f"{result.request.name} ({result.request.run_id})", *lines, "", verdict]


def effective_json(result: RunResult, values: Sequence[EffectiveValue]) -> dict[str, Any]:
    """Returns the same as plain tables: each setting's name with "effective", "asked" and "differs"."""
    return {
        "run_id": result.request.run_id,
        "name": result.request.name,
        "settings": {
            value.name: {"effective": value.effective, "asked": value.asked, "differs": value.differs}
            for value in values
        },
    }


def _describe(value: EffectiveValue) -> str:
    is_own_choice = value.name in ("intra_op_threads", "inter_op_threads") and value.effective == 0
    if is_own_choice:
        return "0: one a core"
    return "-" if value.effective is None else format_value(value.effective)
