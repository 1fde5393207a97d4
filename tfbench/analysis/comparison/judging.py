"""Whether one setup is faster than another: the one rule that every command judges by.

**What is compared.** Logarithms of speeds: each is setup + block, as in `blocks`, fitted for each
configuration. All ratios of a configuration come from the one fit, and with those of all others
they are one family of questions. Tables, rankings and recommendations read them from here, so that
none contradicts another.

**By which variance.** That of a difference is estimated twice: from the runs themselves, and with
what other setups and configurations show. Since these scatter unlike each other, they count little:
*alone* they fill up to `LEAST` degrees of freedom, *together* they count for `MOST_BORROWED` at
most. Other setups of the configuration count for `MOST_OF_SETUPS` of these, for the less the more
they scatter than the pair itself, and they narrow no interval. Each configuration lends what its
rounds show without the farthest of them, so that a disturbed run hides no difference elsewhere.
Neither estimate is less than what the runs themselves show. The interval is Student's t (Welch's
where either setup has a variance of its own) by whichever is wider, so that it holds for a noisy
configuration, too. A single run of a setup shows no scatter: it is not judged.

**How many times.** A comparison over many configurations asks many questions: it calls faster or
slower what Holm's correction leaves of them by the variance *together*, and what its own interval
supports. So at most about one comparison of equals in twenty says anything false, also where
configurations scatter unlike each other. The interval beside each ratio stays that of the one
question; where it alone excludes 1, the difference is suggested, and no more.

**Between sessions.** The level of a machine drifts from one session to the next, which runs of one
session do not show. So a ratio of setups without a block in common has the variance of two levels
on top, and recommends nothing. Two machines are two sessions.

What this costs and finds is simulated in `benchmarks/judging.py`.

Sources: Welch, "The generalization of 'Student's' problem when several different population
variances are involved" (Biometrika 1947); Holm (1979), see `intervals`; what configurations lend
each other: Smyth, "Linear models and empirical Bayes methods for assessing differential expression
in microarray experiments" (2004), with a fixed prior weight here; a scatter without the farthest
value: Rousseeuw, "Multivariate estimation with high breakdown point" (1985); what may be called
equal: Schuirmann, "A comparison of the two one-sided tests procedure and the power approach"
(1987).
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from tfbench.analysis.comparison.blocks import BlockFit, Difference, Runs
from tfbench.analysis.comparison.intervals import (
    CONFIDENCE,
    UNKNOWN,
    VarianceEstimate,
    add_estimates,
    holm,
    merge_estimates,
)
from tfbench.records.settings import SESSION_SCATTER

Judgement = Literal["faster", "slower", "no measurable difference", "not judged"]
Finding = Literal[Judgement, "too noisy to tell"]
Pair = tuple[int, int]  # places of two setups in a row

# An interval from 0.8 to 1.25 is what studies ask for before they call two things equivalent
# (Schuirmann 1987).
EQUAL_WITHIN = 1.25

ALPHA = 1 - CONFIDENCE
# Simulated: with more borrowed, tables whose configurations scatter unlike each other are wrong too
# often; with less, less is found. With a higher least, the intervals of noisy configurations hold
# too rarely.
MOST_BORROWED = 5.5
LEAST = 2.75
# Simulated with setups that scatter by 2, 2 and 10 %: with more, too many such tables are wrong.
MOST_OF_SETUPS = 2.0
_KNOWN = 1e9  # degrees of freedom of a variance that is stated, not estimated
_LEAST_RUNS = 2  # of either setup, for a judgement
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
    is_between_sessions: bool = False  # no run of either has a block in common with the other's

    @property
    def excludes_one(self) -> bool:
        """Whether the interval of this configuration excludes equal speeds."""
        if self.low is None or self.high is None:
            return False
        return not self.low <= 1 <= self.high

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


class _Question(NamedTuple):
    """A pair of setups of a row: which, and what the fit gives of it."""

    row: int
    pair: Pair
    names: frozenset[str]  # of the setups, by which configurations lend each other variances
    difference: Difference


class _Errors(NamedTuple):
    """The variance of a difference by its own configuration, and together with others."""

    alone: VarianceEstimate
    together: VarianceEstimate

    @property
    def widest(self) -> VarianceEstimate:
        """The estimate that gives the wider interval."""
        return max(self, key=lambda error: error.half_width)


def judge_pair(first: Runs, second: Runs) -> Speedup:
    """Says how fast the second of two setups is beside the first.

    It is the only question asked, so that nothing is corrected for others.
    """
    return judge_rows([(first, second)])[0][0, 1]


def judge_rows(
    rows: Sequence[Sequence[Runs]],
    pairs: Sequence[Collection[Pair]] | None = None,
    session_scatter: float = SESSION_SCATTER,
) -> list[dict[Pair, Speedup]]:
    """Says of each row how fast its setups are beside each other; all is asked at once.

    Args:
        rows: Of each configuration, the runs of its setups; at least one run of each.
        pairs: Those that are asked of each row, by the places of both setups; None: all, the first
            setup being the earlier one.
        session_scatter: By how much the logarithm of a machine's level scatters between sessions.
    """
    questions = []
    for index, row in enumerate(rows):
        fit = BlockFit(row)
        asked = itertools.combinations(range(len(row)), 2) if pairs is None else pairs[index]
        for first, second in asked:
            names = frozenset((row[first].setup, row[second].setup))
            difference = fit.compare(first, second)
            if min(len(row[first].speeds), len(row[second].speeds)) < _LEAST_RUNS:
                difference = difference._replace(own=UNKNOWN)
            questions.append(_Question(index, (first, second), names, difference))
    errors = _find_errors(questions, session_scatter**2)
    p_values = []
    for question, error in zip(questions, errors, strict=True):
        p_values.append(_p_value(question.difference.value, error.together))
    family = [p_value for p_value in p_values if p_value is not None]
    adjusted = iter(holm(family))
    judged: list[dict[Pair, Speedup]] = [{} for _ in rows]
    for question, error, p_value in zip(questions, errors, p_values, strict=True):
        family_p_value = None if p_value is None else next(adjusted)
        speedup = _describe(question.difference, error, family_p_value, len(family))
        judged[question.row][question.pair] = speedup
    return judged


def _find_errors(questions: Sequence[_Question], level_variance: float) -> list[_Errors]:
    """Returns the variance of each difference, with what other setups and configurations lend."""
    lent: dict[frozenset[str], dict[int, VarianceEstimate]] = defaultdict(dict)
    for question in questions:
        if question.difference.own.degrees_of_freedom:
            lent[question.names][question.row] = question.difference.lent
    level = VarianceEstimate(level_variance, _KNOWN)
    errors = []
    for question in questions:
        difference = question.difference
        rows = lent[question.names]
        others = merge_estimates([rows[row] for row in rows if row != question.row])
        own = difference.own
        if difference.is_between_sessions:
            others = UNKNOWN
        least = max(0.0, LEAST - own.degrees_of_freedom)
        lent_by_all = merge_estimates([_lend_beside(own, difference.rest), others])
        alone = [(_borrow(own, others, least), difference.weight)]
        together = [(_borrow(own, lent_by_all, MOST_BORROWED), difference.weight)]
        if difference.is_between_sessions:
            alone.append((level, 2.0))
            together.append((level, 2.0))
        errors.append(_Errors(add_estimates(alone), add_estimates(together)))
    return errors


def _lend_beside(own: VarianceEstimate, rest: VarianceEstimate) -> VarianceEstimate:
    """Returns what other setups lend a pair: the less, the more they scatter than it does."""
    lent = _at_most(rest, MOST_OF_SETUPS)
    if rest.variance <= own.variance:
        return lent
    return _at_most(lent, lent.degrees_of_freedom * own.variance / rest.variance)


def _at_most(estimate: VarianceEstimate, most: float) -> VarianceEstimate:
    """Returns an estimate of so many degrees of freedom at most."""
    return VarianceEstimate(estimate.variance, min(estimate.degrees_of_freedom, most))


def _borrow(own: VarianceEstimate, lent: VarianceEstimate, most: float) -> VarianceEstimate:
    """Returns a variance with what others lend, of so many degrees of freedom at most.

    It is not less than what the runs themselves show.
    """
    if not own.degrees_of_freedom:
        return UNKNOWN
    merged = merge_estimates([own, _at_most(lent, most)])
    return VarianceEstimate(max(merged.variance, own.variance), merged.degrees_of_freedom)


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
    difference: Difference, errors: _Errors, adjusted: float | None, num_family: int
) -> Speedup:
    value = difference.value if abs(difference.value) > _ROUNDING else 0.0
    speedup = Speedup(
        ratio=math.exp(value),
        num=difference.num,
        is_paired=difference.is_paired,
        is_between_sessions=difference.is_between_sessions,
        degrees_of_freedom=errors.together.degrees_of_freedom,
        num_family=num_family,
    )
    if adjusted is None:
        return speedup
    widest = errors.widest
    p_value = max(_p_value(value, error) or 0.0 for error in errors)
    speedup = replace(
        speedup,
        low=math.exp(value - widest.half_width),
        high=math.exp(value + widest.half_width),
        degrees_of_freedom=widest.degrees_of_freedom,
        p_value=p_value,
        family_p_value=max(adjusted, p_value),
        judgement="no measurable difference",
    )
    if max(adjusted, p_value) > ALPHA or not speedup.excludes_one:
        return speedup
    return replace(speedup, judgement="faster" if value > 0 else "slower")
