"""All that an HTML report is made of."""

import dataclasses
from collections.abc import Mapping

from tfbench.analysis.comparison.comparison import Comparison
from tfbench.records.machine import Environment
from tfbench.records.sweep import SweepPlan
from tfbench.report.plot import Plot


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ReportContents:
    """All that a report is made of."""

    created: float  # seconds since 1970, UTC
    comparison: Comparison
    verdict: tuple[str, ...]
    plan: SweepPlan | None  # of the sweep, if it is one
    plots: tuple[Plot, ...]
    environment: Environment | None  # of the newest run
    differing: Mapping[str, Mapping[str, int]]  # of the environments: name to the number of runs with each value
    commands: tuple[str, ...]  # that make the runs again
    recipe_name: str
    recipe_toml: str  # as resolved
    needs_recipe_file: bool  # the commands name NAME.toml, which is to be saved first
