"""Which of several setups is the fastest at each configuration, and which to use where."""

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tfbench.comparisons.comparison import Comparison
from tfbench.comparisons.entries import Row
from tfbench.comparisons.failures import LOST
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
    for entry in row.entries.values():
        if entry.outcome == LOST or (entry.outcome == "MISSING" and not entry.runs):
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
    rankings = []
    hosts = set()
    for ranking in rank_setups(comparison):
        measured = ranking.row.measured_entries()
        if measured:
            hosts.add(frozenset(entry.host for entry in measured))
        if measured or ranking.row.has_lost_runs:
            rankings.append(ranking)
    num_setups = len(comparison.setups)
    is_one_pair = num_setups == 2 and len(rankings) < 2  # of which its ratio says it all
    if len(hosts) > 1 or num_setups < 2 or is_one_pair:
        return []
    winners = {ranking.winner for ranking in rankings}
    if not any(winners):
        if len(rankings) != 1:
            return []
        return _name_closest(rankings[0], num_setups, names)
    if len(winners) == 1:
        where = " everywhere" if len(rankings) > 1 else ""
        return [f"Use {names[rankings[0].winner]}{where}."]
    return _by_network(rankings, names)


def _name_closest(ranking: Ranking, num_setups: int, names: Mapping[str, str]) -> list[str]:
    """Says between which setups the runs do not decide, if others are beaten."""
    closest = ranking.fastest
    if ranking.is_tie or not 1 < len(closest) < num_setups:
        return []
    for pair, speedup in ranking.row.speedups.items():
        is_judged = speedup.low is not None and not speedup.is_between_sessions
        if not is_judged and set(closest).issuperset(pair):
            return []
    return [f"{join_words([names[setup] for setup in closest])} are too close to call."]


def _by_network(rankings: Sequence[Ranking], names: Mapping[str, str]) -> list[str]:
    """Says what to use with which networks; nothing of those where no setup wins."""
    networks = defaultdict(list)
    for ranking in sorted(rankings, key=lambda ranking: ranking.batch_size):
        networks[_describe_without(BATCH_KEY, ranking.row)].append(ranking)
    networks_by_text = defaultdict(list)
    for network, of_network in networks.items():
        if any(ranking.winner for ranking in of_network):
            networks_by_text[_by_batch_size(of_network, names)].append(network)
    sentences = []
    for text, named in networks_by_text.items():
        if len(named) < len(networks):
            text = f"With {join_words(named)}: {text[0].lower()}{text[1:]}"
        sentences.append(text)
    return sentences


def _describe_without(key: str, row: Row) -> str:
    """Returns a configuration in words, but for one of its keys."""
    others = dict(row.configuration)
    others.pop(key, None)
    return describe_configuration(others)


def _by_batch_size(rankings: Sequence[Ranking], names: Mapping[str, str]) -> str:
    """Says what to use at which batch sizes, and where the runs do not decide."""
    spans_by_use = defaultdict(list)
    undecided = []
    unmeasured = []
    for fastest, neighbours in itertools.groupby(rankings, key=_describe_fastest):
        span = _describe_span([*neighbours])
        setups, is_decided = fastest
        if not setups:
            unmeasured.append(span)
        elif is_decided:
            spans_by_use[" or ".join(names[setup] for setup in setups)].append(span)
        else:
            undecided.append(span)
    parts = list(spans_by_use)
    if len(rankings) > 1:
        parts = [f"{use} at batch {', '.join(spans)}" for use, spans in spans_by_use.items()]
    text = f"Use {join_words(parts)}."
    if undecided:
        text += f" Undecided at batch {', '.join(undecided)}."
    if unmeasured:
        text += f" Not all are measured, or comparable, at batch {', '.join(unmeasured)}."
    return text


def _describe_fastest(ranking: Ranking) -> tuple[tuple[str, ...], bool]:
    """Returns the fastest setups, and whether any of them may be used."""
    return ranking.fastest, ranking.is_tie or len(ranking.fastest) == 1


def _describe_span(rankings: Sequence[Ranking]) -> str:
    """Returns "32", or "32 to 512"."""
    ends = {rankings[0].batch_size: None, rankings[-1].batch_size: None}
    return " to ".join(f"{end:,}" for end in ends)


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
    key = keys[-1]
    name = f"{key.rpartition('.')[2]}="
    if BATCH_KEY in keys:
        key = BATCH_KEY
        name = "batch "
    values = ", ".join(format_value(row.configuration.get(key)) for row in rows)
    others = _describe_without(key, rows[0])
    block = f" with {others}" if others else ""
    return f" at {name}{values}{block}"
