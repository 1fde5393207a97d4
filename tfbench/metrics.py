"""Every metric that tfbench reports: its unit, which way is better, and what it means."""

from typing import NamedTuple

_LOWER = "lower"
_HIGHER = "higher"
_NEITHER = "neither"


class Metric(NamedTuple):
    """What is known of a metric."""

    unit: str
    better: str  # which way it is: "lower", "higher" or "neither"
    meaning: str


# Where a measuring process's time goes; each moment is in one of these, or not accounted for.
BREAKDOWN_ENTRIES = {
    "startup": "start of the process, imports unless it is forked, devices",
    "data": "loading or making the data, building its pipelines",
    "model": "building the model, restoring a checkpoint, reading what the machine is",
    "waiting": "waiting for MLflow to be ready, so that it does not disturb the measurement",
    "replica_check": "checking what several devices sum up and hold",
    "first_step": "`fit` until its first step is done: first batch, tracing, compilation",
    "warmup": "the rest of the warm-up",
    "steady": "steady training steps",
    "validation": "validation after each epoch, training samples in inference mode",
    "callbacks": "between steps and epochs: iterators, callbacks, checkpoints",
    "evaluation": "evaluations, predictions and files after the training",
    "checks": "drawing from the input pipeline alone, matrix products, looking for other runs",
    "teardown": "from the last record of the process to its end",
}

# What an epoch learned
LEARNING_METRICS: dict[str, Metric] = {
    "loss": Metric("", _LOWER, "training loss, mean over the steps of the epoch"),
    "accuracy": Metric("", _HIGHER, "training accuracy, mean over the steps of the epoch"),
    "val_loss": Metric("", _LOWER, "validation loss, every sample weighted alike"),
    "val_accuracy": Metric("", _HIGHER, "validation accuracy, every sample weighted alike"),
    "inference_loss": Metric(
        "", _LOWER, "loss of all training samples after the epoch, in inference mode"
    ),
    "inference_accuracy": Metric(
        "", _HIGHER, "accuracy of all training samples after the epoch, in inference mode"
    ),
    "val_loss_batch_mean": Metric(
        "", _LOWER, "validation loss, every batch weighted alike (as Chainer)"
    ),
    "val_accuracy_batch_mean": Metric(
        "", _HIGHER, "validation accuracy, every batch weighted alike (as Chainer)"
    ),
}

