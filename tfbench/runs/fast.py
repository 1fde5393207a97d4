"""The settings under which a recipe trains fastest on a device, found by short runs.

The first trial has the settings that were asked for, the others have different ones.

The speed of a small network is that of its feeding and of its calls: samples that lie on the
device, many steps a call and a compiler leave the network's own work. None of them changes the
samples of a step, or the step.
"""

import dataclasses
import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

from tfbench.errors import InterruptedRunError, MeasurementError
from tfbench.recipe.backend_support import ONE_STEP_A_CALL, BackendName, Compiler
from tfbench.recipe.sections import OutputConfig
from tfbench.runs.record import RunRequest, RunResult
from tfbench.runs.repeat import Execute, SeriesRun, make_runs
from tfbench.runs.requests import new_id, series_request, with_training
from tfbench.sweeps.plan import describe_configuration
from tfbench.tags import AS_ASKED_TAG, CHANGED_TAG, FAST_TAG, GROUP_TAG, TRIAL_TAG

TRIAL_SECONDS = 2.0  # of each run, after its warm-up
# A call of so many steps as take this long as asked for: what a call costs is then lost in it, and
# progress still seen.
_EXECUTION_SECONDS = 0.2
_MAX_STEPS = 1000
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, _MAX_STEPS)
_MIN_CALLS = 10  # of the run itself after its warm-up: its speed and its spread rest on them
# Which may make a step faster than the one asked for; on JAX nothing does without a compiler.
_COMPILERS: dict[BackendName, tuple[Compiler, ...]] = {
    "tensorflow": ("xla", "graph"),
    "jax": ("xla",),
    "torch": ("inductor", "eager"),
}


def find_fastest(request: RunRequest, execute: Execute, *, name: str | None = None) -> RunRequest:
    """Returns the request with the fastest of the settings tried, maybe those asked for.

    What `request.overrides` names stays as it is. Where samples cannot lie on the device, they stay
    on the host.

    Args:
        request: What is to be run.
        execute: Makes one run.
        name: Of the run; None: that of the request, with "-fast" where other settings are faster.

    Raises:
        InterruptedRunError: It was stopped; the runs that were made are in the store.
        MeasurementError: The recipe as it is has no speed.
        TfbenchError: The recipe as it is was rejected.
    """
    group = new_id()
    changes: list[dict[str, Any]] = [{}]

    def next_run(done: Sequence[SeriesRun]) -> tuple[RunRequest, str] | None:
        changes.extend(_find_more(request, done, changes))
        if len(done) == len(changes):
            return None
        number = len(done) + 1
        settings = changes[len(done)]
        tags = {GROUP_TAG: group, TRIAL_TAG: str(number)}
        trial = _shortened(with_training(request, **settings))
        label = f"trial {number}, {describe_configuration(settings) or 'as it is'}"
        return series_request(trial, suffix=f"trial{number}", tags=tags), label

    series = make_runs(next_run, execute)
    if series.was_interrupted:
        raise InterruptedRunError(
            f"interrupted during the search for the fastest settings; its runs are group {group}."
        )
    speeds = [run.samples_per_second or 0.0 for run in series.runs]
    if not speeds[0]:
        first = series.runs[0]
        reason = first.outcome.reason if first.outcome else first.rejection
        raise MeasurementError(
            "--fast: the unchanged recipe gave no speed, so there is nothing to compare (group"
            f" {group}). {reason}"
        )
    best = changes[speeds.index(max(speeds))]
    default_name = f"{request.name}-fast" if best else request.name
    return dataclasses.replace(
        with_training(request, **best),
        name=name or default_name,
        created=time.time(),
        tags=request.tags
        | {FAST_TAG: group, AS_ASKED_TAG: repr(speeds[0]), CHANGED_TAG: " ".join(best)},
    )


