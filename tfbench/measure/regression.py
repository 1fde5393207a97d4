"""Whether a recipe has become slower: speeds of processes now, against those that were kept as a baseline."""

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tfbench.errors import ComparisonError
from tfbench.measure.difference import Difference, equal_values, flatten, is_above
from tfbench.measure.intervals import CONFIDENCE, compare_unpaired, geometric_mean
from tfbench.measure.noise import NoiseKey, noise_key
from tfbench.results import RunRequest, RunResult
from tfbench.schema import PositiveNumber, Text, schema

FORMAT_VERSION: Literal[1] = 1

Judgement = Literal["regression", "faster", "no measurable difference"]

# What may differ, and is said: a gate is there to show what comes of new versions and new code.
_VERSIONS = ("tfbench", "tensorflow", "keras", "numpy", "python", "os", "tensorflow_cuda", "tensorflow_cudnn")
_CODE = ("git_commit", "git_dirty")
_LENGTHS = ("warmup_steps", "steps", "seconds")
_TOO_FEW = "one run says nothing of chance, unless the noise floor is known: `tfbench calibrate {}` measures it."


@schema
class SpeedSample:
    """Speeds of a recipe in several processes that ran alike; raw, in samples per second.

    `equals`: what another sample must have in common with it to be compared, under dotted keys. `circumstances`: what
    may differ, and is said: versions, the commit of the working tree, the length of the runs.
    """

    format_version: Literal[1] = FORMAT_VERSION
    recipe: Text
    created: float  # of the first run, seconds since 1970, UTC
    group: str  # of the runs
    run_ids: tuple[Text, ...]
    samples_per_second: tuple[PositiveNumber, ...]
    equals: dict[str, Any]
    circumstances: dict[str, Any]
    noise_key: NoiseKey

    def __post_init__(self) -> None:
        if not self.samples_per_second or len(self.samples_per_second) != len(self.run_ids):
            raise ValueError(
                "a sample needs one speed of each run, and at least one. "
                f"Received: {len(self.samples_per_second)} of {len(self.run_ids)} runs."
            )

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

    `ratio` is that of the geometric means, now over then; without `low` and `high` one of them is a single run.
    `noise_limit` is the relative difference that noise hides; None: not calibrated.
    """

    baseline: SpeedSample
    current: SpeedSample
    ratio: float
    low: float | None
    high: float | None
    method: str | None
    noise_limit: float | None
    judgement: Judgement
    unequal: tuple[Difference, ...]  # although it must be equal
    changed: tuple[Difference, ...]  # of the circumstances
    confidence: float = CONFIDENCE

    @property
    def excludes_one(self) -> bool:
        """Whether the speeds differ by more than chance explains."""
        return self.low is not None and self.high is not None and not self.low <= 1.0 <= self.high


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
    unlike = sorted({one.name for other in samples[1:] for one in _find_differences(samples[0], other)})
    if unlike:
        raise ComparisonError(f"the runs of group {group} are not alike: they differ in {', '.join(unlike)}.")
    key = noise_key(results[0])
    if key is None:
        raise ComparisonError(f"run {results[0].request.run_id}: its machine and its devices are not known.")
    return SpeedSample(
        recipe=results[0].request.recipe.name,
        created=min(result.request.created for result in results),
        group=group,
        run_ids=tuple(result.request.run_id for result in results),
        samples_per_second=tuple(speed for _, speed in runs),
        equals=samples[0],
        circumstances=_list_circumstances(results[0]),
        noise_key=key,
    )


def find_unequal(baseline: SpeedSample, current: SpeedSample) -> tuple[Difference, ...]:
    """Returns what two samples differ in although it must be equal.

    What only one of them knows of counts where both are of one version of tfbench; another version may know of more.
    """
    is_one_version = baseline.circumstances.get("tfbench") == current.circumstances.get("tfbench")
    found = _find_differences(baseline.equals, current.equals)
    known = baseline.equals.keys() & current.equals.keys()
    return tuple(one for one in found if is_one_version or one.name in known)


def find_unequal_request(baseline: SpeedSample, request: RunRequest) -> tuple[Difference, ...]:
    """Returns what is seen to be unequal before anything is run: model, data and training of the recipe."""
    values = _list_recipe_equals(RunResult(request=request)) | {"strategy": request.recipe.distribution.strategy}
    known = {name: value for name, value in baseline.equals.items() if name in values}
    return _find_differences(known, {name: value for name, value in values.items() if name in known})


def require_equal(baseline: SpeedSample, unequal: Sequence[Difference], source: str) -> None:
    """Refuses a comparison of what is not alike.

    Args:
        baseline: What speeds were to be held against.
        unequal: What is different now.
        source: The baseline, as the user names it.

    Raises:
        ComparisonError: Naming it, there and here.
    """
    if unequal:
        named = "; ".join(f"{one.name}: {one.a} there, {one.b} here" for one in unequal)
        raise ComparisonError(
            f"baseline {source} of {baseline.recipe}: cannot be compared with this, since what must be equal is not. "
            f"{named}. Make both alike, make a new baseline here (--save), or compare all the same (--allow-unequal)."
        )


def require_enough(num_runs: int, noise_limit: float | None, recipe: str, source: str) -> None:
    """Refuses a comparison that has too few runs to say anything.

    Args:
        num_runs: On the side that has fewer.
        noise_limit: The relative difference that noise hides, if it is known.
        recipe: What is run.
        source: What has so few runs, for the message.

    Raises:
        ComparisonError: It is one run, and the noise floor is not known.
    """
    if num_runs < 2 and noise_limit is None:
        raise ComparisonError(f"{source}: {_TOO_FEW.format(recipe)}")


def judge(baseline: SpeedSample, current: SpeedSample, noise_limit: float | None) -> RegressionCheck:
    """Says whether speeds have changed since a baseline: by more than chance explains, and than noise hides.

    Args:
        baseline: Speeds then.
        current: Speeds now.
        noise_limit: The relative difference that noise hides; None: not known.

    Raises:
        ComparisonError: One of them is a single run, and the noise floor is not known.
    """
    require_enough(min(baseline.num, current.num), noise_limit, current.recipe, "a comparison with a single run")
    found = compare_unpaired(baseline.samples_per_second, current.samples_per_second)
    ratio = math.exp(_mean_log(current) - _mean_log(baseline))
    judgement: Judgement = "no measurable difference"
    if (found is None or found.excludes_one) and is_above(ratio, noise_limit or 0.0):
        judgement = "faster" if ratio > 1 else "regression"
    return RegressionCheck(
        baseline=baseline,
        current=current,
        ratio=ratio,
        low=found.low if found else None,
        high=found.high if found else None,
        method=found.method if found else None,
        noise_limit=noise_limit,
        judgement=judgement,
        unequal=find_unequal(baseline, current),
        changed=_find_differences(baseline.circumstances, current.circumstances),
    )


def _mean_log(sample: SpeedSample) -> float:
    return statistics.fmean(math.log(speed) for speed in sample.samples_per_second)


def _find_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Difference, ...]:
    return tuple(
        Difference(name=name, a=a.get(name), b=b.get(name)) for name in {**a, **b} if a.get(name) != b.get(name)
    )


def _list_equals(result: RunResult) -> dict[str, Any]:
    """Returns what must be equal, beside the recipe's: settings in effect, machine and devices, but no versions."""
    values = equal_values(result)
    values = _list_recipe_equals(result) | (values["settings"] or {}) | (values["environment"] or {})
    if result.placement:
        values |= {name: getattr(result.placement, name) for name in ("strategy", "devices", "hardware")}
    plain: dict[str, Any] = json.loads(json.dumps(values))  # as it is read back from a file
    return {name: value for name, value in plain.items() if name not in _VERSIONS}


def _list_recipe_equals(result: RunResult) -> dict[str, Any]:
    values = equal_values(result)
    kept = {name: value for name, value in values.items() if name not in ("settings", "environment", "device_kinds")}
    plain: dict[str, Any] = json.loads(json.dumps(flatten(kept)))
    return plain


def _list_circumstances(result: RunResult) -> dict[str, Any]:
    measurement = result.request.recipe.measurement
    values = {name: getattr(result.environment, name, None) for name in (*_VERSIONS, *_CODE)}
    drivers = sorted({gpu.driver for gpu in result.environment.gpus if gpu.driver}) if result.environment else []
    return values | {"driver": drivers} | {f"measurement.{name}": getattr(measurement, name) for name in _LENGTHS}
