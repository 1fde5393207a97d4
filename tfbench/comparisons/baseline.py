"""Whether a recipe has become slower.

Speeds of processes now, against those that were kept in a file as a baseline.
"""

import dataclasses
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
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
from tfbench.errors import (
    ComparisonError,
    InterruptedRunError,
    MeasurementError,
    RecipeError,
    TrackingError,
)
from tfbench.recipe.backend_support import PREFETCHED_BATCHES
from tfbench.runs.record import RunRequest, RunResult
from tfbench.runs.repeat import Execute, RepeatPlan, RunSeries, repeat_run
from tfbench.runs.stored_run import Run
from tfbench.schema import PositiveNumber, Text, build, read_json, schema, to_plain
from tfbench.store.whole_files import is_stream, write_output
from tfbench.wording import join_words

# The level of a quiet machine differs by about 2 % from one session to the next: 5 % is beyond what
# that explains.
DEFAULT_FAIL_ABOVE = 0.05
_BLIND = 0.10  # a slow-down that a check should see whatever its limit

Judgement = Literal["regression", "slower", "faster", "no measurable difference"]

# What may differ, and is said: a gate is there to show what comes of new versions and new code.
_CUDA = ("tensorflow_cuda", "tensorflow_cudnn", "jax_cuda", "torch_cuda")
_PROGRAMS = ("tfbench", "tensorflow", "jax", "torch", "keras", "numpy", "opencv")
_VERSIONS = (*_PROGRAMS, "python", "os", *_CUDA)
_CODE = ("git_commit", "git_dirty")
_LENGTHS = (
    "measurement.warmup_steps",
    "measurement.warmup_seconds",
    "measurement.steps",
    "measurement.seconds",
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
        found = self.speedup.judgement
        if found == "not judged":
            return "no measurable difference"
        high = self.speedup.high or 1.0
        if found == "slower" and high < 1 - self.fail_above:
            return "regression"
        return found


def make_sample(runs: Sequence[tuple[RunResult, float]], *, group: str) -> SpeedSample:
    """Brings runs that were made alike together.

    Args:
        runs: At least one that finished, each with its samples per second.
        group: What they are called together.

    Raises:
        ComparisonError: They were not made alike.
    """
    first, *others = [result for result, _ in runs]
    equals = _list_equals(first)
    unlike: list[Difference] = []
    for result in others:
        unlike += find_differences(*settle_records(equals, _list_equals(result)))
    if unlike:
        names = join_words(name_differences(unlike))
        raise ComparisonError(f"the runs of group {group} are not alike: they differ in {names}.")
    return SpeedSample(
        recipe=first.request.recipe.name,
        created=min(result.request.created for result, _ in runs),
        group=group,
        run_ids=tuple(result.request.run_id for result, _ in runs),
        samples_per_second=tuple(speed for _, speed in runs),
        equals={name: value for name, value in equals.items() if not is_of_code(name)},
        circumstances=_list_circumstances(first),
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
        for name in ("strategy", "devices", "hardware"):
            values[name] = getattr(result.placement, name)
    for name in _VERSIONS:
        values.pop(name, None)
    plain: Settings = json.loads(json.dumps(values))  # as it is read back from a file
    return plain


def _list_circumstances(result: RunResult) -> Settings:
    environment = result.environment
    values: Settings = {name: getattr(environment, name, None) for name in (*_VERSIONS, *_CODE)}
    gpus = environment.gpus if environment else ()
    values["driver"] = sorted({gpu.driver for gpu in gpus if gpu.driver})
    settings = run_settings(result)
    for name in _LENGTHS:
        values[name] = settings.get(name)
    for name, value in settings.items():
        if value and is_of_code(name):
            values[name] = value
    return values


def read_baseline(path: Path) -> SpeedSample:
    """Reads what `write_baseline` wrote.

    Raises:
        TrackingError: The file cannot be read, or is no baseline.
    """
    try:
        sample: SpeedSample = build(SpeedSample, read_json(path.read_bytes()), path.name)
        if sample.num < 2:  # which do not show how much runs vary
            raise RecipeError("samples_per_second: must hold two or more")
    except OSError as error:
        hint = ""
        if isinstance(error, FileNotFoundError):
            hint = f" To make it, use --save {path} instead of --baseline."
        raise TrackingError(f"baseline {path}: cannot be read: {error.strerror}.{hint}") from error
    except (ValueError, RecipeError) as error:
        problem = str(error).rstrip(".")
        raise TrackingError(
            f"baseline {path}: is not a baseline of this version of tfbench: {problem}. To make"
            " one, use --save FILE instead of --baseline."
        ) from error
    # Of a version that had one way to make batches.
    equals = {"feed": "pipeline", "prefetched_batches": PREFETCHED_BATCHES, **sample.equals}
    return dataclasses.replace(sample, equals=equals)


def write_baseline(path: Path, sample: SpeedSample) -> None:
    """Writes a baseline, whole or not at all.

    It replaces a file that is there, but neither a pipe nor a device.

    Raises:
        TrackingError: It cannot be written; the runs are in the store all the same.
    """
    try:
        write_output(path, json.dumps(to_plain(sample), indent=2) + "\n")
    except OSError as error:
        raise TrackingError(
            f"{path}: cannot be written: {error.strerror}. The runs are in the store."
        ) from error


def require_place(path: Path) -> None:
    """Checks before minutes are spent that a baseline can be written there.

    Raises:
        TrackingError: Its folder is not there or cannot be written to, or it is a folder itself.
    """
    why = ""
    if path.is_dir():
        why = "it is a folder"
    elif not is_stream(path) and not os.access(path.parent, os.W_OK | os.X_OK):
        why = f"folder {path.parent} is not there, or cannot be written to"
    if why:
        raise TrackingError(f"--save {path}: {why}. Name a file, for example baseline.json.")


def make_baseline(
    request: RunRequest, num_repeats: int, execute: Execute
) -> tuple[SpeedSample, RunSeries]:
    """Repeats a run, and returns the speeds.

    Args:
        request: What is run.
        num_repeats: How often; all of them must finish.
        execute: Makes one run.

    Raises:
        InterruptedRunError: It was stopped on the way.
        MeasurementError: A run failed.
        TfbenchError: The first run was rejected.
    """
    return _measure(request, num_repeats, execute, "no baseline was saved", fewest=num_repeats)


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
    current, series = _measure(request, num_repeats, execute, "nothing was judged", fewest=2)
    checks = {}
    for source, baseline in baselines.items():
        checks[source] = judge_regression(baseline, current, fail_above, require_detect)
    return checks, series


def find_deciding(checks: Mapping[str, RegressionCheck]) -> str:
    """Returns the baseline whose check is the result, since training must be slower than each."""

    def rank(source: str) -> tuple[bool, bool, float]:
        check = checks[source]
        is_regression = check.judgement == "regression"  # one that is none comes first
        return not is_regression, not check.is_undecided, check.speedup.high or math.inf

    return max(checks, key=rank)


def _requiring_equal(execute: Execute, baselines: Mapping[str, SpeedSample]) -> Execute:
    """Lets the first run that has a speed end the series if it must not be compared."""

    def execute_checked(request: RunRequest, label: str) -> Run:
        run = execute(request, label)
        if speed := run.samples_per_second:
            sample = make_sample([(run.result, speed)], group=request.run_id)
            for source, baseline in baselines.items():
                if unequal := find_differences(baseline.equals, sample.equals):
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


def _measure(
    request: RunRequest, num: int, execute: Execute, consequence: str, *, fewest: int
) -> tuple[SpeedSample, RunSeries]:
    """Repeats a run, and returns the speeds of those that finished, `fewest` at least."""
    summary, series = repeat_run(request, RepeatPlan(num=num, max_num=num), execute)
    stored = f"The runs are stored as group {summary.group}."
    if series.was_interrupted:
        raise InterruptedRunError(
            f"interrupted after {len(series.runs)} of {num} runs; {consequence}. {stored}"
        )
    speeds = []
    for run in series.outcomes:
        if speed := run.samples_per_second:
            speeds.append((run.result, speed))
    if len(speeds) < fewest:
        why = " ".join([f"{consequence}.", *dict.fromkeys(summary.rejections), stored])
        raise MeasurementError(
            f"only {len(speeds)} of {len(series.runs)} runs finished with a speed; {why}"
        )
    return make_sample(speeds, group=summary.group), series
