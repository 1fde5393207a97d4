"""Whether a recipe has become slower.

Speeds of processes now, against those that were kept as a baseline.
"""

import dataclasses
import json
from collections.abc import Sequence
from typing import Literal

from tfbench.comparisons.blocks import Runs
from tfbench.comparisons.equality import (
    Difference,
    Differences,
    Settings,
    equal_settings,
    find_differences,
    in_words,
    is_of_code,
    name_differences,
    run_settings,
    settle_records,
)
from tfbench.comparisons.intervals import geometric_mean
from tfbench.comparisons.judging import Speedup, judge_pair
from tfbench.errors import ComparisonError
from tfbench.runs.record import RunResult
from tfbench.schema import PositiveNumber, Text, schema
from tfbench.wording import join_words

# The level of a quiet machine differs by about 2 % from one session to the next: 5 % is beyond what
# that explains.
DEFAULT_FAIL_ABOVE = 0.05
_BLIND = 0.10  # a slow-down that a check should see whatever its limit

Judgement = Literal["regression", "slower", "faster", "no measurable difference"]

# What may differ, and is said: a gate is there to show what comes of new versions and new code.
_CUDA = ("tensorflow_cuda", "tensorflow_cudnn", "jax_cuda", "torch_cuda")
_VERSIONS = (
    "tfbench",
    "tensorflow",
    "jax",
    "torch",
    "keras",
    "numpy",
    "opencv",
    "python",
    "os",
    *_CUDA,
)
_CODE = ("git_commit", "git_dirty")
_LENGTHS = tuple(
    f"measurement.{key}" for key in ("warmup_steps", "warmup_seconds", "steps", "seconds")
)


@schema
class SpeedSample:
    """Speeds of a recipe in several processes that ran alike; raw, in samples per second.

    `equals`: what another sample must have in common with it to be compared, under dotted keys.
    `circumstances`: what may differ, and is said: versions, the commit of the working tree, the
    length of the runs.
    """

    format_version: Literal[1] = 1
    recipe: Text
    created: float  # of the first run, seconds since 1970, UTC
    group: str  # of the runs
    run_ids: tuple[Text, ...]
    samples_per_second: tuple[PositiveNumber, ...]
    equals: Settings
    circumstances: Settings

    @property
    def num(self) -> int:
        """Processes that it rests on."""
        return len(self.samples_per_second)

    @property
    def speed(self) -> float:
        """Their geometric mean, of which the ratio of two samples is."""
        return geometric_mean(self.samples_per_second)


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
        if self.speedup.judgement == "slower":
            high = self.speedup.high or 1.0
            return "regression" if high < 1 - self.fail_above else "slower"
        return "faster" if self.speedup.judgement == "faster" else "no measurable difference"


def make_sample(runs: Sequence[tuple[RunResult, float]], *, group: str) -> SpeedSample:
    """Brings runs that were made alike together.

    Args:
        runs: At least one that finished, each with its samples per second.
        group: What they are called together.

    Raises:
        ComparisonError: They were not made alike.
    """
    results = [result for result, _ in runs]
    samples = [_list_equals(result) for result in results]
    unlike: list[Difference] = []
    for sample in samples[1:]:
        unlike.extend(find_differences(*settle_records(samples[0], sample)))
    if unlike:
        names = join_words(name_differences(unlike))
        raise ComparisonError(f"the runs of group {group} are not alike: they differ in {names}.")
    return SpeedSample(
        recipe=results[0].request.recipe.name,
        created=min(result.request.created for result in results),
        group=group,
        run_ids=tuple(result.request.run_id for result in results),
        samples_per_second=tuple(speed for _, speed in runs),
        equals={name: value for name, value in samples[0].items() if not is_of_code(name)},
        circumstances=_list_circumstances(results[0]),
    )


def require_equal(baseline: SpeedSample, unequal: Sequence[Difference], source: str) -> None:
    """Rejects a comparison of what is not alike.

    Args:
        baseline: What speeds were to be compared with.
        unequal: What is different now.
        source: The baseline, as the user names it.

    Raises:
        ComparisonError: Naming it, there and here.
    """
    if unequal:
        pairs = [f"{in_words(pair.name)}: {pair.a} there, {pair.b} here" for pair in unequal]
        named = "; ".join(pairs)
        raise ComparisonError(
            f"baseline {source} of {baseline.recipe}: does not match this check: {named}. Use the"
            " same settings, save a new baseline (--save FILE instead of --baseline), or compare"
            " anyway (--allow-unequal)."
        )


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


def _list_equals(result: RunResult) -> Settings:
    """Returns what must be equal, as far as the run got: devices, too, but no versions."""
    values = equal_settings(run_settings(result))
    if result.placement:
        names = ("strategy", "devices", "hardware")
        values |= {name: getattr(result.placement, name) for name in names}
    plain: Settings = json.loads(json.dumps(values))  # as it is read back from a file
    return {name: value for name, value in plain.items() if name not in _VERSIONS}


def _list_circumstances(result: RunResult) -> Settings:
    settings = run_settings(result)
    environment = result.environment
    drivers = {gpu.driver for gpu in environment.gpus} if environment else set()
    values = {name: getattr(environment, name, None) for name in (*_VERSIONS, *_CODE)}
    values["driver"] = sorted(driver for driver in drivers if driver)
    values |= {name: settings.get(name) for name in _LENGTHS}
    values |= {name: value for name, value in settings.items() if is_of_code(name) and value}
    return values