def _find_more(
    request: RunRequest, done: Sequence[SeriesRun], tried: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Returns what else to try: after the first run, and where all others had no speed."""
    speed = done[0].samples_per_second if done else None
    if not speed or not done[0].outcome:
        return []
    result = done[0].outcome.result
    others = done[1:]
    if others and (len(done) < len(tried) or any(run.samples_per_second for run in others)):
        return []
    candidates = _candidates(request, result, speed, on_host=bool(others))
    return [settings for settings in candidates if settings not in tried]


def _candidates(
    request: RunRequest, result: RunResult, speed: float, *, on_host: bool
) -> list[dict[str, Any]]:
    """Returns what to try.

    Args:
        request: As asked for.
        result: Of a run of it.
        speed: Of that run, in samples/s.
        on_host: Whether samples stay on the host in any case.
    """
    training = request.recipe.training
    placement = result.placement
    data = result.dataset
    is_tensorflow = training.backend == "tensorflow"
    is_set_off = "training.data_on_device" in request.overrides and not training.data_on_device
    is_set_off |= "training.feed" in request.overrides and training.feed == "fit"
    is_set_off |= training.changes_pipeline
    is_local = request.recipe.distribution.strategy in ("default", "one_device")
    on_host = on_host or is_set_off or not (is_tensorflow and is_local)  # see `recipe.conflicts`
    steps_per_second = speed / training.global_batch_size
    common: dict[str, Any] = {}
    per_epoch = result.steps_per_epoch or 1
    if training.feed == "fit" and data and not data.has_own_batches:
        common["feed"] = "pipeline"
        per_epoch = math.ceil(data.train_samples / training.global_batch_size)
    steps = _steps_a_call(request, per_epoch, steps_per_second, on_host=on_host)
    if not on_host:
        common["data_on_device"] = True
    common["steps_per_execution"] = steps
    compilers = list(_COMPILERS[training.backend])
    has_replicas = placement is not None and placement.num_replicas > 1
    if is_tensorflow and (training.deterministic or has_replicas):
        compilers.remove("xla")
    return _distinct(request, [common | {"compiler": compiler} for compiler in compilers])


def _steps_a_call(
    request: RunRequest, per_epoch: int, steps_per_second: float, *, on_host: bool
) -> int:
    """Returns how many steps of a call to try."""
    backend = request.recipe.training.backend
    if backend in ONE_STEP_A_CALL or backend == "jax":  # Keras does its steps one by one there
        return 1
    # As the run itself would have after its warm-up.
    measurement = request.recipe.measurement
    num_steps: float = request.recipe.training.epochs * per_epoch - measurement.warmup_steps
    if measurement.is_limited:
        limit_seconds = measurement.seconds or math.inf
        num_steps = min(measurement.steps or math.inf, limit_seconds * steps_per_second)
    most = min(steps_per_second * _EXECUTION_SECONDS, num_steps / _MIN_CALLS, per_epoch)
    sizes: Iterable[int] = _SIZES
    if on_host:
        # There a call is not cut short: what does not divide an epoch would make it longer.
        sizes = [size for size in range(1, _MAX_STEPS + 1) if per_epoch % size == 0]
    return max(size for size in sizes if size <= max(1.0, most))


def _distinct(request: RunRequest, wanted: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the distinct changes to settings that the user has not set.

    It leaves out values that the request has already.
    """
    training = request.recipe.training
    training = dataclasses.replace(training, compiler=training.compiler_used)
    distinct = []
    for changes in wanted:
        kept = {}
        for key, value in changes.items():
            is_set = f"training.{key}" in request.overrides
            if not is_set and getattr(training, key) != value:
                kept[key] = value
        if kept and kept not in distinct:
            distinct.append(kept)
    return distinct


def _shortened(request: RunRequest) -> RunRequest:
    """Returns a request for a short run, which leaves nothing but its speed."""
    recipe = request.recipe
    measurement = dataclasses.replace(
        recipe.measurement, steps=None, seconds=TRIAL_SECONDS, checks=False
    )
    return dataclasses.replace(
        request, recipe=dataclasses.replace(recipe, measurement=measurement, output=OutputConfig())
    )
