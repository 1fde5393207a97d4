"""What comes of a comparison, and of a sweep: runs side by side, and what that shows."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfbench.analysis.comparison.comparison import Comparison
from tfbench.analysis.comparison.verdict import find_verdict
from tfbench.records.settings import MachineSettings
from tfbench.records.sweep import SweepPlan
from tfbench.report.comparison.comparison import comparison_rows
from tfbench.sweeps.sweep import SweepEnd


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
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


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Swept(ComparedRuns):
    """A sweep that was made, or stopped on the way: its runs side by side."""

    plan: SweepPlan
    end: SweepEnd  # how many runs were made, failed, or are left
    view_problem: str  # why MLflow has no view of its own of it; "": it has one, or the sweep is not tracked

    @property
    def sweep_id(self) -> str:
        """Its id, by which `resume_sweep` and every command find it."""
        return self.plan.sweep_id
