"""One configuration under every setup: its runs, their speed, and how setups compare.

All pairs of setups are judged beside each other, as one family.
"""

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tfbench.comparisons.blocks import Runs
from tfbench.comparisons.equality import Differences, Settings, find_unequal_settings
from tfbench.comparisons.failures import LOST
from tfbench.comparisons.intervals import Interval, geometric_mean
from tfbench.comparisons.judging import Speedup, judge_rows
from tfbench.comparisons.looks import Looks, parse_count
from tfbench.store.brief import RunBrief, host_of
from tfbench.sweeps.plan import round_of
from tfbench.tags import ROUND_TAG

SetupPair = tuple[str, str]


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
        rounds = []
        numbers = []
        for run in self.runs:
            rounds.append(round_of(run.tags))
            numbers.append(parse_count(run.tags.get(ROUND_TAG, "")))
        return Runs(
            setup=f"{self.setup} on {self.host}",
            speeds=tuple(speeds_of(self.runs)),
            rounds=tuple(rounds),
            numbers=tuple(numbers),
            sessions=self.sessions,
        )

    @property
    def session_speeds(self) -> tuple[float, ...]:
        """The speed of each session, slowest first; () where they do not differ measurably."""
        speeds = defaultdict(list)
        for speed, session in zip(speeds_of(self.runs), self.sessions, strict=True):
            speeds[session].append(speed)
        if len(speeds) < 2:
            return ()
        sessions = [Runs(setup="", speeds=tuple(own)) for own in speeds.values()]
        for speedup in judge_rows([sessions])[0].values():
            if speedup.judgement in ("faster", "slower"):
                return tuple(sorted(map(geometric_mean, speeds.values())))
        return ()

    @property
    def global_batch_size(self) -> int | None:
        """Samples of a step of its runs; None without a run."""
        batches = self._figures("global_batch_size")
        return int(batches[0]) if batches else None

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
        if len(losses) < len(self.runs):
            return None
        return _mean(losses)

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
        return _mean(self._figures("transfer_share"))

    def _figures(self, name: str) -> list[float]:
        """Returns a metric of its runs, of as many as have it."""
        figures = []
        for run in self.runs:
            figure = run.metrics.get(name)
            if figure is not None:
                figures.append(figure)
        return figures


def speeds_of(runs: Iterable[RunBrief]) -> list[float]:
    """Returns the speeds of runs that have one."""
    return [run.speed or math.nan for run in runs]


def _mean(figures: Sequence[float]) -> float | None:
    return sum(figures) / len(figures) if figures else None


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


def judge_setups(
    rows: Sequence[Row],
    baseline: str,
    *,
    compared: Collection[str],
    allows_unequal: bool,
    session_scatter: float,
    looks: Looks,
) -> list[Row]:
    """Returns the rows with the speed-ups of their pairs of setups, judged as one family.

    Args:
        rows: The configurations.
        baseline: The setup over which entries have their speed-up.
        compared: Of what must be equal: in which setups may differ.
        allows_unequal: Whether setups may differ in all of it.
        session_scatter: As of `judge_rows`.
        looks: As of `judge_rows`.
    """
    pairs_of_rows = []
    measured = []
    places = []
    for row in rows:
        pairs = _list_pairs(row, baseline, compared, allows_unequal)
        setups = list(dict.fromkeys(itertools.chain(*pairs)))
        pairs_of_rows.append(pairs)
        measured.append([row.entries[setup].measured for setup in setups])
        places.append([(setups.index(first), setups.index(second)) for first, second in pairs])
    judged = judge_rows(measured, places, session_scatter, looks)
    with_speedups = []
    for row, pairs, speedups in zip(rows, pairs_of_rows, judged, strict=True):
        by_setups = dict(zip(pairs, speedups.values(), strict=True))
        entries = dict(row.entries)
        for (first, second), speedup in by_setups.items():
            if first == baseline:
                entries[second] = dataclasses.replace(entries[second], speedup=speedup)
        with_speedups.append(dataclasses.replace(row, entries=entries, speedups=by_setups))
    return with_speedups


def _list_pairs(
    row: Row, baseline: str, compared: Collection[str], allows_unequal: bool
) -> list[SetupPair]:
    """Returns the pairs of setups that are alike in what must be equal.

    The baseline comes first; the others are in one order, whichever it is.
    """
    entries = row.measured_entries()
    entries.sort(key=lambda entry: (entry.setup != baseline, entry.setup))
    pairs = []
    for first, second in itertools.combinations(entries, 2):
        is_allowed = allows_unequal
        if not (allows_unequal or first.unequal or second.unequal):
            settings = (first.runs[0].settings, second.runs[0].settings)
            is_allowed = not find_unequal_settings(*settings, compared=compared)
        if is_allowed:
            pairs.append((first.setup, second.setup))
    return pairs
