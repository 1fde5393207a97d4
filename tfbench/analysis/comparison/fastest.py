"""Which of several setups is the fastest at each configuration, and which to use where."""

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tfbench.analysis.comparison.comparison import Comparison, Row
from tfbench.analysis.comparison.equality import find_unequal_settings
from tfbench.analysis.comparison.judging import judge_family
from tfbench.records.sweep import BATCH_KEY, describe_configuration
from tfbench.wording import join_words


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
    def batch_size(self) -> int:
        """Samples of a step; 0: not known."""
        return self.row.global_batch_size or 0


def rank_setups(comparison: Comparison) -> list[Ranking]:
    """Returns for each row which setup is the fastest.

    All pairs of setups are judged as one family, so that the answer is the same whichever setup is
    the baseline. It never names one that the table does not have faster than the baseline: the
    pairs of the table are among those judged here.
    """
    rivals = [_find_rivals(row, comparison) for row in comparison.rows]
    beaten = _find_beaten(comparison.rows, rivals)
    rankings = []
    for row, setups, slower in zip(comparison.rows, rivals, beaten, strict=True):
        unbeaten = set(setups) - slower
        fastest = tuple(setup for setup in row.entries if setup in unbeaten)
        entries = row.entries.values()
        is_incomplete = any(not entry.runs and entry.outcome == "MISSING" for entry in entries)
        is_open = is_incomplete or row.has_lost_runs
        rankings.append(Ranking(row, () if is_open else fastest))
    return rankings


def _find_rivals(row: Row, comparison: Comparison) -> list[str]:
    """Returns the setups that have a speed; none if they are not comparable.

    A setup that failed is no rival.
    """
    entries = row.measured_entries()
    setups = sorted(entry.setup for entry in entries)  # in one order, whichever is the baseline
    if any(entry.speedup and entry.unequal for entry in entries):  # compared, as was asked for
        return setups
    settings = [row.entries[setup].runs[0].settings for setup in setups]
    for first, second in itertools.combinations(settings, 2):
        if find_unequal_settings(first, second, compared=comparison.compared):
            return []
    return setups


def _find_beaten(rows: Sequence[Row], rivals: Sequence[Sequence[str]]) -> list[set[str]]:
    """Returns for each row the setups than which another is measurably faster."""
    places = []
    pairs = []
    for index, row in enumerate(rows):
        for first, second in itertools.combinations(rivals[index], 2):
            places.append((index, first, second))
            pairs.append((row.entries[first].measured, row.entries[second].measured))
    beaten = [set[str]() for _ in rows]
    for (index, first, second), speedup in zip(places, judge_family(pairs), strict=True):
        if speedup.judgement == "faster":
            beaten[index].add(first)
        elif speedup.judgement == "slower":
            beaten[index].add(second)
    return beaten


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
        if 1 < len(closest) < num_setups:
            return [f"{join_words([names[setup] for setup in closest])} are too close to call."]
        return []
    if len(winners) == 1:
        where = " everywhere" if len(rankings) > 1 else ""
        return [f"Use {names[rankings[0].winner]}{where}."]
    return _by_network(rankings, names)


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
    for fastest, neighbours in itertools.groupby(rankings, key=lambda ranking: ranking.fastest):
        span = _describe_span([*neighbours])
        if len(fastest) == 1:
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
