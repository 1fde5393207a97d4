"""From a sweep's record, or any runs of a store, to a comparison."""

from collections.abc import Sequence
from typing import Any

from tfbench.briefs import read_briefs
from tfbench.calibrations import newest_noise_floors
from tfbench.measure.comparison import Comparison, Failure, NoiseLimit, compare, setting_value
from tfbench.measure.difference import flatten
from tfbench.measure.noise import NoiseKey
from tfbench.run_brief import RunBrief
from tfbench.schema import build
from tfbench.sweep_log import CellResult
from tfbench.sweep_plan import SweepPlan, list_cells, list_settings
from tfbench.tracking.store import Store


def compare_sweep(
    store: Store, plan: SweepPlan, results: dict[int, CellResult], *, baseline: str | None = None
) -> Comparison:
    """Sets the runs of a sweep side by side, those that failed or were not made included.

    Args:
        store: Where its runs are.
        plan: Of the sweep.
        results: What came of its runs so far, by the numbers of their cells.
        baseline: The arm that others are held against; None: the plan's first.
    """
    settings = list_settings(plan)
    run_ids = [result.run_id for result in results.values() if result.outcome == "FINISHED" and result.run_id]
    failures: dict[tuple[int, int], Failure] = {}
    for cell in list_cells(plan):
        result = results.get(cell.number)
        if result is None:
            outcome, reason = "MISSING", "not measured"
        elif result.outcome in ("FINISHED", "SKIPPED"):
            continue
        else:
            outcome, reason = result.outcome, result.reason
        failure = Failure(setting=settings[cell.setting], arm=plan.arms[cell.arm].label, outcome=outcome, reason=reason)
        failures.setdefault(cell.point, failure)
    return compare(
        read_briefs(store, run_ids),
        noise_limits_of(store),
        keys=[variation.key for variation in plan.variations],
        settings=settings,
        arms=[arm.label for arm in plan.arms],
        baseline=baseline,
        failures=failures.values(),
    )


def compare_stored(
    store: Store,
    run_ids: Sequence[str],
    *,
    recipe: str | None = None,
    baseline: str | None = None,
    allows_unequal: bool = False,
) -> Comparison:
    """Sets any runs of a store side by side, of one recipe if it is named; those that still run are left out."""
    briefs = [brief for brief in read_briefs(store, run_ids) if recipe in (None, brief.recipe)]
    return compare(briefs, noise_limits_of(store), baseline=baseline, allows_unequal=allows_unequal)


def noise_limits_of(store: Store) -> NoiseLimit:
    """Returns what says which differences the noise floors of a store hide; they are read once."""
    floors = newest_noise_floors(store)

    def limit(a: RunBrief, b: RunBrief, num_rounds: int | None) -> float | None:
        keys = [build(NoiseKey, brief.noise_key, "noise_key") for brief in (a, b) if brief.noise_key] if floors else []
        found = [floors[key] for key in keys if key in floors]
        if len(found) < 2:
            return None
        return max(floor.unpaired_limit() if num_rounds is None else floor.paired_limit(num_rounds) for floor in found)

    return limit


def own_setting(plan: SweepPlan) -> dict[str, Any]:
    """Returns the recipe's own values of what a sweep varies."""
    settings = flatten({name: plan.tables.get(name, {}) for name in ("model", "dataset", "training", "measurement")})
    return {variation.key: setting_value(settings, variation.key) for variation in plan.variations}
