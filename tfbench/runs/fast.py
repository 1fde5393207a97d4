"""The settings under which a recipe trains fastest on a device, found by short runs.

As asked for, then otherwise.

The speed of a small network is that of its feeding and of its calls: samples that lie on the
device, many steps a call and a compiler leave the network's own work. None of them changes the
samples of a step, or the step.
"""

import dataclasses
import math
import time
from collections.abc import Sequence
from typing import Any

from tfbench.errors import InterruptedRunError, MeasurementError
from tfbench.recipe.backend_support import ONE_STEP_A_CALL, BackendName, Compiler
from tfbench.recipe.sections import OutputConfig
from tfbench.records.run import RunRequest, RunResult
from tfbench.records.sweep import describe_configuration
from tfbench.runs.requests import new_id, series_request, with_training
from tfbench.runs.series import Execute, SeriesRun, make_runs
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
    """Returns the request with the fastest of the settings tried.

    Those may be the settings that were asked for.

    What `request.overrides` names stays as it is. Where samples cannot lie on the device, they stay
    on the host.

    Args:
        request: What is to be run.
        execute: Makes one run.
        name: Of the run; None: that of the request, and "-fast" where its settings are others.

    Raises:
        InterruptedRunError: It was stopped; the runs that were made are in the store.
        MeasurementError: The recipe as it is has no speed.
        TfbenchError: The recipe as it is was rejected.
    """
    group = new_id()
    changes: list[dict[str, Any]] = [{}]

    def next_run(done: Sequence[SeriesRun]) -> tuple[RunRequest, str] | None:
        if done and (speed := done[0].samples_per_second) and done[0].outcome:
            if len(done) == 1:
                changes.extend(_candidates(request, done[0].outcome.result, speed))
            elif len(done) == len(changes) and not any(run.samples_per_second for run in done[1:]):
                on_host = _candidates(request, done[0].outcome.result, speed, on_host=True)
                changes.extend(one for one in on_host if one not in changes)
        if len(done) == len(changes):
            return None
        tags = {GROUP_TAG: group, TRIAL_TAG: str(len(done) + 1)}
        trial = _shortened(with_training(request, **changes[len(done)]))
        label = f"trial {len(done) + 1}, {describe_configuration(changes[len(done)]) or 'as it is'}"
        return series_request(trial, suffix=f"trial{len(done) + 1}", tags=tags), label

    series = make_runs(next_run, execute)
    if series.was_interrupted:
        raise InterruptedRunError(
            f"interrupted during the search for the fastest settings; its runs are group {group}."
        )
    speeds = [run.samples_per_second for run in series.runs]
    if not speeds[0]:
        raise MeasurementError(
            "--fast: the unchanged recipe gave no speed, so there is nothing to compare (group"
            f" {group}). Try it without --fast."
        )
    best = changes[max(range(len(speeds)), key=lambda index: speeds[index] or 0.0)]
    return dataclasses.replace(
        with_training(request, **best),
        name=name or (f"{request.name}-fast" if best else request.name),
        created=time.time(),
        tags=request.tags
        | {
            FAST_TAG: group,
            AS_ASKED_TAG: repr(speeds[0]),
            CHANGED_TAG: " ".join(best),
        },
    )


def _candidates(
    request: RunRequest, result: RunResult, speed: float, *, on_host: bool = False
) -> list[dict[str, Any]]:
    """Returns what to try once a run of it as asked for, and its speed in samples/s, are known."""
    training = request.recipe.training
    placement = result.placement
    stays = "training.data_on_device" in request.overrides and not training.data_on_device
    may_lie = training.backend == "tensorflow" and request.recipe.distribution.strategy in (
        "default",
        "one_device",
    )
    on_host = on_host or stays or not may_lie  # see `recipe.conflicts`
    steps = _steps_a_call(
        request, result.steps_per_epoch or 1, speed / training.global_batch_size, on_host=on_host
    )
    place = {} if on_host else {"data_on_device": True}
    has_replicas = placement is not None and placement.num_replicas > 1
    lacks_xla = training.backend == "tensorflow" and (training.deterministic or has_replicas)
    compilers = [one for one in _COMPILERS[training.backend] if not (one == "xla" and lacks_xla)]
    return _distinct(
        request,
        [place | {"steps_per_execution": steps, "compiler": compiler} for compiler in compilers],
    )


def _steps_a_call(
    request: RunRequest, per_epoch: int, steps_per_second: float, *, on_host: bool
) -> int:
    """Returns how many steps of a call to try."""
    backend = request.recipe.training.backend
    if (
        backend in ONE_STEP_A_CALL or backend == "jax"
    ):  # where Keras does the steps of a call one by one
        return 1
    most = min(
        steps_per_second * _EXECUTION_SECONDS,
        _num_steps(request, per_epoch, steps_per_second) / _MIN_CALLS,
    )
    # On the host a call is not cut short: what does not divide an epoch would make it longer.
    sizes = (
        [size for size in range(1, _MAX_STEPS + 1) if per_epoch % size == 0] if on_host else _SIZES
    )
    return max(size for size in sizes if size <= max(1.0, min(most, per_epoch)))


def _num_steps(request: RunRequest, per_epoch: int, steps_per_second: float) -> float:
    """Returns how many steps the run itself would have after its warm-up, as asked for."""
    measurement = request.recipe.measurement
    if not measurement.is_limited:
        return request.recipe.training.epochs * per_epoch - measurement.warmup_steps
    return min(measurement.steps or math.inf, (measurement.seconds or math.inf) * steps_per_second)


def _distinct(request: RunRequest, wanted: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the distinct changes to settings that the user has not set.

    Values that the request has already are left out.
    """
    training = request.recipe.training
    found = []
    training = dataclasses.replace(training, compiler=training.compiler_used)
    for changes in wanted:
        kept = {
            key: value
            for key, value in changes.items()
            if f"training.{key}" not in request.overrides and getattr(training, key) != value
        }
        if kept and kept not in found:
            found.append(kept)
    return found


def _shortened(request: RunRequest) -> RunRequest:
    """Returns a request for a short run, which leaves nothing but its speed."""
    recipe = request.recipe
    measurement = dataclasses.replace(
        recipe.measurement, steps=None, seconds=TRIAL_SECONDS, checks=False
    )
    return dataclasses.replace(
        request, recipe=dataclasses.replace(recipe, measurement=measurement, output=OutputConfig())
    )
