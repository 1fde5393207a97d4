"""Runs side by side.

A row a network size and batch size, a column a setup, speed-ups over one of the setups.
"""

import dataclasses
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from tfbench.analysis.comparison.brief import (
    RunBrief,
    choose_hosts,
    differing_keys,
    host_of,
    name_alone,
    name_columns,
    setup_of,
)
from tfbench.analysis.comparison.equality import Difference, find_unequal_settings
from tfbench.analysis.comparison.intervals import (
    Interval,
    geometric_mean,
    interval_around,
    log_interval,
)
from tfbench.analysis.comparison.judging import Runs, Speedup, judge_family
from tfbench.records.settings import MachineSettings
from tfbench.records.sweep import BATCH_KEY, describe_configuration, format_value, round_of

_NUM_NAMED = 3  # settings that a sentence names; of more it has the number, and the table the rest


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A configuration under a setup that has no speed: which ones, how it ended and why."""

    configuration: dict[str, Any]
    setup: str
    outcome: str
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One configuration under one setup; no speed: `outcome` and `reason` say why.

    `speed` is the geometric mean over the runs, as in the ratios of speed-ups and at the center of
    intervals.
    """

    setup: str
    runs: tuple[RunBrief, ...]
    speed: float | None  # samples per second
    interval: Interval | None
    outcome: str = "FINISHED"
    reason: str = ""
    speedup: Speedup | None = None
    unequal: tuple[Difference, ...] = ()  # to the baseline, so that there is no speed-up
    left_out: tuple[
        RunBrief, ...
    ] = ()  # of another machine, or unlike the newest run in what must be equal

    @property
    def host(self) -> str:
        """Host name of the one machine that its runs were made on; "" without a run."""
        return host_of(self.runs[0]) if self.runs else ""

    @property
    def measured(self) -> Runs:
        """Its runs, to be judged.

        In rounds of their machine, and with the scatter of other configurations there.
        """
        rounds = [round_of(run.tags) for run in self.runs]
        return Runs(
            setup=f"{self.setup} on {self.host}",
            speeds=tuple(run.speed or math.nan for run in self.runs),
            rounds=tuple(place and (self.host, *place) for place in rounds),
            host=self.host,
        )

    @property
    def global_batch_size(self) -> int | None:
        """Samples of a step of its runs; None without a run."""
        batch = self.runs[0].metrics.get("global_batch_size") if self.runs else None
        return None if batch is None else int(batch)

    @property
    def step_seconds(self) -> float | None:
        """Mean time of a step at its speed; None without a run."""
        return (
            self.global_batch_size / self.speed if self.global_batch_size and self.speed else None
        )

    @property
    def val_loss(self) -> float | None:
        """Mean validation loss of its runs; None: one was not validated."""
        losses = [loss for run in self.runs if (loss := run.metrics.get("val_loss")) is not None]
        return sum(losses) / len(losses) if losses and len(losses) == len(self.runs) else None

    @property
    def input_share(self) -> float | None:
        """Share of a step's time that its input would take alone; None: not measured."""
        headrooms = [
            headroom for run in self.runs if (headroom := run.metrics.get("input_headroom"))
        ]
        return 1 / geometric_mean(headrooms) if headrooms else None

    @property
    def transfer_share(self) -> float | None:
        """Mean share of a traced step in collectives, with waiting for others in a process; None.

        None was traced.
        """
        shares = [
            share for run in self.runs if (share := run.metrics.get("transfer_share")) is not None
        ]
        return sum(shares) / len(shares) if shares else None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One configuration under every setup."""

    configuration: dict[str, Any]  # of the keys that tell rows apart
    num_parameters: int | None
    global_batch_size: int | None  # None: not known, or not the same under every setup
    entries: dict[str, Entry]  # by setup


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
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
    unreadable: Mapping[str, str] = dataclasses.field(
        default_factory=dict
    )  # by id, why runs are left out
    machine_settings: Mapping[str, MachineSettings] = dataclasses.field(
        default_factory=dict
    )  # the user's, by name

    @property
    def runs(self) -> list[RunBrief]:
        """All runs with a speed."""
        return [run for row in self.rows for entry in row.entries.values() for run in entry.runs]


@dataclasses.dataclass(slots=True)
class _Cell:
    """What there is of one configuration under one setup."""

    runs: list[RunBrief] = dataclasses.field(default_factory=list)
    failures: list[Failure] = dataclasses.field(default_factory=list)


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
        compared: Of what must be equal: in which setups may differ; of two backends, what is theirs
            by nature, too.

    Returns:
        All but `unreadable` and `machine_settings`, which the caller may know.
    """
    name_of = name_alone if setups is None else setup_of
    failed = [
        *failures,
        *(
            failure
            for brief in briefs
            if (failure := _failure_of(brief, keys or (), name_of(brief)))
        ),
    ]
    measured = [brief for brief in briefs if brief.speed]
    keys = list(differing_keys(measured) if keys is None else keys)
    names = name_columns(measured, is_planned=setups is not None)
    setups = list(
        dict.fromkeys([*(setups or ()), *names.values(), *(failure.setup for failure in failed)])
    )
    chosen = baseline if baseline in setups else (setups[0] if setups else "")
    grid: dict[str, tuple[dict[str, Any], dict[str, _Cell]]] = {}

    def cells_of(configuration: Mapping[str, Any]) -> dict[str, _Cell]:
        name = json.dumps(
            configuration, default=str
        )  # values may be lists; 1, 1.0 and true are three
        return grid.setdefault(name, (dict(configuration), {setup: _Cell() for setup in setups}))[1]

    for configuration in configurations:
        cells_of(configuration)
    num_planned = len(grid)
    for brief in measured:
        cells_of({key: brief.settings.get(key) for key in keys})[names[brief.run_id]].runs.append(
            brief
        )
    for failure in failed:
        cells_of(failure.configuration)[failure.setup].failures.append(failure)
    by_recipe = {brief.recipe: brief.references for brief in briefs}
    published = [one for references in by_recipe.values() for one in references]
    made = [_make_row(*place, chosen, compared, allows_unequal) for place in grid.values()]
    rows = _judge(made, chosen, allows_unequal)
    return Comparison(
        recipes=tuple(dict.fromkeys(brief.recipe for brief in briefs)),
        keys=tuple(keys),
        setups=tuple(setups),
        baseline=chosen,
        rows=(*rows[:num_planned], *sorted(rows[num_planned:], key=_row_order)),
        is_synthetic=any(brief.is_synthetic for brief in measured),
        shares_cores=tuple(
            dict.fromkeys(names[brief.run_id] for brief in measured if brief.shares_cores)
        ),
        references=tuple(
            one for place, one in enumerate(published) if one not in published[:place]
        ),
        compared=tuple(compared),
    )


