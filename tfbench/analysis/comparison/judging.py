"""Whether one setup is faster than another: the one rule that every command judges by.

**What is compared.** Logarithms of speeds. Where both setups ran in two or more common rounds, the
ratio of each of these; otherwise the geometric means of all runs of either. One run against many
counts as one.

**By which variance.** That of the rounds' ratios, or of either setup's runs, is estimated twice:
from the runs themselves, and with what the comparison's other configurations show. Since
configurations scatter unlike each other, those count little: *alone* they fill up to `LEAST`
degrees of freedom, *together* they count for `MOST_BORROWED` at most. Each lends what its runs show
without the farthest of them, so that a disturbed run hides no difference elsewhere. Neither
estimate is less than what the runs themselves show. The interval is Student's t (Welch's where
either setup has a variance of its own) by whichever is wider, so that it holds for a noisy
configuration, too. A single run is judged by the other configurations of its setup, and else not at
all.

**How many times.** A comparison over many configurations asks many questions: it calls faster or
slower what Holm's correction leaves of them by the variance *together*, and what its own interval
supports. So at most about one comparison of equals in twenty says anything false, also where
configurations scatter unlike each other. The interval beside each ratio stays that of the one
question; where it alone excludes 1, the difference is suggested, and no more.

**Between machines.** Each was measured in a session or a few, and its level drifts from one session
to the next, which runs of one session do not show. So the ratio of two machines has the variance of
two levels on top.

What this costs and finds is simulated in `benchmarks/judging.py`.

Sources: Welch, "The generalization of 'Student's' problem when several different population
variances are involved" (Biometrika 1947); Holm (1979), see `intervals`; what configurations lend
each other: Smyth, "Linear models and empirical Bayes methods for assessing differential expression
in microarray experiments" (2004), with a fixed prior weight here; a scatter without the farthest
value: Rousseeuw, "Multivariate estimation with high breakdown point" (1985); what may be called
equal: Schuirmann, "A comparison of the two one-sided tests procedure and the power approach"
(1987).
"""

import dataclasses
import math
import statistics
from collections.abc import Hashable, Iterable, Sequence
from typing import Literal, NamedTuple

from tfbench.analysis.comparison.intervals import (
    CONFIDENCE,
    VarianceEstimate,
    add_estimates,
    estimate,
    estimate_without_farthest,
    holm,
    merge_estimates,
)

Judgement = Literal["faster", "slower", "no measurable difference", "not judged"]
Finding = Literal["faster", "slower", "no measurable difference", "too noisy to tell", "not judged"]

# An interval from 0.8 to 1.25 is what studies ask for before they call two things equivalent
# (Schuirmann 1987).
EQUAL_WITHIN = 1.25

ALPHA = 1 - CONFIDENCE
# Simulated: with more borrowed, tables whose configurations scatter unlike each other are wrong too
# often; with less, less is found. With a higher least, the intervals of noisy configurations hold
# too rarely.
MOST_BORROWED = 5.5
LEAST = 2.75
# By which the level of a machine scatters between sessions: 2 % on a quiet machine, more on a
# shared one.
SESSION_SCATTER = 0.03
_ROUNDING = 1e-12  # what the logarithms of equal speeds may differ by


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Speedup:
    """The second setup's speed over the first's, and what may be said of it.

    `low` and `high` bound the ratio of this one configuration, by all that is known of how runs
    scatter; None: nothing is. `judgement` is what the whole family of comparisons supports.
    """

    ratio: float
    low: float | None
    high: float | None
    num: int  # of rounds, or of the runs of the setup that has fewer
    is_paired: bool  # by rounds in which both were run
    degrees_of_freedom: float
    p_value: float | None  # of this one configuration
    family_p_value: float | None
    num_family: int  # comparisons that were judged together
    judgement: Judgement
    # Half of the intervals of the logarithms of both speeds, by the same scatter as that of the
    # ratio.
    speed_half_widths: tuple[float, float] | None = None

    @property
    def excludes_one(self) -> bool:
        """Whether the interval of this configuration excludes equal speeds."""
        return self.p_value is not None and self.p_value <= ALPHA

    @property
    def is_suggested(self) -> bool:
        """Whether the interval of this one configuration says what the family does not support."""
        return self.excludes_one and self.judgement == "no measurable difference"

    @property
    def is_too_noisy(self) -> bool:
        """Whether nothing is shown because the interval is wide.

        It is not so where the setups are about equally fast.
        """
        if (
            self.judgement != "no measurable difference"
            or self.excludes_one
            or self.low is None
            or self.high is None
        ):
            return False
        return self.high > EQUAL_WITHIN or self.low < 1 / EQUAL_WITHIN

    @property
    def finding(self) -> Finding:
        """The judgement as people are told it.

        No difference that was seen may be one that could not be.
        """
        return "too noisy to tell" if self.is_too_noisy else self.judgement

    @property
    def noise_limit(self) -> float | None:
        """The relative difference that these runs would not show, 0.02 for 2 %.

        Half of the interval.
        """
        return None if self.high is None else math.expm1(math.log(self.high / self.ratio))


