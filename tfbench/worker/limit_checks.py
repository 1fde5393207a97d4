"""What a training is held against once it is over: its input pipeline alone, and what its devices compute at most."""

from tfbench import backends
from tfbench.analysis.run.training_warnings import MAX_OTHER_SHARE
from tfbench.backends.peak import Sizes, measure_peak
from tfbench.backends.placed import Placed
from tfbench.datasets.sources.splits import Splits
from tfbench.recipe.sections import TrainingConfig
from tfbench.records.journal import Journal, plain_fields
from tfbench.records.run import ModelSummary, RunRequest
from tfbench.worker.training import check_input

_PEAK_SECONDS = (1.0, 4.0)  # for matrix products, and once more where they were slower than the training


def check_limits(
    request: RunRequest,
    splits: Splits,
    resolved: Placed,
    model: ModelSummary,
    steps_per_second: float | None,
    journal: Journal,
) -> None:
    """Measures what the training is held against: its input pipeline alone, and what its devices compute at most.

    Of several workers, the devices of others are not measured, so that there is no peak of all.
    """
    training = request.recipe.training
    has_pipeline = not training.data_on_device
    has_peak = resolved.placement.num_workers == 1 and model.training_flops_per_sample is not None
    journal.append("stage", name=f"checking {'the input pipeline and ' if has_pipeline else ''}the devices' peak")
    try:
        if has_pipeline:
            journal.append("input_check", **plain_fields(input_check=check_input(request, splits)))
        if has_peak and steps_per_second is not None:
            needed = (model.training_flops_per_sample or 0) * training.global_batch_size * steps_per_second
            _check_peak(training, resolved, model, needed, journal)
    except Exception as error:
        reason = backends.current().memory.explain_exhaustion(error)
        if reason is None:
            raise
        # The run itself is done, and must not be lost for its checks.
        journal.append("note", text=f"the checks after the training were given up, for want of memory: {reason}")


def sizes_of_a_step(model: ModelSummary, batch_size: int) -> Sizes | None:
    """Returns the sizes of the product that most of a network's work is in, for a batch; None where it is not known."""
    if len(model.main_product) != len(("rows", "common", "columns")):
        return None
    num_rows, common, num_columns = model.main_product
    return batch_size * num_rows, common, num_columns


def _check_peak(
    training: TrainingConfig,
    resolved: Placed,
    model: ModelSummary,
    needed: float,
    journal: Journal,
) -> None:
    """Measures the devices' peak, which is no less than `needed`, what the training computed a second."""
    for seconds in _PEAK_SECONDS:  # again where others disturbed it, as a peak below what was reached shows
        peak = measure_peak(
            backends.current().kernels,
            resolved.device_names,
            training.precision,
            seconds=seconds,
            own_sizes=sizes_of_a_step(model, resolved.placement.per_replica_batch_size),
        )
        journal.append("peak_check", **plain_fields(peak_check=peak))
        if peak.flops_per_second >= needed and peak.other_share <= MAX_OTHER_SHARE:
            break