def _make_row(
    configuration: dict[str, Any],
    cells: Mapping[str, _Cell],
    baseline: str,
    compared: Collection[str],
    allows_unequal: bool,
) -> Row:
    hosts = choose_hosts({setup: cell.runs for setup, cell in cells.items()})
    entries = {
        setup: _make_entry(setup, cell, hosts[setup], allows_unequal)
        for setup, cell in cells.items()
    }
    base = entries[baseline].runs if entries else ()
    for setup, entry in entries.items():
        if base and entry.runs and setup != baseline:
            unequal = find_unequal_settings(
                base[0].settings, entry.runs[0].settings, compared=compared
            )
            entries[setup] = dataclasses.replace(entry, unequal=unequal)
    sizes = [brief.metrics.get("num_parameters") for cell in cells.values() for brief in cell.runs]
    batches = {entry.global_batch_size for entry in entries.values()} - {None}
    return Row(
        configuration=configuration,
        num_parameters=next((int(size) for size in sizes if size is not None), None),
        global_batch_size=batches.pop() if len(batches) == 1 else configuration.get(BATCH_KEY),
        entries=entries,
    )


def _make_entry(setup: str, cell: _Cell, host: str, allows_unequal: bool) -> Entry:
    here = [brief for brief in cell.runs if host_of(brief) == host]
    outcome, reason = ("FINISHED", "") if here else ("MISSING", "not measured")
    if cell.failures:
        outcome = cell.failures[0].outcome
        reason = cell.failures[0].reason
    if not here:
        return Entry(
            setup=setup, runs=(), speed=None, interval=None, outcome=outcome, reason=reason
        )
    newest = max(here, key=lambda brief: brief.created).equals
    kept = [brief for brief in here if allows_unequal or brief.equals == newest]
    speeds = [brief.speed or math.nan for brief in kept]
    return Entry(
        setup=setup,
        runs=tuple(kept),
        speed=geometric_mean(speeds),
        interval=log_interval(speeds),
        outcome=outcome,
        reason=reason,
        left_out=tuple(brief for brief in cell.runs if brief not in kept),
    )