METRICS: dict[str, Metric] = {
    # Of an epoch
    "epoch_seconds": Metric(
        "s", _LOWER, "training part of the epoch, first step included, validation not"
    ),
    "validation_seconds": Metric("s", _LOWER, "validation part of the epoch"),
    "elapsed_seconds": Metric(
        "s", _LOWER, "since the start of training, validation included (as Chainer counts)"
    ),
    "samples_per_second": Metric(
        "samples/s",
        _HIGHER,
        "training samples of all replicas, with their input, without the warm-up",
    ),
    "inference_seconds": Metric(
        "s", _LOWER, "evaluation of the training samples, part of elapsed_seconds"
    ),
    **LEARNING_METRICS,
    "bits_per_byte": Metric("bits", _LOWER, "loss / ln 2, of a text whose tokens are bytes"),
    "val_bits_per_byte": Metric(
        "bits", _LOWER, "val_loss / ln 2, of a text whose tokens are bytes"
    ),
    # Of a run
    "tokens_per_second": Metric(
        "tokens/s", _HIGHER, "samples_per_second x tokens of a sample, of a text"
    ),
    "first_step_seconds": Metric(
        "s",
        _LOWER,
        "from the call of `fit` to the end of its first step: first batch, tracing, compilation",
    ),
    "step_time_median_seconds": Metric(
        "s", _LOWER, "median time of a step over the spans after the warm-up"
    ),
    "step_time_p90_seconds": Metric(
        "s", _LOWER, "time that 90 % of the steps stay below, each taking its span's mean"
    ),
    "step_time_p99_seconds": Metric(
        "s", _LOWER, "time that 99 % of the steps stay below, each taking its span's mean"
    ),
    "step_time_mad_seconds": Metric(
        "s", _LOWER, "median distance of the steps' times from their median"
    ),
    "steady_steps": Metric("steps", _NEITHER, "steps that the summary rests on"),
    "steady_seconds": Metric("s", _NEITHER, "time that the summary rests on"),
    "best_val_accuracy": Metric("", _HIGHER, "highest val_accuracy of any epoch"),
    "test_loss": Metric("", _LOWER, "loss of the test split after training"),
    "test_accuracy": Metric("", _HIGHER, "accuracy of the test split after training"),
    "multiview_loss": Metric(
        "", _LOWER, "-log of the label's probability, averaged over several crops of each sample"
    ),
    "multiview_accuracy": Metric(
        "", _HIGHER, "validation accuracy of probabilities averaged over several crops"
    ),
    "time_to_accuracy_seconds": Metric(
        "s", _LOWER, "elapsed_seconds of the first epoch with expect.target_accuracy"
    ),
    "peak_memory_bytes": Metric(
        "bytes", _LOWER, "most memory in training, without mapped files, of a machine's processes"
    ),
    "memory_before_model_bytes": Metric(
        "bytes", _LOWER, "memory before the model was built, without mapped files"
    ),
    "peak_gpu_memory_bytes": Metric(
        "bytes", _LOWER, "most that TensorFlow's allocator held on any one GPU"
    ),
    # Work and limit
    "flops_per_sample": Metric(
        "FLOP", _NEITHER, "forward pass of one sample, two for each multiply-accumulate"
    ),
    "training_flops_per_sample": Metric(
        "FLOP", _NEITHER, "forward pass and gradients of one sample"
    ),
    "flops_per_second": Metric("FLOP/s", _HIGHER, "training_flops_per_sample x samples_per_second"),
    "peak_flops_per_second": Metric(
        "FLOP/s", _NEITHER, "matrix product of the same precision on the same devices"
    ),
    "model_flops_utilization": Metric("", _HIGHER, "flops_per_second / peak_flops_per_second"),
    "input_samples_per_second": Metric(
        "samples/s", _HIGHER, "input pipeline alone, nothing trained beside it"
    ),
    "input_headroom": Metric(
        "", _HIGHER, "input pipeline alone / samples_per_second; 1: input-bound; less: unknown"
    ),
    "other_busy_cores": Metric(
        "cores", _LOWER, "processor cores that other processes kept busy during the training"
    ),
    # Energy of the GPUs in use, and of nothing else of the machine
    "energy_joules": Metric(
        "J", _LOWER, "of the GPUs in use, from the end of the warm-up to that of the training"
    ),
    "samples_per_joule": Metric("samples/J", _HIGHER, "samples of the steady part / energy_joules"),
    "mean_watts": Metric("W", _NEITHER, "energy_joules / time between the two readings"),
    # Cost, where a price is known; in the currency of the recipe
    "cost/hours": Metric(
        "h", _LOWER, "time that is paid for: from the request of the run to its end"
    ),
    "cost/machine": Metric("currency", _LOWER, "hours x price an hour"),
    "cost/epoch": Metric(
        "currency", _LOWER, "machine for an epoch: its mean training and validation time"
    ),
    "cost/to_accuracy": Metric(
        "currency", _LOWER, "machine from the request to the end of the epoch on target"
    ),
    # Sizes: numbers to filter and plot by
    "num_parameters": Metric("", _NEITHER, "weights of the model, trainable or not"),
    "num_trainable_parameters": Metric("", _NEITHER, "weights that training changes"),
    "num_replicas": Metric(
        "", _NEITHER, "parts that each batch is cut into: of copies of the model, or of its parts"
    ),
    "global_batch_size": Metric(
        "samples", _NEITHER, "samples of an optimizer step, over all replicas"
    ),
    "per_replica_batch_size": Metric("samples", _NEITHER, "global_batch_size / num_replicas"),
    # What a run over several devices was read back to do, where it was
    "collective_bytes_per_step": Metric(
        "bytes", _NEITHER, "results of collectives in the compiled step"
    ),
    "state_bytes_per_device": Metric(
        "bytes", _NEITHER, "weights and optimizer's variables, on the fullest device"
    ),
    "transfer_seconds_per_step": Metric(
        "s", _LOWER, "in collectives, of the slowest worker; traced after training"
    ),
    "waiting_seconds_per_step": Metric(
        "s", _LOWER, "longest wait for the slowest worker; traced after training"
    ),
    "transfer_share": Metric("", _LOWER, "transfer_seconds_per_step / the traced step"),
    "waiting_share": Metric("", _LOWER, "waiting_seconds_per_step / the traced step"),
    # Time breakdown of the measuring process
    **{
        f"breakdown/{name}_seconds": Metric("s", _LOWER, meaning)
        for name, meaning in BREAKDOWN_ENTRIES.items()
    },
    "breakdown/unaccounted_seconds": Metric("s", _LOWER, "what is in no entry of the breakdown"),
    "breakdown/wall_seconds": Metric(
        "s", _LOWER, "the measuring process, from before its start to its end"
    ),
}

