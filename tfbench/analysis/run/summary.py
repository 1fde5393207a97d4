"""From the raw readings of a run to the numbers that are reported."""

import math
import statistics
from collections.abc import Sequence

from tfbench.analysis.profile.summary import summarize_profile
from tfbench.analysis.run.checks import find_cautions
from tfbench.analysis.run.cost import compute_cost
from tfbench.analysis.run.energy import find_energy
from tfbench.analysis.run.exchange import exchange_values
from tfbench.analysis.run.learning import time_to_accuracy_seconds
from tfbench.analysis.run.spans import samples_per_second, steady_spans, step_time_mad, step_time_quantile
from tfbench.analysis.run.work import find_peak
from tfbench.metrics import LEDGER_ENTRIES, METRICS, PROFILE_METRICS
from tfbench.recipe.sections import REGRESSION_LOSSES
from tfbench.records.run import RunResult, StepSpan, Summary

Values = dict[str, float | None]

# Of whole epochs and their validation: a limited run has none, as a caution of its own says.
_OF_WHOLE_EPOCHS = {"epoch_seconds", "validation_seconds", "val_loss", "val_accuracy", "best_val_accuracy"}


def summarize_run(result: RunResult) -> Summary:
    """Reduces a run to its numbers, as `summarize` does; the steps that its recipe has for warm-up are left out."""
    return summarize(result, warmup_steps=result.request.recipe.measurement.warmup_steps)


def summarize(result: RunResult, *, warmup_steps: int) -> Summary:
    """Reduces the raw readings of one run to the numbers that are reported, finished or not.

    Leading steps are left out of speeds and step times: they hold tracing, compilation and the first fill of the input
    pipeline.

    Args:
        result: A run in whatever state; times in seconds.
        warmup_steps: Number of leading steps to leave out (steps, not epochs).

    Returns:
        Every metric of `METRICS`, None where it does not exist or is not finite; a caution names each of those. A
        compiled network's own metrics follow under their names.
        Accuracies are only there for classification, memory of GPUs only where they are used, and what not every run
        measures (costs, energy, work and limit, ledger) only where it was. Times in seconds; `samples_per_second`
        counts the samples of all replicas. Of a profile, which is no training, what exists of `METRICS` and
        `PROFILE_METRICS`.
    """
    if result.request.profile:
        return _summarize_profile_run(result)
    steady = steady_spans(result.spans, warmup_steps=warmup_steps)
    values = _speeds(result, steady) | _step_times(result, steady) | _epoch_times(result) | _learned(result)
    values |= _evaluated(result) | _sizes(result) | exchange_values(result) | _used(result) | _ledger(result)
    values |= _work_and_limit(result, values["samples_per_second"])
    cost, energy = compute_cost(result), find_energy(result)
    values |= cost.metrics() if cost else {}
    values |= energy.metrics() if energy else {}
    metrics = {name: _if_finite(values[name]) for name in METRICS if name in values}
    if result.epochs:
        metrics |= {name: value for name, value in result.epochs[-1].metrics.items() if name not in metrics}
    cautions = find_cautions(result, warmup_steps=warmup_steps)
    explained = {"model_flops_utilization", "peak_flops_per_second"}  # cautions of their own say why
    if result.request.recipe.measurement.is_limited:
        explained |= _OF_WHOLE_EPOCHS
    missing = [name for name, value in metrics.items() if value is None and name not in explained]
    if missing and result.spans:  # without spans, a caution says already that nothing was measured
        cautions += (f"no value, since it was not measured or was not finite: {', '.join(missing)}.",)
    return Summary(metrics=metrics, cautions=cautions)


def _summarize_profile_run(result: RunResult) -> Summary:
    values = _sizes(result) | _used(result) | _ledger(result) | _work_and_limit(result, None)
    cost = compute_cost(result)
    values |= cost.metrics() if cost else {}
    if step := summarize_profile(result):
        values |= {f"profile/{_metric_name(phase.name)}_seconds": phase.seconds for phase in step.phases}
        values["profile/full_step_seconds"] = step.full_seconds
        values["profile/bottleneck_seconds"] = step.bottleneck.seconds
    known = {name: _if_finite(values.get(name)) for name in METRICS | PROFILE_METRICS}
    metrics: Values = {name: value for name, value in known.items() if value is not None}
    return Summary(metrics=metrics, cautions=find_cautions(result))


def _metric_name(phase: str) -> str:
    return phase.replace(" ", "_").replace("+", "_and_")


def _speeds(result: RunResult, steady: Sequence[StepSpan]) -> Values:
    speed = samples_per_second(steady, _global_batch_size(result))
    replicas = result.placement.num_replicas if result.placement else None
    return {
        "samples_per_second": speed,
        "samples_per_second_per_replica": speed / replicas if speed is not None and replicas else None,
        "steady_steps": sum(span.num_steps for span in steady),
        "steady_seconds": math.fsum(span.seconds for span in steady),
    }


def _step_times(result: RunResult, steady: Sequence[StepSpan]) -> Values:
    return {
        "first_step_seconds": result.spans[0].seconds if result.spans else None,
        "step_time_median_seconds": step_time_quantile(steady, 0.5),
        "step_time_p90_seconds": step_time_quantile(steady, 0.9),
        "step_time_p99_seconds": step_time_quantile(steady, 0.99),
        "step_time_mad_seconds": step_time_mad(steady),
    }


