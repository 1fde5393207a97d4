"""What comes of a comparison, and of a sweep: runs side by side, and what that shows."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfbench.analysis.comparison.comparison import Comparison
from tfbench.analysis.comparison.verdict import find_verdict
from tfbench.records.settings import MachineSettings
from tfbench.records.sweep import SweepPlan
from tfbench.report.comparison.comparison import comparison_document, comparison_rows, comparison_table
from tfbench.report.document import document
from tfbench.report.table import Section, html
from tfbench.sweeps.sweep import SweepEnd
from tfbench.wording import count


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ComparedRuns:
    """Runs side by side, and what that shows in plain sentences, the most important first."""

    comparison: Comparison
    verdict: tuple[str, ...]
    plan: SweepPlan | None = None  # of the sweep, where it is one

    @classmethod
    def of(
        cls, comparison: Comparison, plan: SweepPlan | None, machines: Mapping[str, MachineSettings]
    ) -> "ComparedRuns":
        """Returns what a comparison shows, with what its machines cost."""
        comparison = dataclasses.replace(comparison, machine_settings=machines)
        return ComparedRuns(comparison=comparison, verdict=find_verdict(comparison), plan=plan)

    def rows(self) -> list[dict[str, Any]]:
        """Returns a plain row for each setting and arm: speeds and speed-ups with their intervals, 95 %."""
        return comparison_rows(self.comparison)

    def document(self) -> dict[str, Any]:
        """Returns it as `--format json` prints it."""
        return document(comparison_document(self.comparison, self.verdict))

    def __repr__(self) -> str:
        of = ", ".join(self.comparison.recipes)
        arms = ", ".join(map(repr, self.comparison.arms))
        return f"<{type(self).__name__} of {of}: {count(len(self.comparison.runs), 'run')} of {arms}>"

    def _repr_html_(self) -> str:
        """Returns the table and the verdict, for notebooks."""
        return comparison_table(self.comparison).html() + html([Section("Verdict", self.verdict)])


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Swept(ComparedRuns):
    """A sweep that was made, or stopped on the way: its runs side by side."""

    plan: SweepPlan
    end: SweepEnd  # how many runs were made, failed, or are left
    view_problem: str  # why MLflow has no view of its own of it; "": it has one, or the sweep is not tracked

    @property
    def sweep_id(self) -> str:
        """Its id, by which `resume_sweep` and every command find it."""
        return self.plan.sweep_id

    def document(self) -> dict[str, Any]:
        """Returns it as `--format json` prints it: what came of the sweep, beside the comparison of its runs."""
        made = {"id": self.sweep_id, "num_runs": self.end.num_cells}
        made |= {"num_left": self.end.num_left, "num_failed": self.end.num_failed}
        return made | ComparedRuns.document(self)
