"""What a training is held against once it is over: its input pipeline alone, and what its devices compute at most."""

import time

from tfbench import backends
from tfbench.analysis.run.warnings import MAX_OTHER_SHARE
from tfbench.backends.peak import Sizes, measure_peak
from tfbench.records.journal import plain_fields
from tfbench.records.machine import InputCheck
from tfbench.records.run import ModelSummary
from tfbench.worker.prepared import Prepared

_INPUT_SECONDS = 0.5  # of drawing from the input pipeline alone, at least: a rate that it can keep up
_PEAK_SECONDS = (1.0, 4.0)  # for matrix products, and once more where they were slower than the training


def check_limits(prepared: Prepared, steps_per_second: float | None) -> None:
    """Measures what the training is held against: its input pipeline alone, and what its devices compute at most.

    Of several workers, the devices of others are not measured, so that there is no peak of all.
    """
    training, model, journal = prepared.training, prepared.summary, prepared.journal
    has_pipeline = not training.data_on_device
    has_peak = prepared.resolved.placement.num_workers == 1 and model.training_flops_per_sample is not None
    journal.append("stage", name=f"checking {'the input pipeline and ' if has_pipeline else ''}the devices' peak")
    try:
        if has_pipeline:
            journal.append("input_check", **plain_fields(input_check=check_input(prepared)))
        if has_peak and steps_per_second is not None:
            needed = (model.training_flops_per_sample or 0) * training.global_batch_size * steps_per_second
            _check_peak(prepared, needed)
    except Exception as error:
        reason = backends.current().explain_exhaustion(error)
        if reason is None:
            raise
        # The run itself is done, and must not be lost for its checks.
        journal.append("note", text=f"the checks after the training were given up, for want of memory: {reason}")


def sizes_of_a_step(model: ModelSummary, batch_size: int) -> Sizes | None:
    """Returns the sizes of the product that most of a network's work is in, for a batch; None where it is not known."""
    if not model.main_product:
        return None
    num_rows, common, num_columns = model.main_product
    return batch_size * num_rows, common, num_columns


def check_input(prepared: Prepared) -> InputCheck:
    """Draws batches from the training's input pipeline, with nothing trained beside it.

    As training draws them, in compiled code. The batches that the pipeline has ready from the start, or in the making,
    are left out.
    """
    backend = backends.current()
    draw = backend.compile_draws(prepared.build_batches())
    draw(1)  # compiles
    draw(sum(backend.most_ahead()))
    num_batches, count, start = 0, 1, time.perf_counter()
    while True:
        draw(count)
        num_batches += count
        seconds = time.perf_counter() - start
        if seconds >= _INPUT_SECONDS:
            return InputCheck(num_batches=num_batches, seconds=seconds)
        count = max(1, min(num_batches, int(num_batches * (_INPUT_SECONDS / seconds - 1)) + 1))


def _check_peak(prepared: Prepared, needed: float) -> None:
    """Measures the devices' peak, which is no less than `needed`, what the training computed a second."""
    resolved = prepared.resolved
    for seconds in _PEAK_SECONDS:  # again where others disturbed it, as a peak below what was reached shows
        peak = measure_peak(
            backends.current(),
            resolved.device_names,
            prepared.training.precision,
            seconds=seconds,
            own_sizes=sizes_of_a_step(prepared.summary, resolved.placement.per_replica_batch_size),
        )
        prepared.journal.append("peak_check", **plain_fields(peak_check=peak))
        if peak.flops_per_second >= needed and peak.other_share <= MAX_OTHER_SHARE:
            break
