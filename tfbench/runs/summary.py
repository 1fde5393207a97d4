"""From the raw readings of a run to the numbers that are reported."""

import math
import statistics
from collections.abc import Callable, Sequence

from tfbench.metrics import BREAKDOWN_ENTRIES, METRICS, PROFILE_METRICS
from tfbench.profiles.estimate import summarize_profile
from tfbench.recipe.sections import REGRESSION_LOSSES
from tfbench.runs.cost import compute_cost
from tfbench.runs.early_stop import reaches
from tfbench.runs.energy import find_energy
from tfbench.runs.record import EpochRecord, RunResult, Summary
from tfbench.runs.spans import RunView, count_steps
from tfbench.runs.warnings import find_notes, find_warnings

Values = dict[str, float | None]
Figure = Callable[[RunView], float | None]

# Of whole epochs and their validation: a limited run has none, as a note of its own says.
_OF_WHOLE_EPOCHS = {
    "epoch_seconds",
    "validation_seconds",
    "val_loss",
    "val_accuracy",
    "best_val_accuracy",
}


def summarize_run(result: RunResult) -> Summary:
    """Reduces the raw readings of one run to the numbers that are reported, finished or not.

    Leading steps, as many as its recipe has for warm-up, are left out of speeds and step times:
    they hold tracing, compilation and the first fill of the input pipeline.

    Args:
        result: A run in whatever state; times in seconds.

    Returns:
        Every metric of `METRICS`, None where it does not exist or is not finite; a warning names
        each of those. A compiled network's own metrics follow under their names. Accuracies are
        only there for classification, memory of GPUs only where they are used, and what not every
        run measures (costs, energy, work and limit, time breakdown) only where it was. Times in
        seconds; `samples_per_second` counts the samples of all replicas. Of a profile, which is no
        training, what exists of `METRICS` and `PROFILE_METRICS`.
    """
    run = RunView(result)
    values = _list_values(run)
    warnings = find_warnings(run)
    if result.request.profile:
        metrics = _profile_metrics(result, values)
    else:
        metrics = _training_metrics(result, values)
        missing = [name for name, value in metrics.items() if value is None]
        if result.request.recipe.measurement.is_limited:
            missing = [name for name in missing if name not in _OF_WHOLE_EPOCHS]
        # Without spans, a warning says already that nothing was measured.
        if missing and result.spans:
            warnings += (f"Not measured, or not finite: {', '.join(missing)}.",)
    return Summary(metrics=metrics, warnings=warnings, notes=find_notes(result))


def _training_metrics(result: RunResult, values: Values) -> Values:
    metrics = {name: values[name] for name in METRICS if name in values}
    if result.last_epoch:
        for name, value in result.last_epoch.metrics.items():
            metrics.setdefault(name, value)
    return metrics


def _profile_metrics(result: RunResult, values: Values) -> Values:
    if step := summarize_profile(result):
        for phase in step.phases:
            name = phase.name.replace(" ", "_")
            values[f"profile/{name}_seconds"] = phase.seconds
        values["profile/full_step_seconds"] = step.full_seconds
        values["profile/bottleneck_seconds"] = step.bottleneck.seconds
    metrics: Values = {}
    for name in METRICS | PROFILE_METRICS:
        value = values.get(name)
        if value is not None and not name.startswith("steady_"):
            metrics[name] = value
    return metrics


def _list_values(run: RunView) -> Values:
    """Returns the figures of a run by name, those that are not finite as None."""
    figures = dict(_FIGURES)
    if _has_accuracy(run):
        figures |= _ACCURACIES
    values = {name: figure(run) for name, figure in figures.items()}
    for name, figure in _OPTIONAL.items():
        value = figure(run)
        if value is not None:
            values[name] = value
    values |= _breakdown(run.result)
    if cost := compute_cost(run.result):
        values |= cost.metrics()
    if energy := find_energy(run.result):
        values |= energy.metrics()
    for evaluation in run.result.evaluations:
        values[f"{evaluation.name}_loss"] = evaluation.loss
        values[f"{evaluation.name}_accuracy"] = evaluation.accuracy
    for name, value in values.items():
        if value is not None and not math.isfinite(value):
            values[name] = None
    return values


