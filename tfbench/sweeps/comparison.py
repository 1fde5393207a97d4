"""From a sweep's record, or any runs of a store, to a comparison."""

import dataclasses
from collections.abc import Sequence

from tfbench.analysis.comparison.brief import RunBrief
from tfbench.analysis.comparison.comparison import Comparison, Failure, FindFloor, compare
from tfbench.analysis.comparison.equality import BETWEEN_MACHINES
from tfbench.analysis.comparison.noise import NoiseFloor, NoiseKey
from tfbench.analysis.comparison.references import find_own_settings
from tfbench.records.sweep import CellResult, SweepPlan, list_cells, list_settings
from tfbench.schema import build
from tfbench.store.briefs import Briefs, read_briefs
from tfbench.store.noise_floors import newest_noise_floors
from tfbench.store.store import Store


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
    briefs, unreadable = read_briefs(store, run_ids)
    for cell in list_cells(plan):
        result = results.get(cell.number)
        if result and result.run_id in unreadable:
            reason = unreadable[result.run_id]
            arm = plan.arms[cell.arm].label
            failure = Failure(setting=settings[cell.setting], arm=arm, outcome="UNREADABLE", reason=reason)
            failures.setdefault(cell.point, failure)
    comparison = compare(
        briefs,
        floors_of(store),
        keys=[variation.key for variation in plan.variations],
        settings=settings,
        arms=[arm.label for arm in plan.arms],
        baseline=baseline,
        failures=failures.values(),
        compared=list_compared(plan),
    )
    return dataclasses.replace(comparison, own_settings=find_own_settings(briefs, plan), unreadable=unreadable)


def compare_stored(
    store: Store,
    run_ids: Sequence[str] | None = None,
    *,
    recipe: str | None = None,
    baseline: str | None = None,
    allows_unequal: bool = False,
) -> Comparison:
    """Sets runs of a store side by side, of one recipe if it is named; not profiles, nor what still runs.

    Args:
        store: Where they are.
        run_ids: In the order in which their arms are to stand; None: all, oldest first.
        recipe: Runs of others are left out.
        baseline: The arm that others are held against; None: the first.
        allows_unequal: Whether to compare runs that differ in what must be equal all the same.
    """
    found, unreadable = _read_oldest_first(store) if run_ids is None else read_briefs(store, run_ids)
    briefs = [brief for brief in found if recipe in (None, brief.recipe) and not brief.profile]
    comparison = compare(briefs, floors_of(store), baseline=baseline, allows_unequal=allows_unequal)
    return dataclasses.replace(comparison, own_settings=find_own_settings(briefs), unreadable=unreadable)


def compare_each_recipe(store: Store, *, baseline: str | None = None, allows_unequal: bool = False) -> list[Comparison]:
    """Sets all runs of a store side by side, those of each recipe by themselves.

    Args:
        store: Where they are.
        baseline: The arm that others are held against, of a recipe that has it; else, and with None, its first.
        allows_unequal: Whether to compare runs that differ in what must be equal all the same.
    """
    briefs = [brief for brief in _read_oldest_first(store).found if not brief.profile]
    find_floor, comparisons = floors_of(store), []
    for recipe in dict.fromkeys(brief.recipe for brief in briefs):
        own = [brief for brief in briefs if brief.recipe == recipe]
        comparison = compare(own, find_floor, baseline=baseline, allows_unequal=allows_unequal)
        comparisons.append(dataclasses.replace(comparison, own_settings=find_own_settings(own)))
    return comparisons


def _read_oldest_first(store: Store) -> Briefs:
    briefs = read_briefs(store, store.run_ids())
    briefs.found.sort(key=lambda brief: brief.created)
    return briefs


def floors_of(store: Store) -> FindFloor:
    """Returns what finds the noise floor of a run; those of the store are read once."""
    floors = newest_noise_floors(store)

    def find(brief: RunBrief) -> NoiseFloor | None:
        if not floors or not brief.noise_key:
            return None
        return floors.get(build(NoiseKey, brief.noise_key, "noise_key"))

    return find


def list_compared(plan: SweepPlan) -> tuple[str, ...]:
    """Returns what the arms of a sweep differ in on purpose, of what must be equal."""
    batch = () if plan.per_replica_batch_size is None else ("global_batch_size",)
    named = {arm.machine for arm in plan.arms}
    machines = BETWEEN_MACHINES if len(named) > 1 and "" not in named else ()
    keys = dict.fromkeys(key for arm in plan.arms for key, _ in arm.values)
    return (
        *batch,
        *machines,
        *(key if key.startswith(("model.", "dataset.")) else key.partition(".")[2] for key in keys),
    )
