"""Runs side by side.

Rows are network and batch sizes, columns are setups; speed-ups are over one of the setups.
"""

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tfbench.comparisons.blocks import Runs
from tfbench.comparisons.equality import Differences, Settings, find_unequal_settings
from tfbench.comparisons.failures import LOST, Failure, MissingRuns
from tfbench.comparisons.intervals import Interval, geometric_mean, log_interval
from tfbench.comparisons.judging import Speedup, judge_rows
from tfbench.comparisons.looks import ONE_LOOK, Looks, find_looks, parse_count
from tfbench.comparisons.pairs import judge_setups, list_pairs
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
from tfbench.sweeps.plan import BATCH_KEY, round_of
from tfbench.tags import ROUND_TAG


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One configuration under one setup; no speed: `outcome` and `reason` say why.

    `speed` is the geometric mean over the runs, and the center of their interval. The ratio of two
    such speeds is the speed-up where both setups were run in the same rounds. Elsewhere, as over
    several sessions, the speed-up leaves out by how much rounds and sessions differ.
    """

    setup: str
    runs: tuple[RunBrief, ...]
    speed: float | None  # samples per second
    interval: Interval | None  # by its own runs; None: of one run, or several sessions
    sessions: tuple[str, ...] = ()  # of each run
    outcome: str = "FINISHED"
    reason: str = ""
    speedup: Speedup | None = None
    unequal: Differences = ()  # to the baseline, so that there is no speed-up
    # of another machine, or unlike the newest run in what must be equal
    left_out: tuple[RunBrief, ...] = ()

    @property
    def host(self) -> str:
        """Host name of the one machine that its runs were made on; "" without a run."""
        return host_of(self.runs[0]) if self.runs else ""

    @property
    def rounds(self) -> int:
        """In how many rounds it was measured; 0: its runs took no turns with others."""
        return len({round_of(run.tags) for run in self.runs} - {None})

    @property
    def num_sessions(self) -> int:
        """Over how many sessions its speed is the mean."""
        return len(set(self.sessions))

    @property
    def measured(self) -> Runs:
        """Its runs, to be judged, with the scatter of other configurations on this machine."""
        return Runs(
            setup=f"{self.setup} on {self.host}",
            speeds=tuple(run.speed or math.nan for run in self.runs),
            rounds=tuple(round_of(run.tags) for run in self.runs),
            numbers=tuple(parse_count(run.tags.get(ROUND_TAG, "")) for run in self.runs),
            sessions=self.sessions,
        )

    @property
    def session_speeds(self) -> tuple[float, ...]:
        """The speed of each session, slowest first; () where they do not differ measurably."""
        speeds: dict[str, list[float]] = {}
        for run, session in zip(self.runs, self.sessions, strict=True):
            speeds.setdefault(session, []).append(run.speed or math.nan)
        if len(speeds) < 2:
            return ()
        (judged,) = judge_rows([[Runs(setup="", speeds=tuple(own)) for own in speeds.values()]])
        if all(speedup.judgement not in ("faster", "slower") for speedup in judged.values()):
            return ()
        return tuple(sorted(map(geometric_mean, speeds.values())))

    @property
    def global_batch_size(self) -> int | None:
        """Samples of a step of its runs; None without a run."""
        batch = self.runs[0].metrics.get("global_batch_size") if self.runs else None
        return None if batch is None else int(batch)

    @property
    def step_seconds(self) -> float | None:
        """Mean time of a step of its runs; None without a run."""
        times = []
        for run in self.runs:
            num_steps = run.metrics.get("steady_steps")
            seconds = run.metrics.get("steady_seconds")
            if num_steps and seconds:
                times.append(seconds / num_steps)
        return geometric_mean(times) if times else None

    @property
    def val_loss(self) -> float | None:
        """Mean validation loss of its runs; None: one was not validated."""
        losses = self._figures("val_loss")
        if not losses or len(losses) < len(self.runs):
            return None
        return sum(losses) / len(losses)

    @property
    def input_shares(self) -> list[float]:
        """Share of a step's time that its input would take alone, of each run that measured it."""
        return [1 / headroom for headroom in self._figures("input_headroom") if headroom]

    @property
    def input_share(self) -> float | None:
        """Mean of `input_shares`; None: not measured."""
        return geometric_mean(self.input_shares) if self.input_shares else None

    @property
    def transfer_share(self) -> float | None:
        """Mean share of a traced step in collectives, with waiting for others in a process.

        None: no run was traced.
        """
        shares = self._figures("transfer_share")
        return sum(shares) / len(shares) if shares else None

    def _figures(self, name: str) -> list[float]:
        """Returns a metric of its runs, of as many as have it."""
        figures = [run.metrics.get(name) for run in self.runs]
        return [figure for figure in figures if figure is not None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One configuration under every setup."""

    configuration: Settings  # of the keys that tell rows apart
    num_parameters: int | None
    global_batch_size: int | None  # None: not known, or not the same under every setup
    entries: dict[str, Entry]  # by setup
    # of every pair of setups that can be compared: the second's speed over the first's
    speedups: Mapping[tuple[str, str], Speedup] = field(default_factory=dict)

    @property
    def has_lost_runs(self) -> bool:
        """Whether runs of it were started and do not say what came of them."""
        return any(entry.outcome == LOST for entry in self.entries.values())

    def is_undecided(self, setup: str) -> bool:
        """Whether it is open how a setup compares with the baseline, or with one before it.

        So each pair of setups that is open marks one of them.
        """
        for (_, second), speedup in self.speedups.items():
            if second == setup and not speedup.is_decided:
                return True
        return False

    def measured_entries(self) -> list[Entry]:
        """Returns those with a speed."""
        return [entry for entry in self.entries.values() if entry.runs]


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
        return [run for entry in self.all_entries() for run in entry.runs]

    def with_settings(self, settings: UserSettings) -> "Comparison":
        """Returns the same by the settings of a user, which are those of `config.toml`."""
        if settings.session_scatter == self.settings.session_scatter:
            return replace(self, settings=settings)
        pairs = [tuple(row.speedups) for row in self.rows]
        rows = judge_setups(self.rows, self.baseline, pairs, settings.session_scatter, self.looks)
        return replace(self, rows=tuple(rows), settings=settings)

    def all_entries(self) -> list[Entry]:
        """Returns the entries of all rows."""
        return [entry for row in self.rows for entry in row.entries.values()]


@dataclass(slots=True)
class _Cell:
    """What there is of one configuration under one setup."""

    runs: list[RunBrief] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


class _GridRow(NamedTuple):
    """What there is of one configuration, by setup."""

    configuration: Settings
    cells: dict[str, _Cell]


def _cells_of(
    grid: dict[str, _GridRow], configuration: Mapping[str, Any], setups: Iterable[str]
) -> dict[str, _Cell]:
    """Returns the cells of a configuration, by setup; a new one gets empty cells."""
    name = json.dumps(configuration, default=str)  # lists have names, too; 1, 1.0, true are three
    if name not in grid:
        grid[name] = _GridRow(dict(configuration), {setup: _Cell() for setup in setups})
    return grid[name].cells


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

    Returns:
        All but `unreadable`, `missing` and the user's settings, which the caller may know.
    """
    is_planned = setups is not None
    name_of = setup_of if is_planned else name_alone
    failed = [
        *failures,
        *(
            _describe_failure(brief, keys or (), name_of(brief))
            for brief in briefs
            if not brief.speed
        ),
    ]
    measured = [brief for brief in briefs if brief.speed]
    if keys is None:
        keys = differing_keys(measured)
    names = name_columns(measured, is_planned=is_planned)
    named_by_failures = [failure.setup for failure in failed]
    setups = tuple(dict.fromkeys([*(setups or ()), *names.values(), *named_by_failures]))
    base = baseline or ""
    if base not in setups:
        base = setups[0] if setups else ""
    grid: dict[str, _GridRow] = {}
    for configuration in configurations:
        _cells_of(grid, configuration, setups)
    num_planned = len(grid)
    for brief in measured:
        cells = _cells_of(grid, {key: brief.settings.get(key) for key in keys}, setups)
        cells[names[brief.run_id]].runs.append(brief)
    for failure in failed:
        cells = _cells_of(grid, failure.configuration, setups)
        cells[failure.setup].failures.append(failure)
    sessions = find_sessions(measured)
    made = [_make_row(row, base, compared, allows_unequal, sessions) for row in grid.values()]
    pairs = list_pairs(made, base, compared, allows_unequal)
    looks = looks or find_looks(measured)
    rows = judge_setups(made, base, pairs, looks=looks)
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
        looks=looks,
    )


