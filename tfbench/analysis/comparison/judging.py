"""Whether one arm is faster than another: the one rule that every command judges by.

**What is compared.** Logarithms of speeds. Where both arms ran in two or more common rounds, the ratio of each of
these; otherwise the geometric means of all runs of either. One run against many counts as one.

**By which variance.** That of the rounds' ratios, or of either arm's runs, has up to three estimates: from the runs
themselves, from a noise floor that was measured with runs like them, and from the comparison's other settings. They are
averaged by their degrees of freedom; where the runs themselves scatter more than that, theirs is taken, so that neither
a setting that is noisier than the others, nor a day that is noisier than the floor's, is called quiet. The interval is
Student's t with all these degrees of freedom (Welch's where either arm has a variance of its own).

**How many times.** A comparison over many settings asks many questions: what it calls faster or slower is what Holm's
correction leaves, so that of comparisons of equals at most one in twenty says anything false where settings scatter
alike. The interval beside each ratio stays that of the one question; where it alone excludes 1, the difference is
suggested, and no more.

What this costs and finds, also where settings scatter unlike each other, is simulated in `benchmarks/judging.py`.

Sources: Welch, "The generalization of 'Student's' problem when several different population variances are involved"
(Biometrika 1947); Holm (1979), see `holm`.
"""

import dataclasses
import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence

from tfbench.analysis.comparison.holm import holm
from tfbench.analysis.comparison.intervals import log_ratios, t_quantile
from tfbench.analysis.comparison.noise import NoiseFloor
from tfbench.analysis.comparison.speedup import ALPHA, Judgement, Speedup
from tfbench.analysis.comparison.spread_estimate import UNKNOWN, Estimate, estimate, merge_estimates
from tfbench.records.run import RunResult, Summary
from tfbench.records.sweep import round_of

_ROUNDING = 1e-12  # what the logarithms of equal speeds may differ by


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Runs:
    """Runs of one arm at one setting, alike in all but their process.

    `speeds` are positive, in any unit. `rounds` says for each run in which round of which sweep it took its turn, None
    if in none; runs of both arms pair where these are equal. `floor` is the noise floor of runs like these, `host` the
    machine that made them: how runs scatter there says nothing of another.
    """

    arm: str
    speeds: tuple[float, ...]
    rounds: tuple[Hashable, ...] = ()
    floor: NoiseFloor | None = None
    host: str = ""

    def by_round(self) -> dict[Hashable, float]:
        """Returns the speed in each round; of several runs in one, their geometric mean."""
        logs: dict[Hashable, list[float]] = {}
        for speed, place in zip(self.speeds, self.rounds or [None] * len(self.speeds), strict=True):
            if place is not None:
                logs.setdefault(place, []).append(speed)
        return {place: statistics.geometric_mean(speeds) for place, speeds in logs.items()}


@dataclasses.dataclass(frozen=True, slots=True)
class _Difference:
    """The logarithm of a ratio; its variance is the sum of `terms`, each an estimate times a weight."""

    value: float
    terms: tuple[tuple[Estimate, float], ...]
    num: int
    is_paired: bool
    uses_floor: bool = False
    uses_pool: bool = False

    def squared_error(self) -> Estimate:
        """Returns the variance of the value, with the degrees of freedom that Welch gives it."""
        if not all(known.degrees_of_freedom for known, _ in self.terms):
            return UNKNOWN
        shares = [(known.variance * weight, known.degrees_of_freedom) for known, weight in self.terms]
        total = sum(share for share, _ in shares)
        spent = sum(share**2 / degrees for share, degrees in shares)
        return Estimate(total, total**2 / spent if spent else sum(degrees for _, degrees in shares))


def judge(first: Runs, second: Runs) -> Speedup:
    """Says how fast the second of two arms is beside the first, as the only question that is asked.

    Raises:
        MeasurementError: A speed is not positive.
    """
    return judge_family([(first, second)])[0]


