"""Gathers what a report is made of, from a comparison and the store of its runs."""

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tfbench.comparisons.comparison import Comparison
from tfbench.comparisons.html_report import ReportContents
from tfbench.comparisons.plots import comparison_plots, corner_rows
from tfbench.errors import TrackingError
from tfbench.recipe.tables import to_tables
from tfbench.recipe.toml_text import format_toml
from tfbench.runs.epoch_plots import TimeCurve, plots_by_time
from tfbench.runs.record import RunResult
from tfbench.show.plot import Plot
from tfbench.store.journal import read_result
from tfbench.store.store import Store
from tfbench.sweeps.compared import ComparedRuns
from tfbench.sweeps.plan import SweepPlan, describe_configuration
from tfbench.wording import command_line


def gather_contents(
    store: Store, comparison: Comparison, plan: SweepPlan | None, *, created: float
) -> ReportContents:
    """Gathers what a report says beyond the comparison.

    A run whose journal is damaged stops none of this.

    Args:
        store: Where the journals are.
        comparison: Of at least one run.
        plan: Of the sweep, if it is one.
        created: When the report is made, seconds since 1970.
    """
    runs = sorted(comparison.runs, key=lambda run: run.created)
    results, unreadable = _read_runs(store, [run.run_id for run in runs])
    comparison = dataclasses.replace(comparison, unreadable={**comparison.unreadable, **unreadable})
    newest = next(reversed(results.values()), None)
    recipe_names = [*comparison.recipes[:1], *(run.recipe for run in runs)]
    tables: Mapping[str, Any] = {}
    if plan:
        tables = plan.tables
    elif newest:
        tables = to_tables(newest.request.recipe)
    verdict = ComparedRuns(comparison=comparison, plan=plan).verdict
    return ReportContents(
        created=created,
        comparison=comparison,
        verdict=verdict,
        plan=plan,
        plots=draw_plots(store, comparison, verdict),
        environment=newest.environment if newest else None,
        commands=_list_commands(plan, results.values()),
        recipe_name=recipe_names[-1] if recipe_names else "",
        recipe_toml=format_toml(tables),
    )


def _read_runs(store: Store, run_ids: Sequence[str]) -> tuple[dict[str, RunResult], dict[str, str]]:
    """Returns runs by their ids, and why others, whose figures are known, cannot be read."""
    results = {}
    unreadable = {}
    for run_id in run_ids:
        try:
            run = read_result(store.journal_path(run_id))
            results[run_id] = dataclasses.replace(run, spans=())  # of which a long run has many
        except TrackingError as error:
            unreadable[run_id] = str(error)
    return results, unreadable


def draw_plots(store: Store, comparison: Comparison, verdict: Sequence[str]) -> tuple[Plot, ...]:
    """Draws what was compared, and what runs had reached by time."""
    curves = _find_curves(store, comparison)
    subject = f"{', '.join(comparison.recipes)}, {comparison.describe_data()} data"
    return (*comparison_plots(comparison, *verdict[:1]), *plots_by_time(curves, subject))


def _find_curves(store: Store, comparison: Comparison) -> list[TimeCurve]:
    """Returns what the median-speed run under each setup had reached after each epoch.

    It does so for the smallest and largest networks and batches. A damaged journal has no curve.
    """
    curves = []
    for row in corner_rows(comparison):
        name = describe_configuration(row.configuration)
        for setup, entry in row.entries.items():
            runs = sorted(entry.runs, key=lambda run: run.speed or 0.0)
            if not runs:
                continue
            median = runs[(len(runs) - 1) // 2]
            with contextlib.suppress(TrackingError):
                result = read_result(store.journal_path(median.run_id))
                curves.append(_follow(result, name, setup))
    return curves


class _Done(NamedTuple):
    """Steps in a row, numbered from 1."""

    first_step: int
    last_step: int


def _follow(result: RunResult, configuration: str, setup: str) -> TimeCurve:
    sizes = result.batch_sizes
    accuracy = []
    samples = []
    num_steps = 0
    for epoch in result.epochs:
        num_steps += epoch.num_steps
        samples.append((epoch.elapsed_seconds, sizes.count([_Done(1, num_steps)])))
        if epoch.val_accuracy is not None:
            accuracy.append((epoch.elapsed_seconds, epoch.val_accuracy))
    if len(samples) < 2:  # of a run that was limited: its speed says it all
        samples = []
    return TimeCurve(configuration, setup, tuple(accuracy), tuple(samples))


def _list_commands(plan: SweepPlan | None, results: Iterable[RunResult]) -> tuple[str, ...]:
    """Returns the commands that made the runs; after that of a sweep, the one of its report."""
    if plan is None:
        commands = dict.fromkeys(result.request.argv for result in results)
        return tuple(command_line(*words) for words in commands if words)
    if not plan.argv:
        return ()
    store = []
    for before, word in itertools.pairwise(("", *plan.argv)):
        if "--store" in (before, word) or word.startswith("--store="):
            store.append(word)
    return command_line(*plan.argv), command_line("report", "--sweep", "@last", *store)