def _describe_failure(brief: RunBrief, keys: Sequence[str], setup: str) -> Failure:
    return Failure(
        configuration={key: brief.settings.get(key) for key in keys},
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
    row: _GridRow,
    baseline: str,
    compared: Collection[str],
    allows_unequal: bool,
    sessions: Mapping[str, str],
) -> Row:
    hosts = choose_hosts({setup: cell.runs for setup, cell in row.cells.items()})
    entries = {}
    sizes = []
    for setup, cell in row.cells.items():
        entries[setup] = _make_entry(setup, cell, hosts[setup], allows_unequal, sessions)
        figures = [brief.metrics.get("num_parameters") for brief in cell.runs]
        sizes += [size for size in figures if size is not None]
    base = entries[baseline].runs if entries else ()
    for setup, entry in entries.items():
        if base and entry.runs and setup != baseline:
            unequal = find_unequal_settings(
                base[0].settings, entry.runs[0].settings, compared=compared
            )
            entries[setup] = replace(entry, unequal=unequal)
    batches = {entry.global_batch_size for entry in entries.values()} - {None}
    batch = batches.pop() if len(batches) == 1 else row.configuration.get(BATCH_KEY)
    return Row(
        configuration=row.configuration,
        num_parameters=int(sizes[0]) if sizes else None,
        global_batch_size=batch,
        entries=entries,
    )


def _make_entry(
    setup: str, cell: _Cell, host: str, allows_unequal: bool, sessions: Mapping[str, str]
) -> Entry:
    here = [brief for brief in cell.runs if host_of(brief) == host]
    outcome = "FINISHED"
    reason = ""
    if cell.failures:
        lost = [failure for failure in cell.failures if failure.outcome == LOST]
        first = (lost or cell.failures)[0]
        outcome = first.outcome
        reason = first.reason
    elif not here:
        outcome = "MISSING"
        reason = "not measured"
    entry = Entry(setup=setup, runs=(), speed=None, interval=None, outcome=outcome, reason=reason)
    if not here:
        return entry
    kept = here
    if not allows_unequal:
        newest = max(here, key=lambda brief: brief.created).equals
        kept = [brief for brief in here if brief.equals == newest]
    speeds = [brief.speed or math.nan for brief in kept]
    kept_ids = {brief.run_id for brief in kept}
    of_runs = tuple(sessions[brief.run_id] for brief in kept)
    return replace(
        entry,
        runs=tuple(kept),
        speed=geometric_mean(speeds),
        interval=log_interval(speeds) if len(set(of_runs)) == 1 else None,
        sessions=of_runs,
        left_out=tuple(brief for brief in cell.runs if brief.run_id not in kept_ids),
    )


def _row_order(row: Row) -> tuple[float, float, str]:
    return row.num_parameters or 0.0, row.global_batch_size or 0.0, repr(row.configuration)