def _breakdown(result: RunResult) -> Values:
    """Returns where the process's time went; with "unaccounted", it adds up to the wall time."""
    breakdown = result.breakdown
    if breakdown is None:
        return {}
    wall = result.exit.worker_seconds if result.exit else None
    entries = {name: breakdown.entries.get(name, 0.0) for name in BREAKDOWN_ENTRIES}
    if wall is None:
        wall = breakdown.elapsed_seconds  # as far as is known
    elif result.stage == "finished" or result.error:
        entries["teardown"] = wall - breakdown.elapsed_seconds
    entries |= {"unaccounted": wall - math.fsum(entries.values()), "wall": wall}
    return {f"breakdown/{name}_seconds": seconds for name, seconds in entries.items()}


def _typical(run: RunView) -> Sequence[EpochRecord]:
    """Returns the whole epochs without the first, which was compiled, if there are others."""
    whole = run.result.whole_epochs
    others = [record for record in whole if record is not run.result.own_epochs[0]]
    return others or whole


def _last(name: str) -> Figure:
    """Returns a function that reads a figure of the last epoch."""
    return _of("last_epoch", name)


def _last_metric(name: str) -> Figure:
    """Returns a function that reads a further metric of the last epoch."""
    return lambda run: getattr(run.result.last_epoch, "metrics", {}).get(name)


def _of(record: str, name: str) -> Figure:
    """Returns a function that reads a field of a record that a run may lack."""
    return lambda run: getattr(getattr(run.result, record), name, None)


def _step_time(fraction: float) -> Figure:
    return lambda run: run.step_times.quantile(fraction)


def _best_accuracy(run: RunView) -> float | None:
    return max(_present(run.result.epochs, "val_accuracy"), default=None)


def _time_to_accuracy(run: RunView) -> float | None:
    """Returns the seconds from the start of training to the end of the first epoch on target.

    Validation is included. A run that goes on from a checkpoint counts the time of the runs before,
    as `elapsed_seconds` does.
    """
    target = run.result.request.recipe.expect.target_accuracy
    if target is None or run.result.is_synthetic or not _has_accuracy(run):
        return None
    for record in run.result.epochs:
        if reaches(record.val_accuracy, target):
            return record.elapsed_seconds
    return None


def _tokens_per_second(run: RunView) -> float | None:
    dataset = run.result.dataset
    if dataset is None or not dataset.tokens_per_sample or not run.speed:
        return None
    return run.speed * dataset.tokens_per_sample


def _batch_size(run: RunView) -> int:
    placed = run.result.placement or run.result.request.recipe.training
    return placed.global_batch_size


def _other_cores(run: RunView) -> float | None:
    usage = run.result.usage
    if usage is None:
        return None
    # Counters of the machine and of the process are not read at the same instant.
    return max(0.0, usage.busy_cpu_seconds - usage.own_cpu_seconds) / usage.seconds


def _largest(record: str, name: str) -> Figure:
    """Returns a function that reads the largest item of a field of a record that a run may lack."""
    return lambda run: max(getattr(getattr(run.result, record), name, ()), default=None)


def _collective_bytes(run: RunView) -> float | None:
    spread = run.result.spread
    if spread is None or not spread.collectives:  # not every framework lists them
        return None
    return sum(collective.num_bytes for collective in spread.collectives)


def _share_of_step(name: str) -> Figure:
    """Returns a function that reads a time of the traced steps, as a share of the longest one."""

    def figure(run: RunView) -> float | None:
        check = run.result.exchange_check
        if check is None:
            return None
        seconds: float = getattr(check, name)
        return seconds / check.step_seconds

    return figure


def _utilization(run: RunView) -> float | None:
    # More than the peak, twice: the peak is not known, so neither is the share of it.
    peak = run.peak
    reached = run.flops_per_second
    if not peak or not reached or reached > peak:
        return None
    return reached / peak


