"""When a sweep that adds rounds is judged, and what each look decides.

A look at the runs after some rounds decides a pair of setups, or leaves it to the next. Each look
spends an equal share of the 5 %: by Bonferroni's inequality, at most 5 % of tables call anything
faster or slower that is not at any look, and at most 5 % call anything equal that is not, however
the looks depend on each other. What is decided keeps its p-values and its interval, and stays in
the family of questions, which Holm's correction counts.

Sources: spending the error over looks: Lan and DeMets, "Discrete sequential boundaries for clinical
trials" (Biometrika 1983); Holm's correction over looks: Ye, Li, Liu and Yao, "A group sequential
Holm procedure with multiple primary endpoints" (Statistics in Medicine 2013).
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tfbench.comparisons.intervals import CONFIDENCE
from tfbench.comparisons.questions import LOG_MARGIN, Answer, Place, PValues, adjust
from tfbench.schema import MOST_ROUNDS
from tfbench.store.brief import RunBrief
from tfbench.tags import REPEATS_TAG, SWEEP_TAG

ALPHA = 1 - CONFIDENCE
# Simulated: with more looks each has less of the 5 %, with fewer, rounds are made in vain.
_LOOK_FACTOR = 4 / 3
# Simulated: those of 95 % hold in 89 % where a difference of 4 % is found between runs that scatter
# by 2 %, since a sweep ends when chance makes it look larger.
_STOPPED_CONFIDENCE = 0.98
# Fewer rounds tell too little of how runs scatter to give a pair up.
_LEAST_GIVEN_UP = 5


class Looks(NamedTuple):
    """When runs are judged."""

    rounds: tuple[int, ...] = ()  # after which; none: once, when all runs are there
    num: int = 1  # looks that share the 5 %
    num_questions: int = 0  # that are counted at least; more may come while values are added

    @classmethod
    def between(cls, low: int, high: int, num_questions: int = 0) -> "Looks":
        """Returns the looks of a sweep that makes from `low` to `high` rounds.

        Each is after about a third more rounds.
        """
        rounds = [low]
        while rounds[-1] < high:
            more = max(rounds[-1] + 1, round(_LOOK_FACTOR * rounds[-1]))
            rounds.append(min(high, more))
        return cls(tuple(rounds), len(rounds), num_questions)

    @property
    def confidence(self) -> float:
        """With which intervals are drawn so that they hold in 95 % where a decision ends it."""
        return _STOPPED_CONFIDENCE if self.rounds else CONFIDENCE


ONE_LOOK = Looks()


def find_looks(briefs: Iterable[RunBrief]) -> Looks:
    """Returns the looks at runs: those of their sweep, if they are of one that adds rounds.

    Runs of several sweeps are judged once. The most looks at any of them share the 5 % then, since
    each sweep has ended by what it showed.
    """
    found = set()
    most = 1
    for brief in briefs:
        repeats = parse_repeats(brief.tags.get(REPEATS_TAG, ""))
        looks = Looks.between(*repeats) if repeats else ONE_LOOK
        most = max(most, looks.num)
        found.add((brief.tags.get(SWEEP_TAG), looks))
    return looks if len(found) == 1 else Looks(num=most)


def parse_repeats(text: str) -> tuple[int, int] | None:
    """Returns the fewest and the most rounds of "3..20"; None: it is no range of rounds."""
    low, _, high = text.partition("..")
    fewest = parse_count(low)
    most = parse_count(high)
    return (fewest, most) if 1 <= fewest <= most else None


def parse_count(text: str) -> int:
    """Returns the number that a text is, at most `MOST_ROUNDS`; 0 of others."""
    if not text.isdecimal() or len(text) > len(str(MOST_ROUNDS)):
        return 0
    number = int(text)
    return number if number <= MOST_ROUNDS else 0


class LookSequence:
    """What the looks decide, one after the other."""

    def __init__(self, looks: Looks) -> None:
        self._looks = looks
        self._settled: dict[Place, Answer] = {}
        self._open: dict[Place, Answer] = {}  # as of the latest look at each
        self._next_look: dict[Place, int | None] = {}

    def look(self, answers: Sequence[Answer], num_rounds: int) -> None:
        """Judges pairs that have so many rounds; those that are decided stay as they are."""
        for answer in answers:
            if answer.question.place not in self._settled:
                self._open[answer.question.place] = answer
        family = self._settled | self._open
        p_values_of_all = self.adjust([*family.values()])
        for place, p_values in zip(family, p_values_of_all, strict=True):
            if place in self._open and _is_decided(p_values):
                self._settled[place] = self._open.pop(place)
                self._next_look[place] = None
        later = [rounds for rounds in self._looks.rounds if rounds > num_rounds]
        num_claims = max(len(family), self._looks.num_questions) * self._looks.num
        for answer in answers:
            place = answer.question.place
            if place not in self._open:
                continue
            is_hopeful = num_rounds < _LEAST_GIVEN_UP
            if later and not is_hopeful:
                is_hopeful = _may_decide(answer, num_claims, num_rounds, later[-1])
            self._next_look[place] = later[0] if later and is_hopeful else None

    def adjust(self, answers: Sequence[Answer]) -> list[PValues]:
        """Corrects what runs claim for the number of questions and of looks."""
        return adjust(answers, self._looks.num, self._looks.num_questions)

    def is_settled(self, place: Place) -> bool:
        """Says whether a pair is decided."""
        return place in self._settled

    def last_answer(self, place: Place) -> Answer | None:
        """Returns what a pair is judged by; None: it has too few rounds for the first look."""
        return self._settled.get(place) or self._open.get(place)

    def next_look(self, place: Place) -> int | None:
        """Returns the number of rounds after which a pair is judged again; None: it is not."""
        if not self._looks.rounds:
            return None
        return self._next_look.get(place, self._looks.rounds[0])


def _is_decided(p_values: PValues) -> bool:
    return any(p_value is not None and p_value <= ALPHA for p_value in p_values)


def _may_decide(answer: Answer, num_claims: int, num_rounds: int, most_rounds: int) -> bool:
    """Says whether the rounds that are left may decide a pair.

    Its ratio may be off by a standard error, in favour of either decision.

    Args:
        answer: What the rounds so far say of it.
        num_claims: Questions times looks, by which the 5 % is divided.
        num_rounds: Rounds so far.
        most_rounds: That there may be.
    """
    from scipy.special import stdtrit

    error = answer.errors.alone  # what others lend may be of one that scatters more
    if not error.degrees_of_freedom:
        return False
    now = math.sqrt(error.variance)
    then = now * math.sqrt(num_rounds / most_rounds)
    distance = abs(answer.log_ratio)
    clearest = max(distance + now, LOG_MARGIN - max(0.0, distance - now))
    quantile = float(stdtrit(most_rounds, 1 - ALPHA / num_claims))
    return clearest >= quantile * then
