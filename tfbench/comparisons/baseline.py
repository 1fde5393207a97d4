"""Baselines: speeds kept in a file, and a recipe that is compared with them."""

import dataclasses
import json
import os
from pathlib import Path

from tfbench.comparisons.equality import find_differences
from tfbench.comparisons.regression import (
    DEFAULT_FAIL_ABOVE,
    RegressionCheck,
    SpeedSample,
    judge_regression,
    make_sample,
    require_equal,
)
from tfbench.errors import InterruptedRunError, MeasurementError, RecipeError, TrackingError
from tfbench.recipe.backend_support import PREFETCHED_BATCHES
from tfbench.runs.record import RunRequest
from tfbench.runs.repeat import Execute, RepeatPlan, RunSeries, repeat_run
from tfbench.runs.stored_run import Run
from tfbench.schema import build, read_json, to_plain
from tfbench.store.whole_files import is_stream, write_output


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
    if is_stream(path):
        return
    if path.is_dir():
        why = "it is a folder"
    elif os.access(path.parent, os.W_OK | os.X_OK):
        return
    else:
        why = f"folder {path.parent} is not there, or cannot be written to"
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
    baseline: SpeedSample,
    source: str,
    num_repeats: int,
    execute: Execute,
    *,
    fail_above: float = DEFAULT_FAIL_ABOVE,
    require_detect: float | None = None,
    allows_unequal: bool = False,
) -> tuple[RegressionCheck, RunSeries]:
    """Repeats a run, and says whether it has become slower.

    What is unequal is rejected after the first run that has a speed.

    Args:
        request: What is run.
        baseline: What its speeds are compared with.
        source: What messages call that.
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
        execute = _requiring_equal(execute, baseline, source)
    current, series = _measure(request, num_repeats, execute, "nothing was judged", fewest=2)
    return judge_regression(baseline, current, fail_above, require_detect), series


def _requiring_equal(execute: Execute, baseline: SpeedSample, source: str) -> Execute:
    """Lets the first run that has a speed end the series if it must not be compared."""

    def execute_checked(request: RunRequest, label: str) -> Run:
        run = execute(request, label)
        if speed := run.samples_per_second:
            sample = make_sample([(run.result, speed)], group=request.run_id)
            require_equal(baseline, find_differences(baseline.equals, sample.equals), source)
        return run

    return execute_checked


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
