"""How long a step may take, before one is done: for a training that may take days."""

import os

from tfbench.backends.device_choice import Placed
from tfbench.backends.peak import measure_peak
from tfbench.runs.record import ModelSummary, RunRequest
from tfbench.tags import DRY_RUN_TAG, SWEEP_TAG

# FLOP per second of a core that computes as fast as any, and of a run that is soon over.
_CORE_FLOPS = 1e11
_SOON_SECONDS = 60.0
_PEAK_SECONDS = 0.2  # of measuring
# Of that peak. Networks of convolutions and wide products were seen to reach 0.2 to 0.6 of it.
_USED_SHARE = 0.35
_LEAST_STEP_SECONDS = 1e-3  # that Keras and its callbacks take on any CPU, roughly
_WARMUP_STEPS = 3  # of a run that is limited by time and whose steps are long


def guess_step_seconds(
    request: RunRequest, model: ModelSummary, placed: Placed, steps_per_epoch: int | None
) -> float | None:
    """Returns the seconds of a step, from its operations and what a CPU can do.

    None where nobody waits long or asked for it, or where GPUs compute or the operations are not
    known.
    """
    recipe = request.recipe
    measurement = recipe.measurement
    if request.profile or SWEEP_TAG in request.tags:
        return None
    num_steps = recipe.training.epochs * (steps_per_epoch or 1)
    if measurement.is_limited:
        num_steps = _WARMUP_STEPS + (measurement.steps or 1)
    flops = model.training_flops_per_sample
    is_of_cpus = all(name.startswith("cpu") for name in placed.placement.devices)
    if flops is None or not is_of_cpus or placed.placement.num_workers > 1:
        return None
    step_flops = flops * recipe.training.global_batch_size
    num_cores = len(os.sched_getaffinity(0))
    is_soon_over = num_steps * step_flops < _SOON_SECONDS * _CORE_FLOPS * num_cores
    if is_soon_over and DRY_RUN_TAG not in request.tags:
        return None
    try:
        peak = measure_peak(placed.device_names, recipe.training.precision, seconds=_PEAK_SECONDS)
    except Exception:  # of a framework: the run goes on, and meets it again if it matters
        return None
    return max(_LEAST_STEP_SECONDS, step_flops / (_USED_SHARE * peak.flops_per_second))