def describe_ratio(one: Speedup) -> str:
    """Returns "0.68x [0.59, 0.77]", the ratio alone where it has no interval."""
    return f"{one.ratio:.2f}x" + (
        "" if one.low is None or one.high is None else f" [{one.low:.2f}, {one.high:.2f}]"
    )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Runs:
    """Runs of one setup at one configuration, alike in all but their process.

    `speeds` are positive, in any unit, all of the machine `host`. `rounds` says for each run in
    which round of which sweep it took its turn, None if in none; runs of both setups pair where
    these are equal.
    """

    setup: str
    speeds: tuple[float, ...]
    rounds: tuple[Hashable, ...] = ()
    host: str = ""

    def by_round(self) -> dict[Hashable, float]:
        """Returns the speed in each round; of several runs in one, their geometric mean."""
        logs: dict[Hashable, list[float]] = {}
        for speed, place in zip(self.speeds, self.rounds or [None] * len(self.speeds), strict=True):
            if place is not None:
                logs.setdefault(place, []).append(speed)
        return {place: statistics.geometric_mean(speeds) for place, speeds in logs.items()}


class _Known(NamedTuple):
    """A variance by these runs alone, and together with other configurations."""

    alone: VarianceEstimate
    together: VarianceEstimate


_LEVEL_VARIANCE = VarianceEstimate(SESSION_SCATTER**2, 1e9)  # known, not estimated
_LEVEL = _Known(_LEVEL_VARIANCE, _LEVEL_VARIANCE)


@dataclasses.dataclass(frozen=True, slots=True)
class _Difference:
    """The logarithm of a ratio.

    Its variance is the sum of `terms`, each an estimate times a weight.

    `sides` are the variances of the logarithms of both speeds, which add up to it within one
    machine.
    """

    value: float
    terms: tuple[tuple[_Known, float], ...]
    sides: tuple[tuple[_Known, float], tuple[_Known, float]]
    num: int
    is_paired: bool

    def squared_errors(self) -> _Known:
        """Returns the variance of the value."""
        return _Known(
            *(
                add_estimates([(known[kind], weight) for known, weight in self.terms])
                for kind in (0, 1)
            )
        )


def judge_pair(first: Runs, second: Runs) -> Speedup:
    """Says how fast the second of two setups is beside the first.

    It is the only question asked, so that nothing is corrected for others.
    """
    return judge_family([(first, second)])[0]


def judge_family(pairs: Sequence[tuple[Runs, Runs]]) -> list[Speedup]:
    """Says for each pair how fast its second setup is beside its first; all are asked at once.

    Args:
        pairs: At least one run of either setup in each. Settings with the same setups lend each
            other their variance.
    """
    pools = _Pools(pairs)
    differences = [_find_difference(first, second, pools) for first, second in pairs]
    errors = [difference.squared_errors() for difference in differences]
    p_values = [
        _p_value(one.value, error.together) for one, error in zip(differences, errors, strict=True)
    ]
    known = [p_value for p_value in p_values if p_value is not None]
    adjusted = iter(holm(known))
    return [
        _describe(difference, error, None if p_value is None else next(adjusted), len(known))
        for difference, error, p_value in zip(differences, errors, p_values, strict=True)
    ]


