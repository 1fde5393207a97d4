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

**Equal.** Speeds are equal to those who choose a setup where they differ by less than
`EQUAL_WITHIN`: where both one-sided tests reject a larger difference, corrected as the others are.

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

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tfbench.comparisons.blocks import Runs
from tfbench.comparisons.looks import ALPHA, ONE_LOOK, Looks, LookSequence
from tfbench.comparisons.questions import (
    LOG_MARGIN,
    Answer,
    Pair,
    Place,
    PValues,
    Questions,
)
from tfbench.comparisons.user_settings import SESSION_SCATTER

Judgement = Literal["faster", "slower", "no measurable difference", "not judged"]
Finding = Literal["faster", "slower", "equal", "too noisy to tell", "not judged"]


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
    is_equal: bool = False  # within `EQUAL_WITHIN`,
    is_between_sessions: bool = False  # no run of either has a block in common with the other's
    # Rounds after which it is judged again; None: it is decided, cannot be, or that was all.
    next_look: int | None = None

    @property
    def excludes_one(self) -> bool:
        """Whether the interval of this configuration excludes equal speeds."""
        if self.low is None or self.high is None:
            return False
        return not self.low <= 1 <= self.high

    @property
    def is_suggested(self) -> bool:
        """Whether the interval of this one configuration says what the family does not support."""
        return self.excludes_one and self.finding == "too noisy to tell"

    @property
    def is_too_noisy(self) -> bool:
        """Whether the runs do not even hint at a difference, nor show that there is none."""
        return self.finding == "too noisy to tell" and not self.excludes_one

    @property
    def is_decided(self) -> bool:
        """Whether it is faster, slower, or equal within the margin."""
        return self.finding in ("faster", "slower", "equal")

    @property
    def finding(self) -> Finding:
        """The judgement as people read it.

        Where none was seen, it tells equal speeds from a difference that could not be seen.
        """
        if self.judgement != "no measurable difference":
            return self.judgement
        return "equal" if self.is_equal else "too noisy to tell"

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


def judge_pair(first: Runs, second: Runs) -> Speedup:
    """Says how fast the second of two setups is beside the first.

    It is the only question asked, so that nothing is corrected for others.
    """
    return judge_rows([(first, second)])[0][0, 1]


def judge_rows(
    rows: Sequence[Sequence[Runs]],
    pairs: Sequence[Collection[Pair]] | None = None,
    session_scatter: float = SESSION_SCATTER,
    looks: Looks = ONE_LOOK,
) -> list[dict[Pair, Speedup]]:
    """Says of each row how fast its setups are beside each other; all is asked at once.

    Args:
        rows: Of each configuration, the runs of its setups; at least one run of each.
        pairs: Those that are asked of each row, by the places of both setups; None: all, the first
            setup being the earlier one.
        session_scatter: By how much the logarithm of a machine's level scatters between sessions.
        looks: Of a sweep that adds rounds, to be judged as it was after each of them.
    """
    questions = Questions(rows, pairs, session_scatter**2, adds_rounds=bool(looks.rounds))
    sequence = LookSequence(looks)
    most_rounds = max((max(runs.numbers, default=0) for row in rows for runs in row), default=0)
    for num_rounds in looks.rounds:
        if num_rounds <= most_rounds:
            sequence.look(questions.ask_first(num_rounds), num_rounds)
    answers = questions.ask_all()
    bases = []
    for answer in answers:
        place = answer.question.place
        basis = sequence.last_answer(place) or answer
        if looks.rounds and _most_rounds(rows, place) < looks.rounds[0]:
            basis = answer._replace(differs=None, is_equal=None)  # its first look is to come
        bases.append(basis)
    p_values = sequence.adjust(bases)
    num_family = sum(p_value.differs is not None for p_value in p_values)
    judged: list[dict[Pair, Speedup]] = [{} for _ in rows]
    for answer, basis, own_p_values in zip(answers, bases, p_values, strict=True):
        place = answer.question.place
        if sequence.is_settled(place) and _has_same_runs(answer, basis):
            answer = answer._replace(errors=basis.errors)  # what others show since is not of it
        speedup = _describe(answer, basis, own_p_values, looks.confidence)
        row, pair = place
        judged[row][pair] = replace(
            speedup, num_family=num_family, next_look=sequence.next_look(place)
        )
    return judged


def _most_rounds(rows: Sequence[Sequence[Runs]], place: Place) -> int:
    """Returns the last round of which both setups of a pair have a run."""
    row, pair = place
    return min(max(rows[row][setup].numbers, default=0) for setup in pair)


def _has_same_runs(answer: Answer, basis: Answer) -> bool:
    """Says whether a pair has had no rounds since a look."""
    return answer.question.difference.num == basis.question.difference.num


def _describe(answer: Answer, basis: Answer, p_values: PValues, confidence: float) -> Speedup:
    """Returns a speed-up by all runs, and what may be said of it by those of the last look."""
    difference = answer.question.difference
    value = answer.log_ratio
    speedup = Speedup(
        ratio=math.exp(value),
        num=difference.num,
        is_paired=difference.is_paired,
        is_between_sessions=difference.is_between_sessions,
        degrees_of_freedom=answer.errors.together.degrees_of_freedom,
        num_family=0,
    )
    if answer.differs is None:
        return speedup
    widest = answer.errors.widest
    half_width = widest.half_width_at(confidence)
    speedup = replace(
        speedup,
        low=math.exp(value - half_width),
        high=math.exp(value + half_width),
        degrees_of_freedom=widest.degrees_of_freedom,
        p_value=answer.differs.largest,
        judgement="no measurable difference",
    )
    if p_values.differs is None or p_values.is_equal is None:
        return speedup
    speedup = replace(speedup, family_p_value=p_values.differs)
    is_same_way = value * basis.log_ratio > 0
    if p_values.differs <= ALPHA and speedup.excludes_one and is_same_way:
        return replace(speedup, judgement="faster" if value > 0 else "slower")
    is_equal = p_values.is_equal <= ALPHA and abs(value) < LOG_MARGIN
    return replace(speedup, is_equal=is_equal)