def _has_accuracy(run: RunView) -> bool:
    """Says whether accuracy is one of a run's figures, be it measured or missing."""
    result = run.result
    if any(record.accuracy is not None for record in result.epochs):
        return True
    has_own_metrics = result.model is not None and result.model.own_optimizer
    is_regression = result.request.recipe.training.loss in REGRESSION_LOSSES
    return not has_own_metrics and not is_regression


def _median(records: Sequence[EpochRecord], name: str) -> float | None:
    """Returns the median of a figure of epochs that may lack it."""
    values = _present(records, name)
    if not values:
        return None
    return statistics.median(values)


def _present(records: Sequence[EpochRecord], name: str) -> list[float]:
    """Returns a figure of the epochs that have it."""
    values = [getattr(record, name) for record in records]
    return [value for value in values if value is not None]


_FIGURES: dict[str, Figure] = {
    "samples_per_second": lambda run: run.speed,
    "steady_steps": lambda run: count_steps(run.steady),
    "steady_seconds": lambda run: run.steady_seconds,
    "first_step_seconds": lambda run: run.result.spans[0].seconds if run.result.spans else None,
    "step_time_median_seconds": _step_time(0.5),
    "step_time_p90_seconds": _step_time(0.9),
    "step_time_p99_seconds": _step_time(0.99),
    "step_time_mad_seconds": lambda run: run.step_times.mad,
    "epoch_seconds": lambda run: _median(_typical(run), "epoch_seconds"),
    "validation_seconds": lambda run: _median(_typical(run), "validation_seconds"),
    "elapsed_seconds": _last("elapsed_seconds"),
    "loss": _last("loss"),
    "val_loss": _last("val_loss"),
    "num_parameters": _of("model", "num_parameters"),
    "num_trainable_parameters": _of("model", "num_trainable_parameters"),
    "num_replicas": _of("placement", "num_replicas"),
    "per_replica_batch_size": _of("placement", "per_replica_batch_size"),
    "global_batch_size": _batch_size,
    "peak_memory_bytes": _of("usage", "peak_memory_bytes"),
}
_ACCURACIES: dict[str, Figure] = {
    "accuracy": _last("accuracy"),
    "val_accuracy": _last("val_accuracy"),
    "best_val_accuracy": _best_accuracy,
}
# There only where they are known: what not every run measures, so that nothing is missing without
# it.
_OPTIONAL: dict[str, Figure] = {
    "bits_per_byte": _last_metric("bits_per_byte"),
    "val_bits_per_byte": _last_metric("val_bits_per_byte"),
    "tokens_per_second": _tokens_per_second,
    "flops_per_second": lambda run: run.flops_per_second,
    "peak_flops_per_second": lambda run: run.peak,
    "model_flops_utilization": _utilization,
    "input_samples_per_second": lambda run: run.input_rate,
    "input_headroom": lambda run: run.headroom,
    "time_to_accuracy_seconds": _time_to_accuracy,
    "val_loss_batch_mean": _last("val_loss_batch_mean"),
    "val_accuracy_batch_mean": _last("val_accuracy_batch_mean"),
    "inference_loss": _last("inference_loss"),
    "inference_accuracy": _last("inference_accuracy"),
    "inference_seconds": lambda run: _median(run.result.own_epochs, "inference_seconds"),
    "other_busy_cores": _other_cores,
    "memory_before_model_bytes": _of("usage", "memory_before_model_bytes"),
    "peak_gpu_memory_bytes": _largest("usage", "peak_gpu_memory_bytes"),
    "flops_per_sample": _of("model", "flops_per_sample"),
    "training_flops_per_sample": _of("model", "training_flops_per_sample"),
    "collective_bytes_per_step": _collective_bytes,
    "state_bytes_per_device": _largest("spread", "bytes_per_device"),
    "transfer_seconds_per_step": _of("exchange_check", "transfer_seconds"),
    "waiting_seconds_per_step": _of("exchange_check", "waiting_seconds"),
    "transfer_share": _share_of_step("transfer_seconds"),
    "waiting_share": _share_of_step("waiting_seconds"),
}