class _Pools:
    """What the configurations of a comparison say of each other.

    How runs of one setup scatter, or ratios of two setups.
    """

    def __init__(self, pairs: Sequence[tuple[Runs, Runs]]) -> None:
        self._known: dict[
            Hashable, list[tuple[VarianceEstimate, VarianceEstimate]]
        ] = {}  # of its own, and to lend
        seen: set[Runs] = set()
        for first, second in pairs:
            ratios = _ratios(first, second)
            if len(ratios) >= 2:
                self._learn((first.setup, second.setup), ratios)
                continue
            for runs in {
                first,
                second,
            } - seen:  # a baseline stands beside several setups, and counts once
                seen.add(runs)
                self._learn(runs.setup, _logs(runs))

    def _learn(self, name: Hashable, values: Sequence[float]) -> None:
        self._known.setdefault(name, []).append(
            (estimate(values), estimate_without_farthest(values))
        )

    def settle(self, name: Hashable, own: VarianceEstimate) -> _Known:
        """Returns the variances to judge by, of a setup or a pair of setups.

        `own` is of the runs themselves, which the pool holds, too.
        """
        others = list(self._known.get(name, []))
        itself = next((one for one in others if one[0] == own), None)
        if itself:
            others.remove(itself)  # the first, as it is counted once
        lent = merge_estimates([to_lend for _, to_lend in others])
        known = []
        for most in (max(0.0, LEAST - own.degrees_of_freedom), MOST_BORROWED):
            merged = merge_estimates(
                [own, VarianceEstimate(lent.variance, min(lent.degrees_of_freedom, most))]
            )
            known.append(
                VarianceEstimate(max(merged.variance, own.variance), merged.degrees_of_freedom)
            )
        return _Known(*known)


def _find_difference(first: Runs, second: Runs, pools: _Pools) -> _Difference:
    ratios = _ratios(first, second)
    if len(ratios) >= 2 or (ratios and len(first.speeds) == len(second.speeds) == 1):
        own = estimate(ratios)
        name = (first.setup, second.setup)
        known = pools.settle(name, own)
        num = len(ratios)
        return _Difference(
            value=statistics.fmean(ratios),
            terms=((known, 1 / num),),
            sides=((known, 0.5 / num), (known, 0.5 / num)),  # what slows both alike is in neither
            num=num,
            is_paired=True,
        )
    one, other = (
        (pools.settle(runs.setup, estimate(_logs(runs))), 1 / len(runs.speeds))
        for runs in (first, second)
    )
    return _Difference(
        value=statistics.fmean(_logs(second)) - statistics.fmean(_logs(first)),
        terms=(
            (one, other)
            if first.host == second.host
            else (one, other, (_LEVEL, 1.0), (_LEVEL, 1.0))
        ),
        sides=(one, other),
        num=min(len(first.speeds), len(second.speeds)),
        is_paired=False,
    )


def _ratios(first: Runs, second: Runs) -> list[float]:
    """Returns the logarithm of second over first for each round in which both have a run."""
    before = first.by_round()
    after = second.by_round()
    return [math.log(after[place]) - math.log(before[place]) for place in before if place in after]


def _logs(runs: Runs) -> list[float]:
    return [math.log(speed) for speed in runs.speeds]


def _p_value(value: float, squared_error: VarianceEstimate) -> float | None:
    """Returns how often chance alone gives a value as far from 0, by Student's t.

    None if nothing tells.
    """
    from scipy.special import stdtr  # scipy.stats takes half a second to import

    if not squared_error.degrees_of_freedom:
        return None
    if abs(value) <= _ROUNDING:
        return 1.0
    if not squared_error.variance:
        return 0.0
    return 2 * float(
        stdtr(squared_error.degrees_of_freedom, -abs(value) / math.sqrt(squared_error.variance))
    )


def _describe(
    difference: _Difference, errors: _Known, adjusted: float | None, num_family: int
) -> Speedup:
    value = difference.value
    half = None
    p_value = None
    family_p_value = None
    judgement: Judgement = "not judged"
    degrees = errors.together.degrees_of_freedom
    speed_half_widths: tuple[float, float] | None = None
    if adjusted is not None:
        half, degrees = _widest(errors)
        p_value = max(_p_value(value, one) or 0.0 for one in errors)
        sides = (
            [add_estimates([(kind, weight)]) for kind in known]
            for known, weight in difference.sides
        )
        one, other = (_widest(side)[0] for side in sides)
        speed_half_widths = (one, other)
        family_p_value = max(adjusted, p_value)
        judgement = "no measurable difference"
        if family_p_value <= ALPHA:
            judgement = "faster" if value > 0 else "slower"
    return Speedup(
        ratio=math.exp(value),
        low=None if half is None else math.exp(value - half),
        high=None if half is None else math.exp(value + half),
        num=difference.num,
        is_paired=difference.is_paired,
        degrees_of_freedom=degrees,
        p_value=p_value,
        family_p_value=family_p_value,
        num_family=num_family,
        judgement=judgement,
        speed_half_widths=speed_half_widths,
    )


def _widest(errors: Iterable[VarianceEstimate]) -> tuple[float, float]:
    """Returns the half-width of the widest interval, and its degrees of freedom.

    The estimates are all of one variance.
    """
    return max(
        ((one.half_width, one.degrees_of_freedom) for one in errors), key=lambda width: width[0]
    )
