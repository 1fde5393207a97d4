"""From a comparison and the store that its runs are in to all that a report is made of."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tfbench.analysis.comparison.comparison import Comparison
from tfbench.errors import TrackingError
from tfbench.recipe.tables import to_tables
from tfbench.recipe.toml_text import format_toml
from tfbench.records.journal import read_result
from tfbench.records.run import RunResult
from tfbench.records.sweep import SweepPlan, describe_configuration
from tfbench.report.comparison.plots import comparison_plots, corner_rows
from tfbench.report.html_report import ReportContents
from tfbench.report.run.plots import AccuracyCurve, accuracy_by_time
from tfbench.store.store import Store
from tfbench.sweeps.comparison import ComparedRuns
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
    name = runs[-1].recipe if runs else comparison.recipes[0] if comparison.recipes else ""
    tables = plan.tables if plan else to_tables(newest.request.recipe) if newest else {}
    verdict = ComparedRuns(comparison=comparison, plan=plan).verdict
    data = "synthetic" if comparison.is_synthetic else "real"
    curves = list(_find_curves(results, comparison))
    accuracy = accuracy_by_time(curves, f"{', '.join(comparison.recipes)}, {data} data")
    plots = [*comparison_plots(comparison, *verdict[:1]), *([accuracy] if accuracy else [])]
    return ReportContents(
        created=created,
        comparison=comparison,
        verdict=verdict,
        plan=plan,
        plots=tuple(plots),
        environment=newest.environment if newest else None,
        commands=_list_commands(plan, results.values()),
        recipe_name=name,
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


def _find_curves(
    results: Mapping[str, RunResult], comparison: Comparison
) -> Iterator[AccuracyCurve]:
    """Yields the accuracy curve of the median-speed run under each setup.

    It does so for the smallest and largest networks and batches.
    """
    for row in corner_rows(comparison):
        for setup, entry in row.entries.items():
            ordered = sorted(
                (run for run in entry.runs if run.run_id in results),
                key=lambda run: run.speed or 0.0,
            )
            if ordered:
                epochs = results[ordered[(len(ordered) - 1) // 2].run_id].epochs
                points = [
                    (one.elapsed_seconds, one.val_accuracy)
                    for one in epochs
                    if one.val_accuracy is not None
                ]
                yield AccuracyCurve(describe_configuration(row.configuration), setup, tuple(points))


def _list_commands(plan: SweepPlan | None, results: Iterable[RunResult]) -> tuple[str, ...]:
    asked = [plan.argv] if plan else dict.fromkeys(one.request.argv for one in results)
    commands = tuple(command_line(*words) for words in asked if words)
    if not plan or not commands:
        return commands
    pairs = zip(("", *plan.argv), plan.argv, strict=False)
    store = [
        word for before, word in pairs if "--store" in (before, word) or word.startswith("--store=")
    ]
    return (*commands, command_line("report", "--sweep", "@last", *store))
