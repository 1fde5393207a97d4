"""Speeds of one configuration under several setups: the logarithm of each is setup + block.

A **block** is what runs have in common beside their setup: a round of a session, or the session
where its setups took no turns. What slows a whole block is in no difference between two setups.

**Components.** Setups that share blocks, directly or through others, are connected: their
differences come from one least-squares fit. Between components a difference is that of their means,
which holds the difference of their sessions' levels, too.

**Variances.** Setups do not scatter alike, so each has a variance of its own: its squared residuals
over the sum of what the fit leaves free of each. A difference between two setups takes both from a
fit to these two alone where that is possible, so that a third, noisy one is not in it.

Sources: two-way layouts with missing values: Yates, "The analysis of multiple classifications with
unequal numbers in the different classes" (1934); which differences such a design can tell: Bose,
"Least squares aspects of analysis of variance" (1949); residuals over what a fit leaves free:
Horn, Horn and Duncan, "Estimating heteroscedastic variances in linear models" (1975).
"""

import functools
import itertools
import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tfbench.comparisons.intervals import (
    UNKNOWN,
    VarianceEstimate,
    add_estimates,
    estimate,
    estimate_without_farthest,
    merge_estimates,
)

if TYPE_CHECKING:
    import numpy as np

_NONE = 1e-9  # degrees of freedom, or weights, that differ from 0 by rounding alone


@dataclass(frozen=True, kw_only=True, slots=True)
class Runs:
    """Runs of one setup at one configuration, alike in all but their process.

    `speeds` are positive, in any unit. For each run, `sessions` says in which session it was made,
    and `rounds` in which round it took its turn, None if in none. Without sessions, all are of one;
    without rounds, the runs of a session are repeats.
    """

    setup: str
    speeds: tuple[float, ...]
    rounds: tuple[Hashable, ...] = ()
    sessions: tuple[Hashable, ...] = ()
    numbers: tuple[int, ...] = ()  # of the rounds of a sweep that adds some, from 1

    def list_places(self) -> list[tuple[Hashable, Hashable]]:
        """Returns the session and the round of each run."""
        nowhere = (None,) * len(self.speeds)
        return list(zip(self.sessions or nowhere, self.rounds or nowhere, strict=True))

    def up_to(self, num_rounds: int) -> "Runs":
        """Returns the runs of the first rounds of a sweep."""
        is_kept = [number <= num_rounds for number in self.numbers]
        return Runs(
            setup=self.setup,
            speeds=tuple(itertools.compress(self.speeds, is_kept)),
            rounds=tuple(itertools.compress(self.rounds, is_kept)),
            sessions=tuple(itertools.compress(self.sessions, is_kept)),
            numbers=tuple(itertools.compress(self.numbers, is_kept)),
        )

    def has_rounds(self, num_rounds: int) -> bool:
        """Says whether there is a run of each of the first rounds."""
        return set(self.numbers).issuperset(range(1, num_rounds + 1))


class _Observation(NamedTuple):
    setup: int
    block: Hashable
    log: float


class Difference(NamedTuple):
    """The logarithm of one setup's speed over another's.

    Its variance is `weight` times that of a run, which `own` estimates by the runs of both, `rest`
    by what all other setups of the component show; `lent` is what other configurations may take it
    for.
    """

    value: float
    weight: float
    own: VarianceEstimate
    rest: VarianceEstimate = UNKNOWN
    lent: VarianceEstimate = UNKNOWN
    num: int = 0  # of common rounds, or of the runs of the setup that has fewer
    is_paired: bool = False  # all runs of that setup are in common rounds
    is_between_sessions: bool = False  # without a block in common, not even through others


