"""Runs side by side.

Rows are network and batch sizes, columns are setups; speed-ups are over one of the setups.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tfbench.comparisons.entries import Entry, Row, judge_setups, speeds_of
from tfbench.comparisons.equality import Settings, find_unequal_settings
from tfbench.comparisons.failures import LOST, Failure, MissingRuns
from tfbench.comparisons.intervals import geometric_mean, log_interval
from tfbench.comparisons.judging import Speedup
from tfbench.comparisons.looks import ONE_LOOK, Looks, find_looks
from tfbench.comparisons.sessions import find_sessions
from tfbench.comparisons.user_settings import NO_SETTINGS, UserSettings
from tfbench.store.brief import (
    RunBrief,
    choose_hosts,
    differing_keys,
    host_of,
    name_alone,
    name_columns,
    setup_of,
)
from tfbench.sweeps.plan import BATCH_KEY


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Runs side by side."""

    recipes: tuple[str, ...]
    keys: tuple[str, ...]  # that tell rows apart
    setups: tuple[str, ...]
    baseline: str
    rows: tuple[Row, ...]
    is_synthetic: bool
    shares_cores: tuple[str, ...]  # setups whose replicas are logical devices of one processor
    references: tuple[dict[str, Any], ...]  # published for the recipes of the runs
    compared: tuple[str, ...] = ()  # of what must be equal: in which the setups differ on purpose
    unreadable: Mapping[str, str] = field(default_factory=dict)  # by id, why runs are left out
    missing: MissingRuns | None = None  # of the sweep that it is of
    settings: UserSettings = NO_SETTINGS
    looks: Looks = ONE_LOOK  # when a sweep that adds rounds is judged

    @property
    def runs(self) -> list[RunBrief]:
        """All runs with a speed."""
        runs: list[RunBrief] = []
        for entry in self.all_entries():
            runs += entry.runs
        return runs

    def describe_data(self) -> str:
        """Returns "real" or "synthetic"."""
        return "synthetic" if self.is_synthetic else "real"

    def all_entries(self) -> list[Entry]:
        """Returns the entries of all rows."""
        entries: list[Entry] = []
        for row in self.rows:
            entries += row.entries.values()
        return entries

    def measured_entries(self) -> list[Entry]:
        """Returns those with a speed."""
        return [entry for entry in self.all_entries() if entry.runs]

    def all_speedups(self) -> list[Speedup]:
        """Returns all speed-ups over the baseline."""
        speedups = []
        for entry in self.all_entries():
            if entry.speedup:
                speedups.append(entry.speedup)
        return speedups


@dataclass(slots=True)
class _GridRow:
    """What there is of one configuration, by setup."""

    configuration: Settings
    runs: dict[str, list[RunBrief]]
    failures: dict[str, list[Failure]]


def _row_of(grid: dict[str, _GridRow], configuration: Mapping[str, Any]) -> _GridRow:
    """Returns what there is of a configuration; of a new one that is nothing yet."""
    name = json.dumps(configuration, default=str)  # lists have names, too; 1, 1.0, true are three
    if name not in grid:
        grid[name] = _GridRow(dict(configuration), defaultdict(list), defaultdict(list))
    return grid[name]


def compare(
    briefs: Sequence[RunBrief],
    *,
    keys: Sequence[str] | None = None,
    configurations: Sequence[Mapping[str, Any]] = (),
    setups: Sequence[str] | None = None,
    baseline: str | None = None,
    failures: Iterable[Failure] = (),
    allows_unequal: bool = False,
    compared: Collection[str] = (),
    looks: Looks | None = None,
    settings: UserSettings = NO_SETTINGS,
) -> Comparison:
    """Sets runs side by side.

    Args:
        briefs: Runs that are over, of one recipe or of several that are to be compared.
        keys: Dotted keys that tell rows apart; None: all in which the runs differ.
        configurations: The rows, in their order; others, and all without it, come by network size
            and batch size.
        setups: The columns, in their order; None: as they come.
        baseline: The setup that others are compared with; None: the first.
        failures: Configurations without a speed that have no run, or none that tells why.
        allows_unequal: Whether to compare runs that differ in what must be equal all the same.
        compared: In what setups may differ that must be equal; two backends do so by nature, too.
        looks: When they are judged; None: as the runs say.
        settings: The user's, which are those of `config.toml`.

    Returns:
        All but `unreadable` and `missing`, which the caller may know.
    """
    is_planned = setups is not None
    name_of = setup_of if is_planned else name_alone
    failed = list(failures)
    measured = []
    for brief in briefs:
        if brief.speed:
            measured.append(brief)
        else:
            failed.append(_describe_failure(brief, keys or (), name_of(brief)))
    if keys is None:
        keys = differing_keys(measured)
    names = name_columns(measured, is_planned=is_planned)
    named_by_failures = [failure.setup for failure in failed]
    setups = tuple(dict.fromkeys([*(setups or ()), *names.values(), *named_by_failures]))
    base = baseline or ""
    if base not in setups:
        base = next(iter(setups), "")
    grid: dict[str, _GridRow] = {}
    for configuration in configurations:
        _row_of(grid, configuration)
    num_planned = len(grid)
    for brief in measured:
        row = _row_of(grid, _configuration_of(brief, keys))
        row.runs[names[brief.run_id]].append(brief)
    for failure in failed:
        _row_of(grid, failure.configuration).failures[failure.setup].append(failure)
    sessions = find_sessions(measured)
    made = []
    for row in grid.values():
        entries = _make_entries(row, setups, allows_unequal, sessions)
        made.append(_make_row(row, entries, base, compared))
    looks = looks or find_looks(measured)
    rows = judge_setups(
        made,
        base,
        compared=compared,
        allows_unequal=allows_unequal,
        session_scatter=settings.session_scatter,
        looks=looks,
    )
    on_shared_cores = [names[brief.run_id] for brief in measured if brief.shares_cores]
    return Comparison(
        recipes=tuple(dict.fromkeys(brief.recipe for brief in briefs)),
        keys=tuple(keys),
        setups=setups,
        baseline=base,
        rows=(*rows[:num_planned], *sorted(rows[num_planned:], key=_row_order)),
        is_synthetic=any(brief.is_synthetic for brief in measured),
        shares_cores=tuple(dict.fromkeys(on_shared_cores)),
        references=_list_references(briefs),
        compared=tuple(compared),
        settings=settings,
        looks=looks,
    )