# Of a profile of a step, which has none of a training
PROFILE_METRICS: dict[str, Metric] = {
    "profile/input_seconds": Metric(
        "s", _LOWER, "taking a step's batch from the input pipeline beside the training"
    ),
    "profile/copy_seconds": Metric(
        "s", _LOWER, "copying a step's batch to a device that is not the host"
    ),
    "profile/dispatch_seconds": Metric(
        "s", _LOWER, "calling a function that does nothing, compiled as the step is"
    ),
    "profile/forward_seconds": Metric("s", _LOWER, "forward pass and loss of a step"),
    "profile/backward_seconds": Metric("s", _LOWER, "what the gradients add to the forward pass"),
    "profile/update_seconds": Metric("s", _LOWER, "what the optimizer adds to the gradients"),
    "profile/keras_loop_seconds": Metric(
        "s", _LOWER, "what Keras's own training step adds to the bare one"
    ),
    "profile/full_step_seconds": Metric(
        "s", _LOWER, "Keras's own training step with its input pipeline"
    ),
    "profile/bottleneck_seconds": Metric("s", _LOWER, "the largest single part of a step"),
}

# Of a setup of a sweep, at a step for each size, "by_batch_size/samples_per_second"; see
# `curve_metric`
CURVE_METRICS: dict[str, Metric] = {
    "samples_per_second": Metric("samples/s", _HIGHER, "geometric mean over the runs of a setup"),
    "speedup": Metric(
        "", _HIGHER, "over the sweep's first setup, which is 1; undecided ratios have no point"
    ),
    "speedup_low": Metric("", _HIGHER, "lower end of the ratio's 95 % interval"),
    "speedup_high": Metric("", _HIGHER, "upper end of the ratio's 95 % interval"),
}

# What MLflow shows of a run, the most important first; the journal and result.json have all of it.
# Beside these, costs, the parts of a profile, and the learning metrics of every epoch, whose last
# values are the run's.
TRACKED_METRICS = (
    "samples_per_second",
    "tokens_per_second",
    "step_time_median_seconds",
    "epoch_seconds",
    "first_step_seconds",
    "time_to_accuracy_seconds",
    "best_val_accuracy",
    "test_accuracy",
    "test_loss",
    "multiview_accuracy",
    "peak_memory_bytes",
    "peak_gpu_memory_bytes",
    "model_flops_utilization",
    "input_headroom",
    "energy_joules",
    "samples_per_joule",
    "transfer_share",
    "waiting_share",
    "num_parameters",
    "global_batch_size",
    "num_replicas",
)
# What MLflow shows of the speed and the times of each epoch, under "by_epoch/": the run's own
# figures have their names to themselves.
EPOCH_SERIES = (
    "samples_per_second",
    "elapsed_seconds",
    "epoch_seconds",
    "validation_seconds",
)


def curve_metric(name: str, over: str) -> str:
    """Returns under which name one of `CURVE_METRICS` is tracked.

    Args:
        name: Of the metric.
        over: What was varied, in words: "batch size".
    """
    return f"by_{over.replace(' ', '_')}/{name}"