class BlockFit:
    """The fit to one configuration under all setups."""

    def __init__(self, row: Sequence[Runs]) -> None:
        self._row = row
        self._blocks = _find_blocks(row)
        self._component_of: dict[int, _Component] = {}
        for setups in _connect(self._blocks):
            component = self._fit(setups)
            self._component_of |= dict.fromkeys(setups, component)

    def _fit(self, setups: Sequence[int]) -> "_Component":
        observations = []
        for setup in setups:
            for block, speed in zip(self._blocks[setup], self._row[setup].speeds, strict=True):
                observations.append(_Observation(setup, block, math.log(speed)))
        return _Component(setups, observations)

    def compare(self, first: int, second: int) -> Difference:
        """Returns how fast the second of two setups is beside the first, by their places."""
        before = self._component_of[first]
        after = self._component_of[second]
        num = min(len(self._row[first].speeds), len(self._row[second].speeds))
        if before is after:
            return self._compare_within(before, first, second, num)
        variances = ((before.mean_variance(first), 1.0), (after.mean_variance(second), 1.0))
        return Difference(
            value=after.mean_of(second) - before.mean_of(first),
            weight=1.0,
            own=add_estimates(variances),
            num=num,
            is_between_sessions=True,
        )

    def _compare_within(
        self, component: "_Component", first: int, second: int, num: int
    ) -> Difference:
        weights = component.weights_of_difference(first, second)
        weight = sum(weights.values())
        is_known = component.variances.keys() >= weights.keys()
        ratios = self._ratios(first, second)
        is_paired = len(ratios) == num
        lent = None
        terms: list[tuple[VarianceEstimate, float]] = []
        if is_paired:
            of_pair = estimate(ratios).times(0.5)  # of a run of either, on average
            share = component.share_of_scatter(first, second)
            parts = weights.pop(first) * share + weights.pop(second) * (1 - share)
            terms.append((of_pair, 2 * parts))
            lent = estimate_without_farthest(ratios).times(0.5)
        else:
            pair = self._fit((first, second))
            of_pair = pair.common_variance
            for setup in (first, second):
                variance = pair.variances.get(setup) or component.variance_of(setup)
                terms.append((variance, weights.pop(setup)))
        for setup, factor in weights.items():
            terms.append((component.variance_of(setup), factor))
        own = add_estimates(terms)
        if weights:
            # Where a pair scatters little by chance, the rest of the sum makes it look too certain.
            alike = [(part._replace(variance=1.0), factor) for part, factor in terms]
            degrees = min(own.degrees_of_freedom, add_estimates(alike).degrees_of_freedom)
            # A fit shows one scatter at least, however many setups share it.
            own = VarianceEstimate(own.variance, max(1.0, degrees))
        own = own.times(1 / weight)
        return Difference(
            value=component.effect_of(second) - component.effect_of(first),
            weight=weight,
            own=own if is_known else UNKNOWN,  # a single run of a setup shows no scatter
            rest=component.rest_beside(of_pair),
            lent=lent or own,
            num=num,
            is_paired=is_paired,
        )

    def _ratios(self, first: int, second: int) -> list[float]:
        """Returns the logarithm of second over first of each block with one run of either."""
        before = self._singles_of(first)
        after = self._singles_of(second)
        return [math.log(after[block] / before[block]) for block in before if block in after]

    def _singles_of(self, setup: int) -> dict[Hashable, float]:
        """Returns the speed in each block with one run of a setup."""
        counts = Counter(self._blocks[setup])
        speeds = zip(self._blocks[setup], self._row[setup].speeds, strict=True)
        return {block: speed for block, speed in speeds if counts[block] == 1}


def _find_blocks(row: Sequence[Runs]) -> list[list[Hashable]]:
    """Returns the block of each run, by setup.

    Rounds are blocks where they connect all setups of their session. Elsewhere the session is one
    block: a setup that ran alone has no round in common with others, and its rounds are repeats.
    """
    rounds_by_session: dict[Hashable, dict[int, set[Hashable]]] = {}
    for setup, runs in enumerate(row):
        for session, place in runs.list_places():
            rounds_by_session.setdefault(session, {}).setdefault(setup, set()).add(place)
    by_rounds = set()
    for session, rounds in rounds_by_session.items():
        if len(rounds) > 1 and len(_connect(list(rounds.values()))) == 1:
            by_rounds.add(session)
    blocks = []
    for runs in row:
        own: list[Hashable] = []
        for session, place in runs.list_places():
            own.append((session, place if session in by_rounds else None))
        blocks.append(own)
    return blocks


def _connect(blocks: Sequence[Sequence[Hashable] | set[Hashable]]) -> list[list[int]]:
    """Returns the setups that share blocks, directly or through others, group by group."""
    groups: list[tuple[list[int], set[Hashable]]] = []
    for setup, own in enumerate(blocks):
        setups = [setup]
        reached = set(own)
        apart = []
        for group in groups:
            if reached.isdisjoint(group[1]):
                apart.append(group)
            else:
                setups = group[0] + setups
                reached |= group[1]
        groups = [*apart, (setups, reached)]
    return [sorted(setups) for setups, _ in groups]


class _Design:
    """Where runs stand: the setup and the block of each. Blocks are averaged out.

    All that a fit needs beside the speeds, which many configurations of a sweep have in common.
    """

    def __init__(self, setup_of: tuple[int, ...], block_of: tuple[int, ...]) -> None:
        import numpy as np

        self.setup_of = np.array(setup_of)
        self.block_of = np.array(block_of)
        num_setups = max(setup_of) + 1
        self.sizes = np.bincount(self.block_of)
        shares = np.zeros((len(self.sizes), num_setups))  # of setups in the runs of each block
        np.add.at(shares, (self.block_of, self.setup_of), 1.0)
        shares /= self.sizes[:, None]
        self.mean_shares = shares.mean(axis=0)
        self.centred = np.eye(num_setups)[self.setup_of] - shares[self.block_of]
        self.to_effects = np.linalg.pinv(self.centred)
        in_block = 1 / self.sizes[self.block_of]
        leverages = in_block + (self.centred * self.to_effects.T).sum(axis=1)
        self.degrees = np.bincount(self.setup_of, weights=1 - leverages)
        # of a run in the mean of all blocks
        self._mean_coefficients = in_block / len(self.sizes)

    def weights_of_difference(self, first: int, second: int) -> list[float]:
        """Returns how often the variance of a run of each setup is in that of a difference."""
        return self._sum_weights(self.to_effects[second] - self.to_effects[first])

    def weights_of_mean(self, setup: int) -> list[float]:
        """Returns the same for the mean of a setup at the mean level of the blocks."""
        effect = self.to_effects[setup] - self.mean_shares @ self.to_effects
        return self._sum_weights(effect + self._mean_coefficients)

    def _sum_weights(self, coefficients: "np.ndarray") -> list[float]:
        import numpy as np

        sums: list[float] = np.bincount(self.setup_of, weights=coefficients**2).tolist()
        return [weight if weight > _NONE else 0.0 for weight in sums]


