"""Speeds of a recipe in several processes, kept in a file as a baseline."""

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tfbench.comparisons.equality import (
    Difference,
    Settings,
    equal_settings,
    find_differences,
    is_of_code,
    name_differences,
    run_settings,
    settle_records,
)
from tfbench.comparisons.intervals import geometric_mean
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
from tfbench.schema import PositiveNumber, Text, build, read_json, schema, to_plain
from tfbench.store.whole_files import is_stream, write_output
from tfbench.wording import join_words

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
    return measure_sample(
        request, num_repeats, execute, "no baseline was saved", fewest=num_repeats
    )


def measure_sample(
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
