"""Which of several arms is the fastest at each setting: who is faster than whom, and whom that leaves."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from tfbench.analysis.comparison.comparison import Comparison, Row
from tfbench.analysis.comparison.equality import find_unequal_values
from tfbench.analysis.comparison.judging import judge_family
from tfbench.analysis.comparison.speedup import Speedup

_Pair = tuple[str, str]  # of arms; its speed-up is the second's over the first


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """What is known of the fastest arm at one setting.

    `fastest` are the arms than which none is measurably faster: one, or several between which the runs do not decide;
    none where an arm is still to be measured, or arms differ in what must be equal. Of one that is the fastest alone,
    `ratio` is its speed over that of the next.
    """

    row: Row
    fastest: tuple[str, ...]
    next_arm: str = ""
    ratio: float | None = None


def find_standings(comparison: Comparison) -> list[Standing]:
    """Returns for each row which arm is the fastest.

    Pairs with the baseline are judged as the table has them, the others in a family of all pairs. Among equals none is
    called the fastest unless the table errs, too, since whoever is must be faster than the baseline, or be it.
    """
    rivals = [_find_rivals(row, comparison) for row in comparison.rows]
    places = [(index, pair) for index, arms in enumerate(rivals) for pair in itertools.combinations(arms, 2)]
    pairs = [tuple(comparison.rows[index].entries[arm].measured for arm in pair) for index, pair in places]
    judged = judge_family([(first, second) for first, second in pairs])
    found: list[dict[_Pair, Speedup]] = [{} for _ in rivals]
    for (index, (first, second)), speedup in zip(places, judged, strict=True):
        own = comparison.rows[index].entries[second].speedup if first == comparison.baseline else None
        found[index][first, second] = own or speedup
    return [_stand(row, arms, known) for row, arms, known in zip(comparison.rows, rivals, found, strict=True)]


def _find_rivals(row: Row, comparison: Comparison) -> list[str]:
    """Returns the arms that have a speed, the baseline first; none if one is still to be measured, or not comparable.

    An arm that failed is no rival.
    """
    entries = row.entries.values()
    arms = sorted((entry.arm for entry in entries if entry.runs), key=lambda arm: arm != comparison.baseline)
    if comparison.baseline not in arms or any(not entry.runs and entry.outcome == "MISSING" for entry in entries):
        return []
    if any(entry.speedup and entry.unequal for entry in entries):  # compared all the same, as was asked for
        return arms
    runs = [row.entries[arm].runs[0] for arm in arms]
    pairs = itertools.combinations(runs, 2)
    if any(find_unequal_values(one.equals, other.equals, compared=comparison.compared) for one, other in pairs):
        return []
    return arms


def _stand(row: Row, arms: Sequence[str], speedups: Mapping[_Pair, Speedup]) -> Standing:
    fastest = tuple(arm for arm in arms if not any(_is_faster(other, arm, speedups) for other in arms))
    baseline = arms[0] if arms else ""
    if len(fastest) == 1 and fastest[0] != baseline and not _is_faster(fastest[0], baseline, speedups):
        fastest = (baseline, *fastest)  # than which another arm is faster, but the table does not say so of this one
    if len(fastest) != 1 or len(arms) < 2:
        return Standing(row=row, fastest=fastest)
    others = [arm for arm in arms if arm != fastest[0]]
    following = max(others, key=lambda arm: row.entries[arm].speed or 0.0)
    ratio = _ratio(fastest[0], following, speedups)
    return Standing(row=row, fastest=fastest, next_arm=following, ratio=ratio)


def _is_faster(arm: str, other: str, speedups: Mapping[_Pair, Speedup]) -> bool:
    """Says whether an arm is measurably faster than another one."""
    if (other, arm) in speedups:
        return speedups[other, arm].judgement == "faster"
    return (arm, other) in speedups and speedups[arm, other].judgement == "slower"


def _ratio(arm: str, other: str, speedups: Mapping[_Pair, Speedup]) -> float:
    return speedups[other, arm].ratio if (other, arm) in speedups else 1 / speedups[arm, other].ratio
