"""The questions of a comparison, one for each pair of setups of a row, and what runs answer."""

import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from tfbench.comparisons.blocks import BlockFit, Difference, Runs
from tfbench.comparisons.intervals import (
    UNKNOWN,
    VarianceEstimate,
    add_estimates,
    holm,
    merge_estimates,
)

Pair = tuple[int, int]  # places of two setups in a row
Place = tuple[int, Pair]  # a row, and a pair in it

# The one margin: whoever chooses a setup takes speeds that differ by less for equal.
EQUAL_WITHIN = 1.05
LOG_MARGIN = math.log(EQUAL_WITHIN)
MARGIN = f"{100 * (EQUAL_WITHIN - 1):.0f} %"  # in texts

# Simulated: with more borrowed, tables whose configurations scatter unlike each other are wrong too
# often; with less, less is found. With a higher least, the intervals of noisy configurations hold
# too rarely.
MOST_BORROWED = 5.5
LEAST = 2.75
# Simulated with setups that scatter by 2, 2 and 10 %: with more, too many such tables are wrong.
MOST_OF_SETUPS = 2.0
_FEW = 2.0  # degrees of freedom of a pair, of three rounds, up to which it borrows that much
_KNOWN = 1e9  # degrees of freedom of a variance that is stated, not estimated
_LEAST_RUNS = 2  # of either setup, for a judgement
ROUNDING = 1e-12  # what the logarithms of equal speeds may differ by


class Question(NamedTuple):
    """How much faster one setup of a row is than another, and what the fit gives of it."""

    place: Place
    names: frozenset[str]  # of the setups, by which configurations lend each other variances
    difference: Difference


class Errors(NamedTuple):
    """The variance of a difference by its own configuration, and together with others."""

    alone: VarianceEstimate
    together: VarianceEstimate

    @property
    def widest(self) -> VarianceEstimate:
        """The estimate that gives the wider interval."""
        return max(self, key=lambda error: error.half_width)


class Claim(NamedTuple):
    """How often chance alone shows something as clearly, where it is not so.

    By the variance together with others, and by whichever makes it more likely.
    """

    together: float
    largest: float


class Answer(NamedTuple):
    """A question, and what runs answer; None: they show no scatter."""

    question: Question
    errors: Errors
    differs: Claim | None  # that the speeds differ
    is_equal: Claim | None  # that they differ by less than the margin

    @property
    def log_ratio(self) -> float:
        """The logarithm of the second setup's speed over the first's."""
        value = self.question.difference.value
        return value if abs(value) > ROUNDING else 0.0


class PValues(NamedTuple):
    """Of one question, corrected for all others; None: the runs show no scatter."""

    differs: float | None
    is_equal: float | None


class Questions:
    """The questions of a table, to be asked of all of its runs, or of those of its first rounds.

    Args:
        rows: As of `judge_rows`.
        pairs: As of `judge_rows`.
        level_variance: Of the logarithm of a machine's level, between sessions.
        adds_rounds: Whether rounds are added until all is decided.
    """

    def __init__(
        self,
        rows: Sequence[Sequence[Runs]],
        pairs: Sequence[Collection[Pair]] | None,
        level_variance: float,
        *,
        adds_rounds: bool = False,
    ) -> None:
        self._rows = rows
        self._pairs: list[list[Pair]] = []
        for index, row in enumerate(rows):
            asked = itertools.combinations(range(len(row)), 2) if pairs is None else pairs[index]
            self._pairs.append(list(asked))
        self._level_variance = level_variance
        self._adds_rounds = adds_rounds
        self._fitted: dict[int, tuple[Sequence[Runs], list[Question]]] = {}

    def ask_all(self) -> list[Answer]:
        """Asks them of all runs."""
        return self._ask(self._rows)

    def ask_first(self, num_rounds: int) -> list[Answer]:
        """Asks those of which both setups have so many rounds, of these; others lend scatter."""
        rows = [[runs.up_to(num_rounds) for runs in row] for row in self._rows]
        answers = []
        for answer in self._ask(rows):
            row, (first, second) = answer.question.place
            if rows[row][first].has_rounds(num_rounds) and rows[row][second].has_rounds(num_rounds):
                answers.append(answer)
        return answers

    def _ask(self, rows: Sequence[Sequence[Runs]]) -> list[Answer]:
        questions: list[Question] = []
        for index, row in enumerate(rows):
            if index not in self._fitted or self._fitted[index][0] != row:
                self._fitted[index] = (row, self._fit(index, row))
            questions += self._fitted[index][1]
        errors = _find_errors(questions, self._level_variance, adds_rounds=self._adds_rounds)
        return [_answer(*both) for both in zip(questions, errors, strict=True)]

    def _fit(self, index: int, row: Sequence[Runs]) -> list[Question]:
        present = [setup for setup, runs in enumerate(row) if runs.speeds]
        fit = BlockFit([row[setup] for setup in present])
        questions = []
        for first, second in self._pairs[index]:
            if first not in present or second not in present:
                continue
            difference = fit.compare(present.index(first), present.index(second))
            if min(len(row[first].speeds), len(row[second].speeds)) < _LEAST_RUNS:
                difference = difference._replace(own=UNKNOWN)
            names = frozenset((row[first].setup, row[second].setup))
            questions.append(Question((index, (first, second)), names, difference))
        return questions


