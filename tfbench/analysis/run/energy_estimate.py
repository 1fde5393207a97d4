"""What a run took of energy at watts that the user gave: an estimate, of which nothing but time was measured."""

import math
import statistics

from tfbench.analysis.run.learning import time_to_accuracy_seconds
from tfbench.analysis.run.spans import steady_spans
from tfbench.records.run import RunResult


def estimate_energy(result: RunResult) -> dict[str, float]:
    """Returns the figures under their names in `METRICS`, which are no names of measured ones; none without watts."""
    watts = result.request.recipe.cost.estimated_watts
    if watts is None:
        return {}
    steady = steady_spans(result.spans, warmup_steps=result.request.recipe.measurement.warmup_steps)
    seconds = math.fsum(span.seconds for span in steady)
    values: dict[str, float] = {}
    if seconds and result.placement:
        samples = sum(span.num_steps for span in steady) * result.placement.global_batch_size
        values["estimate/energy_joules"] = watts * seconds
        values["estimate/samples_per_joule"] = samples / (watts * seconds)
    whole = [one for one in result.whole_epochs if one is not result.own_epochs[0]] or list(result.whole_epochs)
    if whole:
        each = statistics.fmean(one.epoch_seconds + (one.validation_seconds or 0.0) for one in whole)
        values["estimate/energy_joules_per_epoch"] = watts * each
    if (needed := time_to_accuracy_seconds(result)) is not None:
        values["estimate/energy_to_accuracy_joules"] = watts * needed
    return values
