"""The settings under which a recipe trains fastest on a device, found by short runs: as asked for, then otherwise.

The speed of a small network is that of its feeding and of its calls: samples that lie on the device, many steps a call
and a compiler leave the network's own work. None of them changes the samples of a step, or the step.
"""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tfbench.errors import InterruptedRunError, MeasurementError
from tfbench.recipe.sections import OutputConfig
from tfbench.records.fast import AS_ASKED_TAG, FAST_TAG, TRIAL_TAG
from tfbench.records.run import RunRequest, RunResult
from tfbench.runs.requests import new_id, series_request
from tfbench.runs.series import Execute, SeriesRun, run_series

TRIAL_SECONDS = 2.0  # of each run, after its warm-up
# A call of so many steps as take this long as asked for: what a call costs is then lost in it, and progress still seen.
_EXECUTION_SECONDS = 0.2
_MAX_STEPS = 1000


def find_fastest(request: RunRequest, execute: Execute) -> RunRequest:
    """Returns the same request under the fastest of the settings tried, which may be those asked for.

    What `request.overrides` names stays as it is. Where samples cannot lie on the device, they stay on the host.

    Args:
        request: What is to be run.
        execute: Makes one run.

    Raises:
        InterruptedRunError: It was stopped; the runs that were made are in the store.
        MeasurementError: The recipe as it is has no speed.
        TfbenchError: The recipe as it is was refused.
    """
    group = new_id()
    changes: list[dict[str, Any]] = [{}]

    def next_run(done: Sequence[SeriesRun]) -> tuple[RunRequest, str] | None:
        if len(done) == 1 and done[0].outcome and (speed := done[0].samples_per_second):
            changes.extend(_candidates(request, done[0].outcome.result, speed))
        if len(done) == len(changes) and len(done) > 1 and not any(run.samples_per_second for run in done[1:]):
            changes.extend(one for one in _on_the_host(changes) if one not in changes)
        if len(done) == len(changes):
            return None
        label = f"trial {len(done) + 1} of {max(3, len(changes))}, {_describe(changes[len(done)])}"
        tags = {"tfbench.group": group, TRIAL_TAG: str(len(done) + 1)}
        trial = _shortened(_with(request, changes[len(done)]))
        return series_request(trial, suffix=f"trial{len(done) + 1}", tags=tags), label

    series = run_series(next_run, execute)
    if series.was_interrupted:
        raise InterruptedRunError(
            f"interrupted while the fastest settings were looked for; the runs are group {group}."
        )
    speeds = [run.samples_per_second for run in series.runs]
    if not speeds[0]:
        raise MeasurementError(
            f"--fast: the recipe as it is came to no speed, so that nothing can be held against it; the run is group "
            f"{group}. Try it without --fast."
        )
    best = max(range(len(speeds)), key=lambda index: speeds[index] or 0.0)
    tags = {FAST_TAG: group, AS_ASKED_TAG: repr(speeds[0])}
    found = _with(request, changes[best])
    return dataclasses.replace(found, name=f"{request.name}-fast", created=time.time(), tags=request.tags | tags)


def _describe(changes: Mapping[str, Any]) -> str:
    words = {
        "data_on_device": "on the device",
        "steps_per_execution": f"{changes.get('steps_per_execution')} steps a call",
        "jit_compile": "XLA" if changes.get("jit_compile") else "no XLA",
    }
    return ", ".join(words[key] for key in changes) or "as it is"


def _candidates(request: RunRequest, result: RunResult, speed: float) -> list[dict[str, Any]]:
    """Returns what to try once a run of it as asked for, and its speed in samples/s, are known."""
    steps_per_second = speed / request.recipe.training.global_batch_size
    steps = min(_round_down(steps_per_second * _EXECUTION_SECONDS), result.steps_per_epoch or 1)
    several = result.placement is not None and result.placement.num_replicas > 1
    wanted: list[dict[str, Any]] = (
        [{"steps_per_execution": steps}]
        if several  # neither XLA nor samples on the device: see `recipe.devices`
        else [
            {"data_on_device": True, "steps_per_execution": steps, "jit_compile": True},
            {"data_on_device": True, "steps_per_execution": steps, "jit_compile": False},
        ]
    )
    return _distinct(request, wanted)


def _on_the_host(changes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in one.items() if key != "data_on_device"} for one in changes[1:]]


def _distinct(request: RunRequest, wanted: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns of each what is neither set by the user nor so already, without those that are the same then."""
    training, found = request.recipe.training, []
    for changes in wanted:
        kept = {
            key: value
            for key, value in changes.items()
            if f"training.{key}" not in request.overrides and getattr(training, key) != value
        }
        if kept and kept not in found:
            found.append(kept)
    return found


def _round_down(number: float) -> int:
    """Returns the largest of 1, 2, 5, 10, 20, ... that is no more than a number, and no more than most steps."""
    sizes = (1, 2, 5, 10, 20, 50, 100, 200, 500, _MAX_STEPS)
    return max(size for size in sizes if size <= max(1.0, number))


def _with(request: RunRequest, changes: Mapping[str, Any]) -> RunRequest:
    recipe = request.recipe
    training = dataclasses.replace(recipe.training, **changes)
    keys = (f"training.{key}" for key in changes)
    return dataclasses.replace(
        request,
        recipe=dataclasses.replace(recipe, training=training),
        overrides=tuple(dict.fromkeys((*request.overrides, *keys))),
    )


def _shortened(request: RunRequest) -> RunRequest:
    """Returns a request for a short run, which leaves nothing but its speed."""
    recipe = request.recipe
    measurement = dataclasses.replace(recipe.measurement, steps=None, seconds=TRIAL_SECONDS, checks=False)
    return dataclasses.replace(
        request, recipe=dataclasses.replace(recipe, measurement=measurement, output=OutputConfig())
    )
