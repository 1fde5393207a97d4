"""Whether a recipe has become slower: speeds of processes now, against those of baselines."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Literal

from tfbench.comparisons.baseline import SpeedSample, make_sample, measure_sample
from tfbench.comparisons.blocks import Runs
from tfbench.comparisons.equality import Differences, find_differences, in_words, settle_records
from tfbench.comparisons.judging import Speedup, judge_pair
from tfbench.errors import ComparisonError
from tfbench.runs.record import RunRequest
from tfbench.runs.repeat import Execute, RunSeries
from tfbench.runs.stored_run import Run

# The level of a quiet machine differs by about 2 % from one session to the next: 5 % is beyond what
# that explains.
DEFAULT_FAIL_ABOVE = 0.05
_BLIND = 0.10  # a slow-down that a check should see whatever its limit

Judgement = Literal["regression", "slower", "faster", "no measurable difference"]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RegressionCheck:
    """What became of a recipe's speed since a baseline.

    `speedup` is that of now over then. A regression is a slow-down by more than the share
    `fail_above`, at 95 %.
    """

    baseline: SpeedSample
    current: SpeedSample
    speedup: Speedup
    unequal: Differences  # although it must be equal
    changed: Differences  # of the circumstances
    fail_above: float
    require_detect: float | None = None  # a slow-down that the user wants it to see

    @property
    def smallest_detectable(self) -> float:
        """The smallest slow-down that, as these runs scatter, would have been a regression.

        0.09 for 9 %.
        """
        noise = self.speedup.noise_limit or 0.0
        return 1 - (1 - self.fail_above) / (1 + noise)

    @property
    def is_blind(self) -> bool:
        """Whether a slow-down would have passed that it has to see."""
        return self.smallest_detectable > self._required

    @property
    def _required(self) -> float:
        """The slow-down that it has to see: as the user says, else 10 %, or twice the limit."""
        if self.require_detect is not None:
            return self.require_detect
        return max(_BLIND, 2 * self.fail_above)

    @property
    def is_undecided(self) -> bool:
        """Whether there may be the slow-down that it has to see, and would not have seen."""
        low = self.speedup.low
        is_excluded = low is not None and low > 1 - self._required
        may_be = self.judgement in ("no measurable difference", "slower")
        return self.is_blind and may_be and not is_excluded

    @property
    def judgement(self) -> Judgement:
        """The same as the speed-up's, in the words of a check."""
        found = self.speedup.judgement
        if found == "not judged":
            return "no measurable difference"
        high = self.speedup.high or 1.0
        if found == "slower" and high < 1 - self.fail_above:
            return "regression"
        return found


def judge_regression(
    baseline: SpeedSample,
    current: SpeedSample,
    fail_above: float = DEFAULT_FAIL_ABOVE,
    require_detect: float | None = None,
) -> RegressionCheck:
    """Says whether speeds have changed since a baseline, by the rule of `judging`.

    Args:
        baseline: Speeds then, of two runs or more.
        current: Speeds now, likewise.
        fail_above: The share of the speed whose loss is no regression yet.
        require_detect: The share whose loss it has to see; None: 10 %, or twice the limit if that
            is more.
    """
    then = Runs(setup="then", speeds=baseline.samples_per_second)
    now = Runs(setup="now", speeds=current.samples_per_second)
    return RegressionCheck(
        baseline=baseline,
        current=current,
        speedup=judge_pair(then, now),
        unequal=find_differences(baseline.equals, current.equals),
        changed=find_differences(*settle_records(baseline.circumstances, current.circumstances)),
        fail_above=fail_above,
        require_detect=require_detect,
    )


def check(
    request: RunRequest,
    baselines: Mapping[str, SpeedSample],
    num_repeats: int,
    execute: Execute,
    *,
    fail_above: float = DEFAULT_FAIL_ABOVE,
    require_detect: float | None = None,
    allows_unequal: bool = False,
) -> tuple[dict[str, RegressionCheck], RunSeries]:
    """Repeats a run, and says of each baseline whether it has become slower.

    What is unequal is rejected after the first run that has a speed.

    Args:
        request: What is run.
        baselines: What its speeds are compared with, by what messages call it.
        num_repeats: How often; runs that fail are left out.
        execute: Makes one run.
        fail_above: The share of the speed whose loss is no regression yet.
        require_detect: The share whose loss it has to see; None: as of `judge_regression`.
        allows_unequal: Whether to compare all the same where something differs that must be equal.

    Raises:
        ComparisonError: It cannot be compared.
        InterruptedRunError: It was stopped on the way.
        MeasurementError: Too few runs finished.
        TfbenchError: The first run was rejected.
    """
    if not allows_unequal:
        execute = _requiring_equal(execute, baselines)
    current, series = measure_sample(request, num_repeats, execute, "nothing was judged", fewest=2)
    checks = {}
    for source, baseline in baselines.items():
        checks[source] = judge_regression(baseline, current, fail_above, require_detect)
    return checks, series


def find_deciding(checks: Mapping[str, RegressionCheck]) -> str:
    """Returns the baseline whose check is the result, since training must be slower than each.

    One that it is not slower than comes first, then one that cannot tell. Among equals, it is the
    one whose ratio has the highest upper end.
    """

    def rank(source: str) -> tuple[bool, bool, float]:
        check = checks[source]
        is_slower = check.judgement == "regression"
        high = check.speedup.high
        return not is_slower, not check.is_undecided, math.inf if high is None else high

    return max(checks, key=rank)


def _requiring_equal(execute: Execute, baselines: Mapping[str, SpeedSample]) -> Execute:
    """Lets the first run that has a speed end the series if it must not be compared."""

    def execute_checked(request: RunRequest, label: str) -> Run:
        run = execute(request, label)
        if speed := run.samples_per_second:
            sample = make_sample([(run.result, speed)], group=request.run_id)
            for source, baseline in baselines.items():
                unequal = find_differences(baseline.equals, sample.equals)
                if unequal:
                    raise ComparisonError(_describe_mismatch(source, baseline, unequal))
        return run

    return execute_checked


def _describe_mismatch(source: str, baseline: SpeedSample, unequal: Differences) -> str:
    pairs = [f"{in_words(pair.name)}: {pair.a} there, {pair.b} here" for pair in unequal]
    return (
        f"baseline {source} of {baseline.recipe}: does not match this check: {'; '.join(pairs)}."
        " Use the same settings, save a new baseline (--save FILE instead of --baseline), or"
        " compare anyway (--allow-unequal)."
    )