def adjust(answers: Sequence[Answer], num_looks: int, num_questions: int) -> list[PValues]:
    """Corrects what runs claim for the number of questions, and of looks at the runs.

    Differences are one family, and equal speeds another.

    Args:
        answers: To all questions.
        num_looks: Which share the 5 % in equal parts.
        num_questions: That are counted at least.
    """
    differs = _correct([answer.differs for answer in answers], num_looks, num_questions)
    is_equal = _correct([answer.is_equal for answer in answers], num_looks, num_questions)
    return list(map(PValues, differs, is_equal))


def _correct(
    claims: Sequence[Claim | None], num_looks: int, num_questions: int
) -> list[float | None]:
    adjusted = iter(holm([claim.together for claim in claims if claim], num_questions))
    corrected: list[float | None] = []
    for claim in claims:
        if claim is None:
            corrected.append(None)
        else:
            corrected.append(min(1.0, num_looks * max(next(adjusted), claim.largest)))
    return corrected


def _find_errors(
    questions: Sequence[Question], level_variance: float, *, adds_rounds: bool
) -> list[Errors]:
    """Returns the variance of each difference, with what other setups and configurations lend.

    Where rounds are added, they lend the less the more a pair shows itself: otherwise a noisy
    configuration would keep a quiet one open. Of a fixed number, some of which are disturbed, less
    would be found so.
    """
    lent: dict[frozenset[str], dict[int, VarianceEstimate]] = defaultdict(dict)
    for question in questions:
        if question.difference.own.degrees_of_freedom:
            lent[question.names][question.place[0]] = question.difference.lent
    level = VarianceEstimate(level_variance, _KNOWN)
    errors = []
    for question in questions:
        difference = question.difference
        rows = lent[question.names]
        others = merge_estimates([rows[row] for row in rows if row != question.place[0]])
        own = difference.own
        if difference.is_between_sessions:
            others = UNKNOWN
        least = max(0.0, LEAST - own.degrees_of_freedom)
        lent_by_all = merge_estimates([_lend_beside(own, difference.rest), others])
        alone = [(_borrow(own, others, least), difference.weight)]
        most = MOST_BORROWED
        if adds_rounds:
            most = max(0.0, most - max(0.0, own.degrees_of_freedom - _FEW))
        together = [(_borrow(own, lent_by_all, most), difference.weight)]
        if difference.is_between_sessions:
            alone.append((level, 2.0))
            together.append((level, 2.0))
        errors.append(Errors(add_estimates(alone), add_estimates(together)))
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


def _answer(question: Question, errors: Errors) -> Answer:
    """Returns what the runs claim."""
    answer = Answer(question, errors, None, None)
    if not all(error.degrees_of_freedom for error in errors):
        return answer
    distance = abs(answer.log_ratio)
    differs = [_chance_of(distance, error, num_sides=2) for error in errors]
    is_equal = [_chance_of(LOG_MARGIN - distance, error, num_sides=1) for error in errors]
    return answer._replace(
        differs=Claim(differs[1], max(differs)), is_equal=Claim(is_equal[1], max(is_equal))
    )


def _chance_of(distance: float, squared_error: VarianceEstimate, *, num_sides: int) -> float:
    """Returns how often chance alone gives a value as far off, by Student's t.

    Args:
        distance: From what is to be excluded; negative: on its side.
        squared_error: Of the value.
        num_sides: On which it may lie: 1 or 2.
    """
    from scipy.special import stdtr  # scipy.stats takes half a second to import

    if num_sides == 2 and not distance:
        return 1.0
    if not squared_error.variance:
        return 0.0 if distance > 0 else 1.0
    t = distance / math.sqrt(squared_error.variance)
    return num_sides * float(stdtr(squared_error.degrees_of_freedom, -t))