def judge_results(
    first: tuple[RunResult, Summary],
    second: tuple[RunResult, Summary],
    find_floor: Callable[[RunResult], NoiseFloor | None],
) -> Speedup | None:
    """Says how fast a single run is beside another; None where one did not finish with a speed."""
    runs = []
    for result, summary in (first, second):
        speed = summary.metrics.get("samples_per_second")
        if not speed or result.status != "FINISHED":
            return None
        runs.append(
            Runs(
                arm=result.request.run_id,
                speeds=(speed,),
                rounds=(round_of(result.request.tags),),
                floor=find_floor(result),
            )
        )
    return judge(*runs)


def judge_family(pairs: Sequence[tuple[Runs, Runs]]) -> list[Speedup]:
    """Says for each pair how fast its second arm is beside its first; all are asked at once.

    Args:
        pairs: At least one run of either arm in each. Settings with the same arms lend each other their variance.

    Raises:
        MeasurementError: A speed is not positive.
    """
    pools = _Pools(pairs)
    differences = [_find_difference(first, second, pools) for first, second in pairs]
    errors = [difference.squared_error() for difference in differences]
    p_values = [_p_value(one.value, error) for one, error in zip(differences, errors, strict=True)]
    known = [p_value for p_value in p_values if p_value is not None]
    adjusted = iter(holm(known))
    return [
        _describe(difference, error, p_value, None if p_value is None else next(adjusted), len(known))
        for difference, error, p_value in zip(differences, errors, p_values, strict=True)
    ]


class _Pools:
    """What the settings of a comparison say of each other: how runs of one arm scatter, or ratios of two arms."""

    def __init__(self, pairs: Sequence[tuple[Runs, Runs]]) -> None:
        known: dict[Hashable, list[Estimate]] = {}
        seen: set[Runs] = set()
        for first, second in pairs:
            ratios = _ratios(first, second)
            if len(ratios) >= 2:
                known.setdefault((first.arm, second.arm), []).append(estimate(ratios))
                continue
            for runs in {first, second} - seen:  # a baseline stands beside several arms, and counts once
                seen.add(runs)
                known.setdefault(runs.arm, []).append(estimate(_logs(runs)))
        self._known: Mapping[Hashable, Estimate] = {name: merge_estimates(found) for name, found in known.items()}

    def of_rounds(self, first: Runs, second: Runs) -> Estimate:
        """Returns how the rounds' ratios of two arms scatter, over all settings."""
        return self._known.get((first.arm, second.arm), UNKNOWN)

    def of_runs(self, runs: Runs) -> Estimate:
        """Returns how runs of an arm scatter, over all settings."""
        return self._known.get(runs.arm, UNKNOWN)


def _find_difference(first: Runs, second: Runs, pools: _Pools) -> _Difference:
    ratios = _ratios(first, second)
    if len(ratios) >= 2 or (ratios and len(first.speeds) == len(second.speeds) == 1):
        own, pooled, floor = estimate(ratios), pools.of_rounds(first, second), _floor_of_rounds(first, second)
        return _Difference(
            value=statistics.fmean(ratios),
            terms=((_settle(own, pooled, floor), 1 / len(ratios)),),
            num=len(ratios),
            is_paired=True,
            uses_floor=floor.degrees_of_freedom > 0,
            uses_pool=pooled.degrees_of_freedom > own.degrees_of_freedom,
        )
    both = (first, second)
    return _Difference(
        value=statistics.fmean(_logs(second)) - statistics.fmean(_logs(first)),
        terms=_unpaired_terms(first, second, pools),
        num=min(len(first.speeds), len(second.speeds)),
        is_paired=False,
        uses_floor=any(runs.floor for runs in both),
        uses_pool=any(pools.of_runs(runs).degrees_of_freedom > len(runs.speeds) - 1 for runs in both),
    )