def _judge(rows: Sequence[Row], baseline: str, allows_unequal: bool) -> list[Row]:
    """Puts in the speed-ups over the baseline, of all configurations and setups at once."""
    places = [
        (place, setup)
        for place, row in enumerate(rows)
        for setup, entry in row.entries.items()
        if setup != baseline
        and entry.runs
        and row.entries[baseline].runs
        and (allows_unequal or not entry.unequal)
    ]
    pairs = [
        (rows[place].entries[baseline].measured, rows[place].entries[setup].measured)
        for place, setup in places
    ]
    judged = [dict(row.entries) for row in rows]
    for (place, setup), speedup in zip(places, judge_family(pairs), strict=True):
        judged[place][setup] = dataclasses.replace(judged[place][setup], speedup=speedup)
    for entries in judged:
        _share_scatter(entries, baseline)
    return [
        dataclasses.replace(row, entries=entries) for row, entries in zip(rows, judged, strict=True)
    ]


def _share_scatter(entries: dict[str, Entry], baseline: str) -> None:
    """Sets the intervals of speeds by the scatter that judges their ratios.

    The baseline's is set by the largest scatter.
    """
    found = {setup: one.speedup and one.speedup.speed_half_widths for setup, one in entries.items()}
    halves = {setup: widths for setup, widths in found.items() if widths}
    widest = {setup: half for setup, (_, half) in halves.items()}
    if halves:
        widest[baseline] = max(half for half, _ in halves.values())
    for setup, half in widest.items():
        entry = entries[setup]
        interval = interval_around(entry.speed or math.nan, half, len(entry.runs))
        entries[setup] = dataclasses.replace(entry, interval=interval)


def _failure_of(brief: RunBrief, keys: Sequence[str], setup: str) -> Failure | None:
    if brief.speed:
        return None
    reason = brief.reason or "no steady steps were measured"
    configuration = {key: brief.settings.get(key) for key in keys}
    return Failure(configuration=configuration, setup=setup, outcome=brief.status, reason=reason)


def _row_order(row: Row) -> tuple[float, float, str]:
    return row.num_parameters or 0.0, row.global_batch_size or 0.0, repr(row.configuration)


def describe_where(rows: Sequence[Row], comparison: Comparison) -> str:
    """Returns " at batch 32, 64", " at batch 32 with units=[100]", " at 4 of 6 configurations".

    "" of the only one.
    """
    keys = comparison.keys
    noun = "batch sizes" if keys == (BATCH_KEY,) else "configurations"
    if not rows[0].configuration:
        return ""
    if len(rows) == len(comparison.rows) > 1:
        return f" at both {noun}" if len(rows) == 2 else f" at all {len(rows)} {noun}"
    if len(rows) > _NUM_NAMED or (len(rows) > 1 and len(keys) > 1):
        return f" at {len(rows)} of {len(comparison.rows)} {noun}"
    own = BATCH_KEY if BATCH_KEY in keys else keys[-1]
    values = ", ".join(format_value(row.configuration.get(own)) for row in rows)
    block = describe_configuration(
        {key: value for key, value in rows[0].configuration.items() if key != own}
    )
    at = f"batch {values}" if own == BATCH_KEY else f"{own.rpartition('.')[2]}={values}"
    return f" at {at}{f' with {block}' if block else ''}"