def _epoch_times(result: RunResult) -> Values:
    whole = result.whole_epochs
    typical = [record for record in whole if record is not result.own_epochs[0]] or whole  # the first one was compiled
    return {
        "epoch_seconds": _median([record.epoch_seconds for record in typical]),
        "validation_seconds": _median([record.validation_seconds for record in typical]),
        "elapsed_seconds": result.epochs[-1].elapsed_seconds if result.epochs else None,
    }


def _learned(result: RunResult) -> Values:
    last = result.epochs[-1] if result.epochs else None
    values: Values = {"loss": last.loss if last else None, "val_loss": last.val_loss if last else None}
    if not _is_regression(result):
        reached = [record.val_accuracy for record in result.epochs if record.val_accuracy is not None]
        values["accuracy"] = last.accuracy if last else None
        values["val_accuracy"] = last.val_accuracy if last else None
        values["best_val_accuracy"] = max(reached, default=None)
        if (seconds := time_to_accuracy_seconds(result)) is not None:
            values["time_to_accuracy_seconds"] = seconds
    return values


def _evaluated(result: RunResult) -> Values:
    """Returns what only some runs ask for, so that where it is missing nothing is missing."""
    values: Values = {}
    for found in result.evaluations:
        values |= {f"{found.name}_loss": found.loss, f"{found.name}_accuracy": found.accuracy}
    last = result.epochs[-1] if result.epochs else None
    names = ["val_loss_batch_mean", "val_accuracy_batch_mean"]
    if last and last.inference_seconds is not None:
        names += ["inference_loss", "inference_accuracy"]
        values["inference_seconds"] = _median([record.inference_seconds for record in result.own_epochs])
    found_values = {name: getattr(last, name) for name in names} if last else {}
    return values | {name: value for name, value in found_values.items() if value is not None}


def _used(result: RunResult) -> Values:
    usage = result.usage
    if usage is None:
        return {"peak_memory_bytes": None}
    values: Values = {
        "peak_memory_bytes": usage.peak_memory_bytes,
        # Counters of the machine and of the process are not read at the same instant.
        "other_busy_cores": max(0.0, usage.busy_cpu_seconds - usage.own_cpu_seconds) / usage.seconds,
    }
    if usage.memory_before_model_bytes is not None:
        values["memory_before_model_bytes"] = usage.memory_before_model_bytes
    if usage.peak_gpu_memory_bytes:
        values["peak_gpu_memory_bytes"] = max(usage.peak_gpu_memory_bytes)
    return values


def _work_and_limit(result: RunResult, speed: float | None) -> Values:
    """Returns what the training computed, beside what its devices and its input pipeline could do at most."""
    values: Values = {}
    flops = result.model.flops_per_sample if result.model else None
    training_flops = result.model.training_flops_per_sample if result.model else None
    if flops is not None:
        values["flops_per_sample"] = flops
    if training_flops is not None:
        values["training_flops_per_sample"] = training_flops
        values["flops_per_second"] = None if speed is None else training_flops * speed
    if result.peak_checks:
        peak, reached = find_peak(result.peak_checks), values.get("flops_per_second")
        values["peak_flops_per_second"] = peak
        # More than the peak, twice: the peak is not known, so neither is the share of it.
        is_known = peak is not None and reached is not None and reached <= peak
        values["model_flops_utilization"] = reached / peak if is_known and reached and peak else None
    if result.input_check:
        rate = result.input_check.num_batches * _global_batch_size(result) / result.input_check.seconds
        values["input_samples_per_second"] = rate
        values["input_headroom"] = rate / speed if speed else None
    return values


def _ledger(result: RunResult) -> Values:
    """Returns where the process's time went; entries and what is not accounted for add up to its wall time."""
    ledger = result.ledger
    if ledger is None:
        return {}
    wall = result.exit.worker_seconds if result.exit else None
    entries = {name: ledger.entries.get(name, 0.0) for name in LEDGER_ENTRIES}
    if wall is None:
        wall = ledger.elapsed_seconds  # as far as is known
    elif result.stage == "finished" or result.error:
        entries["teardown"] = wall - ledger.elapsed_seconds
    named: Values = {f"ledger/{name}_seconds": seconds for name, seconds in entries.items()}
    return named | {
        "ledger/unaccounted_seconds": wall - math.fsum(entries.values()),
        "ledger/wall_seconds": wall,
    }


def _sizes(result: RunResult) -> Values:
    model, placement = result.model, result.placement
    num_parameters = model.num_parameters if model else None
    return {
        "num_parameters": num_parameters,
        "num_trainable_parameters": model.num_trainable_parameters if model else None,
        "num_replicas": placement.num_replicas if placement else None,
        "global_batch_size": _global_batch_size(result),
        "per_replica_batch_size": placement.per_replica_batch_size if placement else None,
    }


def _global_batch_size(result: RunResult) -> int:
    if result.placement:
        return result.placement.global_batch_size
    return result.request.recipe.training.global_batch_size


def _is_regression(result: RunResult) -> bool:
    return result.request.recipe.training.loss in REGRESSION_LOSSES and all(
        record.accuracy is None for record in result.epochs
    )


def _median(values: Sequence[float | None]) -> float | None:
    existing = [value for value in values if value is not None]
    return statistics.median(existing) if existing else None


def _if_finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
