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

import math
import statistics
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
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
Finding = Literal[Judgement, "too noisy to tell"]

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Speedup:
    """The second setup's speed over the first's, and what may be said of it.

    `low` and `high` bound the ratio of this one configuration, by all that is known of how runs
    scatter; None: nothing is. `judgement` is what the whole family of comparisons supports.
    """

    ratio: float
    low: float | None = None
    high: float | None = None
    num: int  # of rounds, or of the runs of the setup that has fewer
    is_paired: bool  # by rounds in which both were run
    degrees_of_freedom: float
    p_value: float | None = None  # of this one configuration
    family_p_value: float | None = None
    num_family: int  # comparisons that were judged together
    judgement: Judgement = "not judged"
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
        shows_nothing = self.judgement == "no measurable difference" and not self.excludes_one
        if not shows_nothing or self.low is None or self.high is None:
            return False
        return self.high > EQUAL_WITHIN or self.low < 1 / EQUAL_WITHIN

    @property
    def finding(self) -> Finding:
        """The judgement as people read it.

        Where none was seen, it tells no difference from one that could not be seen.
        """
        return "too noisy to tell" if self.is_too_noisy else self.judgement

    @property
    def noise_limit(self) -> float | None:
        """The relative difference that these runs would not show, 0.02 for 2 %.

        It is half of the interval.
        """
        return None if self.high is None else math.expm1(math.log(self.high / self.ratio))


def describe_ratio(speedup: Speedup) -> str:
    """Returns "0.68x [0.59, 0.77]", the ratio alone where it has no interval."""
    ratio = f"{speedup.ratio:.2f}x"
    if speedup.low is None or speedup.high is None:
        return ratio
    return f"{ratio} [{speedup.low:.2f}, {speedup.high:.2f}]"


@dataclass(frozen=True, kw_only=True, slots=True)
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
        if not self.rounds:
            return {}
        speeds: dict[Hashable, list[float]] = {}
        for speed, place in zip(self.speeds, self.rounds, strict=True):
            if place is not None:
                speeds.setdefault(place, []).append(speed)
        return {place: statistics.geometric_mean(of_round) for place, of_round in speeds.items()}


class _Variances(NamedTuple):
    """A variance by these runs alone, and together with other configurations."""

    alone: VarianceEstimate
    together: VarianceEstimate


class _Term(NamedTuple):
    """A part of a variance: an estimate, times a weight."""

    variances: _Variances
    weight: float


_LEVEL_VARIANCE = VarianceEstimate(SESSION_SCATTER**2, 1e9)  # known, not estimated
_LEVEL = _Term(_Variances(_LEVEL_VARIANCE, _LEVEL_VARIANCE), 1.0)


class _Difference(NamedTuple):
    """The logarithm of a ratio.

    Its variance is the sum of `terms`.

    `sides` are the variances of the logarithms of both speeds, which add up to it within one
    machine.
    """

    value: float
    terms: tuple[_Term, ...]
    sides: tuple[_Term, _Term]
    num: int
    is_paired: bool


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
    differences = [
        _find_difference(index, first, second, pools) for index, (first, second) in enumerate(pairs)
    ]
    errors = [_add_terms(difference.terms) for difference in differences]
    p_values = [
        _p_value(difference.value, error.together)
        for difference, error in zip(differences, errors, strict=True)
    ]
    family = [p_value for p_value in p_values if p_value is not None]
    adjusted = iter(holm(family))
    speedups = []
    for difference, error, p_value in zip(differences, errors, p_values, strict=True):
        family_p_value = None if p_value is None else next(adjusted)
        speedups.append(_describe(difference, error, family_p_value, len(family)))
    return speedups


