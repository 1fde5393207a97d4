"""Which of several setups is the fastest at each configuration, and which to use where."""

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tfbench.comparisons.comparison import Comparison, Row
from tfbench.sweeps.plan import BATCH_KEY, describe_configuration, format_value
from tfbench.wording import join_words

_NUM_NAMED = 3  # settings that a sentence names; of more it has the number, and the table the rest


class Ranking(NamedTuple):
    """What is known of the fastest setup at one configuration.

    `fastest` are the setups than which none is measurably faster: one, or several between which the
    runs do not decide; none where a setup is still to be measured, a run is lost, or setups differ
    in what must be equal.
    """

    row: Row
    fastest: tuple[str, ...]

    @property
    def winner(self) -> str:
        """The only fastest setup; "": there is none, or the runs do not decide."""
        return self.fastest[0] if len(self.fastest) == 1 else ""

    @property
    def is_tie(self) -> bool:
        """Whether all that may be the fastest are equally fast, within the margin."""
        if len(self.fastest) < 2:
            return False
        for pair, speedup in self.row.speedups.items():
            if set(self.fastest).issuperset(pair) and speedup.finding != "equal":
                return False
        return True

    @property
    def batch_size(self) -> int:
        """Samples of a step; 0: not known."""
        return self.row.global_batch_size or 0


def rank_setups(comparison: Comparison) -> list[Ranking]:
    """Returns for each row which setup is the fastest.

    By the same speed-ups as the table's, of all pairs of setups; so the answer is the same
    whichever setup is the baseline.
    """
    return [Ranking(row, _find_fastest(row)) for row in comparison.rows]


def _find_fastest(row: Row) -> tuple[str, ...]:
    entries = row.entries.values()
    is_incomplete = any(not entry.runs and entry.outcome == "MISSING" for entry in entries)
    if is_incomplete or row.has_lost_runs:
        return ()
    rivals = [entry.setup for entry in row.measured_entries()]  # a setup that failed is no rival
    if len(row.speedups) < math.comb(len(rivals), 2):  # some differ in what must be equal
        return ()
    beaten = set()
    for (first, second), speedup in row.speedups.items():
        if speedup.is_between_sessions:
            continue
        if speedup.judgement == "faster":
            beaten.add(first)
        elif speedup.judgement == "slower":
            beaten.add(second)
    return tuple(setup for setup in rivals if setup not in beaten)


def which_to_use(comparison: Comparison, names: Mapping[str, str]) -> list[str]:
    """Says which setup to use where.

    Nothing where configurations are of several machines, or none is fastest.
    """
    rows = [row for row in comparison.rows if row.measured_entries() or row.has_lost_runs]
    measured = [row.measured_entries() for row in rows]
    hosts = {frozenset(entry.host for entry in entries) for entries in measured if entries}
    num_setups = len(comparison.setups)
    is_one_pair = num_setups == 2 and len(rows) < 2  # of which its ratio says it all
    if len(hosts) > 1 or num_setups < 2 or is_one_pair:
        return []
    rankings = [ranking for ranking in rank_setups(comparison) if ranking.row in rows]
    winners = {ranking.winner for ranking in rankings}
    if not any(winners):
        closest = rankings[0].fastest if len(rankings) == 1 else ()
        if rankings[0].is_tie:
            return []
        if 1 < len(closest) < num_setups and _are_judged(rankings[0].row, closest):
            return [f"{join_words([names[setup] for setup in closest])} are too close to call."]
        return []
    if len(winners) == 1:
        where = " everywhere" if len(rankings) > 1 else ""
        return [f"Use {names[rankings[0].winner]}{where}."]
    return _by_network(rankings, names)


def _are_judged(row: Row, setups: Sequence[str]) -> bool:
    """Says whether runs of one session show how much these setups differ."""
    for pair, speedup in row.speedups.items():
        is_open = speedup.low is None or speedup.is_between_sessions
        if is_open and set(setups).issuperset(pair):
            return False
    return True


def _by_network(rankings: Sequence[Ranking], names: Mapping[str, str]) -> list[str]:
    """Says what to use with which networks; nothing of those where no setup wins."""
    networks = defaultdict(list)
    for ranking in sorted(rankings, key=lambda ranking: ranking.batch_size):
        configuration = dict(ranking.row.configuration)
        configuration.pop(BATCH_KEY, None)
        networks[describe_configuration(configuration)].append(ranking)
    networks_by_text = defaultdict(list)
    for network, of_network in networks.items():
        if any(ranking.winner for ranking in of_network):
            networks_by_text[_by_batch_size(of_network, names)].append(network)
    sentences = []
    for text, named in networks_by_text.items():
        lowered = f"{text[0].lower()}{text[1:]}"
        is_of_all = len(named) == len(networks)
        sentences.append(text if is_of_all else f"With {join_words(named)}: {lowered}")
    return sentences


def _by_batch_size(rankings: Sequence[Ranking], names: Mapping[str, str]) -> str:
    """Says what to use at which batch sizes, and where the runs do not decide."""
    uses = defaultdict(list)
    undecided = []
    unmeasured = []

    def find_answer(ranking: Ranking) -> tuple[tuple[str, ...], bool]:
        return ranking.fastest, ranking.is_tie

    for (fastest, is_tie), neighbours in itertools.groupby(rankings, key=find_answer):
        span = _describe_span([*neighbours])
        if is_tie:
            uses[" or ".join(names[setup] for setup in fastest)].append(span)
        elif len(fastest) == 1:
            uses[names[fastest[0]]].append(span)
        elif fastest:
            undecided.append(span)
        else:
            unmeasured.append(span)
    parts = []
    for name, spans in uses.items():
        where = f" at batch {', '.join(spans)}" if len(rankings) > 1 else ""
        parts.append(f"{name}{where}")
    text = f"Use {join_words(parts)}."
    if undecided:
        text += f" Undecided at batch {', '.join(undecided)}."
    if unmeasured:
        text += f" Not all are measured, or comparable, at batch {', '.join(unmeasured)}."
    return text


def _describe_span(rankings: Sequence[Ranking]) -> str:
    """Returns "32", or "32 to 512"."""
    low = f"{rankings[0].batch_size:,}"
    return low if len(rankings) == 1 else f"{low} to {rankings[-1].batch_size:,}"


def describe_where(rows: Sequence[Row], comparison: Comparison) -> str:
    """Returns " at batch 32, 64", " at batch 32 with units=[100]", " at 4 of 6 configurations".

    "" of the only configuration.
    """
    keys = comparison.keys
    noun = "batch sizes" if keys == (BATCH_KEY,) else "configurations"
    num_rows = len(comparison.rows)
    if not rows[0].configuration:
        return ""
    if len(rows) == num_rows > 1:
        every = "both" if num_rows == 2 else f"all {num_rows}"
        return f" at {every} {noun}"
    if len(rows) > _NUM_NAMED or (len(rows) > 1 and len(keys) > 1):
        return f" at {len(rows)} of {num_rows} {noun}"
    key = BATCH_KEY if BATCH_KEY in keys else keys[-1]
    name = "batch " if key == BATCH_KEY else f"{key.rpartition('.')[2]}="
    values = ", ".join(format_value(row.configuration.get(key)) for row in rows)
    others = dict(rows[0].configuration)
    others.pop(key, None)
    block = f" with {describe_configuration(others)}" if others else ""
    return f" at {name}{values}{block}"
