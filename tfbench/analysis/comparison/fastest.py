"""Which of several arms is the fastest at each setting: who is faster than whom, and whom that leaves."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from tfbench.analysis.comparison.comparison import Comparison, Row
from tfbench.analysis.comparison.equality import find_unequal_settings
from tfbench.analysis.comparison.judging import judge_family
from tfbench.analysis.comparison.speedup import Speedup

_Pair = tuple[str, str]  # of arms


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """What is known of the fastest arm at one setting.

    `fastest` are the arms than which none is measurably faster: one, or several between which the runs do not decide;
    none where an arm is still to be measured, or arms differ in what must be equal. Of one that is the fastest alone,
    `ratio` is its speed over that of the next. `faster` has the pairs of which the first is measurably faster.
    """

    row: Row
    fastest: tuple[str, ...]
    next_arm: str = ""
    ratio: float | None = None
    faster: frozenset[_Pair] = frozenset()

    def lead(self, arms: Sequence[str]) -> tuple[str, ...]:
        """Returns those of some arms than which none of them is measurably faster."""
        return tuple(arm for arm in arms if not any((other, arm) in self.faster for other in arms))


def find_standings(comparison: Comparison) -> list[Standing]:
    """Returns for each row which arm is the fastest.

    All pairs of arms are judged as one family, so that the answer is the same whichever arm is the baseline. It never
    names one that the table does not have faster than the baseline: the pairs of the table are among those judged here.
    """
    rivals = [_find_rivals(row, comparison) for row in comparison.rows]
    places = [(index, pair) for index, arms in enumerate(rivals) for pair in itertools.combinations(arms, 2)]
    pairs = [tuple(comparison.rows[index].entries[arm].measured for arm in pair) for index, pair in places]
    judged = judge_family([(first, second) for first, second in pairs])
    found: list[dict[_Pair, Speedup]] = [{} for _ in rivals]
    for (index, pair), speedup in zip(places, judged, strict=True):
        found[index][pair] = speedup
    return [_stand(row, arms, known) for row, arms, known in zip(comparison.rows, rivals, found, strict=True)]


def _find_rivals(row: Row, comparison: Comparison) -> list[str]:
    """Returns the arms that have a speed; none if they are not comparable. An arm that failed is no rival."""
    entries = row.entries.values()
    arms = sorted(entry.arm for entry in entries if entry.runs)  # in one order, whichever is the baseline
    if any(entry.speedup and entry.unequal for entry in entries):  # compared all the same, as was asked for
        return arms
    runs = [row.entries[arm].runs[0] for arm in arms]
    pairs = itertools.combinations(runs, 2)
    if any(find_unequal_settings(one.settings, other.settings, compared=comparison.compared) for one, other in pairs):
        return []
    return arms


def _stand(row: Row, arms: Sequence[str], speedups: Mapping[_Pair, Speedup]) -> Standing:
    faster = {pair[::-1] for pair, one in speedups.items() if one.judgement == "faster"}
    faster |= {pair for pair, one in speedups.items() if one.judgement == "slower"}
    found = Standing(row=row, fastest=(), faster=frozenset(faster))
    if any(not entry.runs and entry.outcome == "MISSING" for entry in row.entries.values()):
        return found
    fastest = found.lead([arm for arm in row.entries if arm in arms])
    found = dataclasses.replace(found, fastest=fastest)
    if len(fastest) != 1 or len(arms) < 2:
        return found
    following = max((arm for arm in arms if arm != fastest[0]), key=lambda arm: row.entries[arm].speed or 0.0)
    (ratio,) = (
        one.ratio if pair[1] == fastest[0] else 1 / one.ratio
        for pair, one in speedups.items()
        if set(pair) == {fastest[0], following}
    )
    return dataclasses.replace(found, next_arm=following, ratio=ratio)