_find_design = functools.lru_cache(maxsize=256)(_Design)


class _Component:
    """The least-squares fit to setups that share blocks."""

    def __init__(self, setups: Sequence[int], observations: Sequence[_Observation]) -> None:
        import numpy as np

        self.setups = setups
        self._place = {setup: place for place, setup in enumerate(setups)}
        numbers: dict[Hashable, int] = {}
        block_of = []
        setup_of = []
        logs_of_runs = []
        for run in observations:
            block_of.append(numbers.setdefault(run.block, len(numbers)))
            setup_of.append(self._place[run.setup])
            logs_of_runs.append(run.log)
        design = _find_design(tuple(setup_of), tuple(block_of))
        logs = np.array(logs_of_runs)
        means = np.bincount(block_of, weights=logs) / design.sizes
        centred = logs - means[block_of]
        effects = design.to_effects @ centred
        residuals = centred - design.centred @ effects
        self._design = design
        self._effects: list[float] = effects.tolist()
        levels = means - np.bincount(block_of, weights=effects[design.setup_of]) / design.sizes
        self._level_variance = estimate(levels.tolist()).times(1 / len(levels))
        self._mean_level = float(means.mean() - design.mean_shares @ effects)
        self.variances: dict[int, VarianceEstimate] = {}  # of a run of each setup that shows one
        squares = np.bincount(setup_of, weights=residuals**2).tolist()
        for setup, total, degrees in zip(setups, squares, design.degrees.tolist(), strict=True):
            if degrees > _NONE:
                self.variances[setup] = VarianceEstimate(total / degrees, degrees)

    @property
    def common_variance(self) -> VarianceEstimate:
        """The variance of a run by what all setups show."""
        return merge_estimates(list(self.variances.values()))

    def variance_of(self, setup: int) -> VarianceEstimate:
        """Returns the variance of a run of a setup; by all of them where it shows none."""
        return self.variances.get(setup) or self.common_variance

    def share_of_scatter(self, first: int, second: int) -> float:
        """Returns which share of the scatter of a ratio is of the first setup, by this fit."""
        of_first = self.variance_of(first).variance
        both = of_first + self.variance_of(second).variance
        return of_first / both if both else 0.5

    def effect_of(self, setup: int) -> float:
        """Returns a setup's logarithm beside the others of the component."""
        return self._effects[self._place[setup]]

    def mean_of(self, setup: int) -> float:
        """Returns the logarithm of a setup's speed at the mean level of the blocks."""
        return self.effect_of(setup) + self._mean_level

    def weights_of_difference(self, first: int, second: int) -> dict[int, float]:
        """Returns how often the variance of a run of each setup is in that of a difference."""
        weights = self._design.weights_of_difference(self._place[first], self._place[second])
        return self._by_setup(weights)

    def mean_variance(self, setup: int) -> VarianceEstimate:
        """Returns the variance of `mean_of`, by how runs and blocks of this component scatter."""
        weights = self._by_setup(self._design.weights_of_mean(self._place[setup]))
        terms = [(self.variance_of(own), weight) for own, weight in weights.items()]
        if self._level_variance.degrees_of_freedom:
            terms.append((self._level_variance, 1.0))
        return add_estimates(terms)

    def rest_beside(self, part: VarianceEstimate) -> VarianceEstimate:
        """Returns the variance of a run by what is not in the estimate of a pair of setups."""
        whole = self.common_variance
        degrees = whole.degrees_of_freedom - part.degrees_of_freedom
        if degrees < _NONE:
            return UNKNOWN
        squares = whole.variance * whole.degrees_of_freedom
        squares -= part.variance * part.degrees_of_freedom
        return VarianceEstimate(max(0.0, squares) / degrees, degrees)

    def _by_setup(self, weights: Sequence[float]) -> dict[int, float]:
        """Returns the weights that are not 0, by setup."""
        return {setup: weights[place] for setup, place in self._place.items() if weights[place]}