def _unpaired_terms(first: Runs, second: Runs, pools: _Pools) -> tuple[tuple[Estimate, float], ...]:
    """Returns what the variance of a difference between two means is made of."""
    both = (first, second)
    own = [estimate(_logs(runs)) for runs in both]
    pooled = [pools.of_runs(runs) for runs in both]
    weights = [1 / len(runs.speeds) for runs in both]
    if first.floor is not None and first.floor == second.floor:  # runs of one kind: one variance, known together
        spread = _settle(merge_estimates(own), merge_estimates(list(dict.fromkeys(pooled))), first.floor.of_runs)
        return ((spread, sum(weights)),)
    floors = [runs.floor.of_runs if runs.floor else UNKNOWN for runs in both]
    spreads = [_settle(*known) for known in zip(own, pooled, floors, strict=True)]
    known = [spread for spread in spreads if spread.degrees_of_freedom]
    if len(known) == 1 and first.host == second.host and max(len(runs.speeds) for runs in both) >= 2:
        return ((known[0], sum(weights)),)  # one against many: the one scatters as they do, as far as anything tells
    return tuple(zip(spreads, weights, strict=True))


def _settle(own: Estimate, pooled: Estimate, floor: Estimate) -> Estimate:
    """Returns the variance to judge by: the mean of all that is known, but not less than what the runs themselves show.

    Args:
        own: From the runs themselves.
        pooled: From all settings, this one among them.
        floor: From a noise floor.
    """
    merged = merge_estimates([pooled, floor])
    if own.degrees_of_freedom and own.variance > merged.variance:
        return Estimate(own.variance, merged.degrees_of_freedom)
    return merged


def _floor_of_rounds(first: Runs, second: Runs) -> Estimate:
    """Returns how ratios of two arms scatter by their noise floors: half of the variance of each is due to its arm."""
    if first.floor is None or second.floor is None:
        return UNKNOWN
    if first.floor == second.floor:
        return first.floor.of_ratios
    halves = _Difference(0.0, ((first.floor.of_ratios, 0.5), (second.floor.of_ratios, 0.5)), 1, is_paired=True)
    return halves.squared_error()


def _ratios(first: Runs, second: Runs) -> list[float]:
    """Returns the logarithm of second over first for each round in which both have a run."""
    before, after = first.by_round(), second.by_round()
    common = [place for place in before if place in after]
    return log_ratios([before[place] for place in common], [after[place] for place in common])


def _logs(runs: Runs) -> list[float]:
    return log_ratios([1.0] * len(runs.speeds), runs.speeds)


def _p_value(value: float, squared_error: Estimate) -> float | None:
    """Returns how often chance alone gives a value as far from 0, by Student's t; None if nothing tells."""
    from scipy.special import stdtr  # scipy.stats takes half a second to import

    if not squared_error.degrees_of_freedom:
        return None
    if abs(value) <= _ROUNDING:
        return 1.0
    if not squared_error.variance:
        return 0.0
    return 2 * float(stdtr(squared_error.degrees_of_freedom, -abs(value) / math.sqrt(squared_error.variance)))


def _describe(
    difference: _Difference, error: Estimate, p_value: float | None, family_p_value: float | None, num_family: int
) -> Speedup:
    value, half = difference.value, None
    judgement: Judgement = "not judged"
    if p_value is not None and family_p_value is not None:
        half = t_quantile(error.degrees_of_freedom) * math.sqrt(error.variance)
        judgement = "no measurable difference"
        if family_p_value <= ALPHA:
            judgement = "faster" if value > 0 else "slower"
    return Speedup(
        ratio=math.exp(value),
        low=None if half is None else math.exp(value - half),
        high=None if half is None else math.exp(value + half),
        num=difference.num,
        is_paired=difference.is_paired,
        uses_floor=difference.uses_floor,
        uses_other_settings=difference.uses_pool,
        degrees_of_freedom=error.degrees_of_freedom,
        p_value=p_value,
        family_p_value=family_p_value,
        num_family=num_family,
        judgement=judgement,
    )