class _Pools:
    """What the configurations of a comparison show of each other.

    How runs of one setup scatter, or ratios of two setups.
    """

    def __init__(self, pairs: Sequence[tuple[Runs, Runs]]) -> None:
        # What each member lends: by setup and runs, or by both setups and the index of the pair. So
        # a baseline that stands beside several setups counts once.
        self._lent: dict[Hashable, dict[Hashable, VarianceEstimate]] = {}
        for index, (first, second) in enumerate(pairs):
            ratios = _ratios(first, second)
            if len(ratios) >= 2:
                self._learn((first.setup, second.setup), index, ratios)
            else:
                self._learn(first.setup, first, _logs(first))
                self._learn(second.setup, second, _logs(second))

    def _learn(self, name: Hashable, member: Hashable, values: Sequence[float]) -> None:
        members = self._lent.setdefault(name, {})
        members[member] = estimate_without_farthest(values)

    def settle(self, name: Hashable, member: Hashable, own: VarianceEstimate) -> _Variances:
        """Returns the variances to judge by, of a setup or a pair of setups.

        `own` is of the runs of this member, to which only the others lend.
        """
        members = self._lent.get(name, {})
        lent = merge_estimates([members[other] for other in members if other != member])
        least = max(0.0, LEAST - own.degrees_of_freedom)
        return _Variances(_borrow(own, lent, least), _borrow(own, lent, MOST_BORROWED))

    def of_runs(self, runs: Runs) -> _Term:
        """Returns the variance of the mean of one setup's runs."""
        variances = self.settle(runs.setup, runs, estimate(_logs(runs)))
        return _Term(variances, 1 / len(runs.speeds))


def _borrow(own: VarianceEstimate, lent: VarianceEstimate, most: float) -> VarianceEstimate:
    """Returns a variance with what others lend, of so many degrees of freedom at most.

    It is not less than what the runs themselves show.
    """
    borrowed = VarianceEstimate(lent.variance, min(lent.degrees_of_freedom, most))
    merged = merge_estimates([own, borrowed])
    return VarianceEstimate(max(merged.variance, own.variance), merged.degrees_of_freedom)


def _find_difference(index: int, first: Runs, second: Runs, pools: _Pools) -> _Difference:
    ratios = _ratios(first, second)
    num = len(ratios)
    are_single = len(first.speeds) == len(second.speeds) == 1
    if num >= 2 or (num and are_single):
        variances = pools.settle((first.setup, second.setup), index, estimate(ratios))
        side = _Term(variances, 0.5 / num)  # what slows both alike is in neither
        return _Difference(
            value=statistics.fmean(ratios),
            terms=(_Term(variances, 1 / num),),
            sides=(side, side),
            num=num,
            is_paired=True,
        )
    sides = (pools.of_runs(first), pools.of_runs(second))
    levels = () if first.host == second.host else (_LEVEL, _LEVEL)
    return _Difference(
        value=statistics.fmean(_logs(second)) - statistics.fmean(_logs(first)),
        terms=(*sides, *levels),
        sides=sides,
        num=min(len(first.speeds), len(second.speeds)),
        is_paired=False,
    )


def _add_terms(terms: Sequence[_Term]) -> _Variances:
    """Returns the variance of a sum."""
    return _Variances(
        add_estimates([(term.variances.alone, term.weight) for term in terms]),
        add_estimates([(term.variances.together, term.weight) for term in terms]),
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

    None if nothing is known of the error.
    """
    from scipy.special import stdtr  # scipy.stats takes half a second to import

    if not squared_error.degrees_of_freedom:
        return None
    if abs(value) <= _ROUNDING:
        return 1.0
    if not squared_error.variance:
        return 0.0
    t = abs(value) / math.sqrt(squared_error.variance)
    return 2 * float(stdtr(squared_error.degrees_of_freedom, -t))


def _describe(
    difference: _Difference, errors: _Variances, adjusted: float | None, num_family: int
) -> Speedup:
    value = difference.value
    speedup = Speedup(
        ratio=math.exp(value),
        num=difference.num,
        is_paired=difference.is_paired,
        degrees_of_freedom=errors.together.degrees_of_freedom,
        num_family=num_family,
    )
    if adjusted is None:
        return speedup
    widest = _widest(errors)
    p_value = max(_p_value(value, error) or 0.0 for error in errors)
    family_p_value = max(adjusted, p_value)
    judgement: Judgement = "no measurable difference"
    if family_p_value <= ALPHA:
        judgement = "faster" if value > 0 else "slower"
    first, second = (_widest(_add_terms([side])) for side in difference.sides)
    return replace(
        speedup,
        low=math.exp(value - widest.half_width),
        high=math.exp(value + widest.half_width),
        degrees_of_freedom=widest.degrees_of_freedom,
        p_value=p_value,
        family_p_value=family_p_value,
        judgement=judgement,
        speed_half_widths=(first.half_width, second.half_width),
    )


def _widest(errors: _Variances) -> VarianceEstimate:
    """Returns the estimate that gives the wider interval."""
    return max(errors, key=lambda error: error.half_width)
