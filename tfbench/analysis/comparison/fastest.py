"""Which of several setups is the fastest at each configuration, and which to use where."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tfbench.analysis.comparison.comparison import Comparison, Row
from tfbench.analysis.comparison.equality import find_unequal_settings
from tfbench.analysis.comparison.judging import judge_family
from tfbench.records.sweep import BATCH_KEY, describe_configuration
from tfbench.wording import join_words


class Ranking(NamedTuple):
    """What is known of the fastest setup at one configuration.

    `fastest` are the setups than which none is measurably faster: one, or several between which the
    runs do not decide; none where a setup is still to be measured, or setups differ in what must be
    equal.
    """

    row: Row
    fastest: tuple[str, ...]


def rank_setups(comparison: Comparison) -> list[Ranking]:
    """Returns for each row which setup is the fastest.

    All pairs of setups are judged as one family, so that the answer is the same whichever setup is
    the baseline. It never names one that the table does not have faster than the baseline: the
    pairs of the table are among those judged here.
    """
    rivals = [_find_rivals(row, comparison) for row in comparison.rows]
    places = [
        (index, pair)
        for index, setups in enumerate(rivals)
        for pair in itertools.combinations(setups, 2)
    ]
    entries = [[comparison.rows[index].entries[setup] for setup in pair] for index, pair in places]
    judged = judge_family([(first.measured, second.measured) for first, second in entries])
    slower = set[tuple[int, str]]()  # row, and a setup that another is measurably faster than there
    for (index, (first, second)), speedup in zip(places, judged, strict=True):
        if speedup.judgement in ("faster", "slower"):
            slower.add((index, first if speedup.judgement == "faster" else second))
    found = []
    for index, row in enumerate(comparison.rows):
        lacks_one = any(
            not entry.runs and entry.outcome == "MISSING" for entry in row.entries.values()
        )
        unbeaten = [
            setup
            for setup in row.entries
            if setup in rivals[index] and (index, setup) not in slower
        ]
        found.append(Ranking(row, () if lacks_one else tuple(unbeaten)))
    return found


def _find_rivals(row: Row, comparison: Comparison) -> list[str]:
    """Returns the setups that have a speed; none if they are not comparable.

    A setup that failed is no rival.
    """
    entries = row.entries.values()
    setups = sorted(
        entry.setup for entry in entries if entry.runs
    )  # in one order, whichever is the baseline
    if any(
        entry.speedup and entry.unequal for entry in entries
    ):  # compared all the same, as was asked for
        return setups
    runs = [row.entries[setup].runs[0] for setup in setups]
    pairs = itertools.combinations(runs, 2)
    if any(
        find_unequal_settings(one.settings, other.settings, compared=comparison.compared)
        for one, other in pairs
    ):
        return []
    return setups


def which_to_use(comparison: Comparison, names: Mapping[str, str]) -> Iterator[str]:
    """Says which setup to use where.

    Nothing where configurations are of several machines, or none is fastest.
    """
    hosts = {
        frozenset(entry.host for entry in row.entries.values() if entry.runs)
        for row in comparison.rows
    }
    rows = [row for row in comparison.rows if any(entry.runs for entry in row.entries.values())]
    if (
        len(hosts - {frozenset()}) > 1
        or len(comparison.setups) < 2
        or (len(comparison.setups) == 2 and len(rows) < 2)
    ):
        return
    standings = [one for one in rank_setups(comparison) if one.row in rows]
    clear = [one for one in standings if len(one.fastest) == 1]
    if not clear:
        if len(standings) == 1 and 1 < len(standings[0].fastest) < len(comparison.setups):
            yield (
                f"{join_words([names[setup] for setup in standings[0].fastest])} are too close to"
                " call."
            )
        return
    if len({one.fastest for one in standings}) == 1:
        where = " everywhere" if len(standings) > 1 else ""
        yield f"Use {names[clear[0].fastest[0]]}{where}."
        return
    networks: dict[str, list[Ranking]] = {}
    for one in sorted(standings, key=lambda one: one.row.global_batch_size or 0):
        rest = {key: value for key, value in one.row.configuration.items() if key != BATCH_KEY}
        networks.setdefault(describe_configuration(rest), []).append(one)
    texts: dict[str, list[str]] = {}
    for network, own in networks.items():
        if any(len(one.fastest) == 1 for one in own):
            texts.setdefault(_by_batch_size(own, names), []).append(network)
    for text, of in texts.items():
        yield (
            text
            if len(of) == len(networks)
            else f"With {join_words(of)}: {text[0].lower()}{text[1:]}"
        )


def _by_batch_size(standings: Sequence[Ranking], names: Mapping[str, str]) -> str:
    """Says what to use at which batch sizes, and where the runs do not decide."""
    uses = dict[str, list[str]]()
    open_at = list[str]()
    unmeasured = list[str]()
    for fastest, own in (
        (key, list(own)) for key, own in itertools.groupby(standings, key=lambda one: one.fastest)
    ):
        low, high = (one.row.global_batch_size or 0 for one in (own[0], own[-1]))
        span = f"{low:,}" if len(own) == 1 else f"{low:,} to {high:,}"
        if len(fastest) == 1:
            uses.setdefault(names[fastest[0]], []).append(span)
        else:
            (open_at if fastest else unmeasured).append(span)
    where = (
        f" at batch {', '.join(spans)}" if len(standings) > 1 else "" for spans in uses.values()
    )
    text = f"Use {join_words([name + at for name, at in zip(uses, where, strict=True)])}."
    text += f" Undecided at batch {', '.join(open_at)}." if open_at else ""
    return text + (
        f" Not all are measured, or comparable, at batch {', '.join(unmeasured)}."
        if unmeasured
        else ""
    )