def _configuration_of(brief: RunBrief, keys: Sequence[str]) -> Settings:
    return {key: brief.settings.get(key) for key in keys}


def _describe_failure(brief: RunBrief, keys: Sequence[str], setup: str) -> Failure:
    return Failure(
        configuration=_configuration_of(brief, keys),
        setup=setup,
        outcome=brief.status,
        reason=brief.reason or "no steady steps were measured",
    )


def _list_references(briefs: Sequence[RunBrief]) -> tuple[dict[str, Any], ...]:
    """Returns what was published for the recipes of the runs, each once."""
    by_recipe = {brief.recipe: brief.references for brief in briefs}
    published = []
    for references in by_recipe.values():
        for reference in references:
            if reference not in published:
                published.append(reference)
    return tuple(published)


def _make_row(
    row: _GridRow, entries: dict[str, Entry], baseline: str, compared: Collection[str]
) -> Row:
    sizes = []
    for setup in entries:
        sizes += [brief.metrics.get("num_parameters") for brief in row.runs[setup]]
    known_sizes = [size for size in sizes if size is not None]
    if entries and entries[baseline].runs:
        settings = entries[baseline].runs[0].settings
        for setup, entry in entries.items():
            if entry.runs and setup != baseline:
                own = entry.runs[0].settings
                unequal = find_unequal_settings(settings, own, compared=compared)
                entries[setup] = replace(entry, unequal=unequal)
    batch = row.configuration.get(BATCH_KEY)
    batches = {entry.global_batch_size for entry in entries.values()} - {None}
    if len(batches) == 1:
        (batch,) = batches
    return Row(
        configuration=row.configuration,
        num_parameters=int(known_sizes[0]) if known_sizes else None,
        global_batch_size=batch,
        entries=entries,
    )


def _make_entries(
    row: _GridRow, setups: Sequence[str], allows_unequal: bool, sessions: Mapping[str, str]
) -> dict[str, Entry]:
    hosts = choose_hosts({setup: row.runs[setup] for setup in setups})
    entries = {}
    for setup in setups:
        kept = [brief for brief in row.runs[setup] if host_of(brief) == hosts[setup]]
        if kept and not allows_unequal:
            newest = max(kept, key=lambda brief: brief.created).equals
            kept = [brief for brief in kept if brief.equals == newest]
        kept_ids = {brief.run_id for brief in kept}
        outcome, reason = _find_outcome(row.failures[setup], kept)
        entry = Entry(
            setup=setup, runs=tuple(kept), speed=None, interval=None, outcome=outcome, reason=reason
        )
        if kept:
            speeds = speeds_of(kept)
            sessions_of_runs = tuple(sessions[brief.run_id] for brief in kept)
            entry = replace(
                entry,
                speed=geometric_mean(speeds),
                sessions=sessions_of_runs,
                left_out=tuple(brief for brief in row.runs[setup] if brief.run_id not in kept_ids),
            )
            if len(set(sessions_of_runs)) == 1:
                entry = replace(entry, interval=log_interval(speeds))
        entries[setup] = entry
    return entries


def _find_outcome(failures: Sequence[Failure], runs: Sequence[RunBrief]) -> tuple[str, str]:
    """Returns how a configuration ended under a setup, and why."""
    if failures:
        # The first that was lost, else the first.
        failure = max(failures, key=lambda failure: failure.outcome == LOST)
        return failure.outcome, failure.reason
    if runs:
        return "FINISHED", ""
    return "MISSING", "not measured"


def _row_order(row: Row) -> tuple[float, float, str]:
    return row.num_parameters or 0.0, row.global_batch_size or 0.0, repr(row.configuration)
