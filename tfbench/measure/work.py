"""What a training computes and is fed, beside the most that its devices and its input pipeline could do."""

from collections.abc import Iterator

from tfbench.results import RunResult

FLOPS_PER_FORWARD = 3  # a training step takes the backward pass for two forward passes, as is usual
# Rate of the input pipeline alone over that of the training. Where both share the cores, the time of a sample is the
# sum of both, so that below 1.5 more than two thirds of it go into the input; where a GPU trains, less than a third of
# the pipeline's time is left to make up for a hold-up.
MIN_HEADROOM = 1.5
_NUM_NAMED = 5  # layers that are named; more make nobody wiser


def check_work(speed: float | None, result: RunResult) -> Iterator[str]:
    """Yields what limited a training, and which figures of its work are not known.

    Args:
        speed: Samples per second of the steady steps; None: there are none.
        result: The run.
    """
    yield from _check_input(speed, result)
    yield from _check_peak(speed, result)
    yield from _check_operations(result)


def _check_input(speed: float | None, result: RunResult) -> Iterator[str]:
    check = result.input_check
    if not check or not speed or not result.placement:
        return
    rate = check.num_batches * result.placement.global_batch_size / check.seconds
    if rate < MIN_HEADROOM * speed:
        yield (
            f"input-bound, or nearly: the input pipeline alone makes {rate:,.0f} samples/s, {rate / speed:.2f} times "
            f"the {speed:,.0f} of the training ({MIN_HEADROOM:g} times would leave room), so that this run says "
            "little of its devices. Use faster storage, more processor cores for the input, smaller images or a larger "
            "network."
        )


def _check_peak(speed: float | None, result: RunResult) -> Iterator[str]:
    flops, checks = result.model.flops_per_sample if result.model else None, result.peak_checks
    if not flops or not speed or len(checks) < 2:
        return
    reached, peak = FLOPS_PER_FORWARD * flops * speed, max(check.flops_per_second for check in checks)
    if reached > peak:
        yield (
            f"model_flops_utilization is not available: the training made {reached / 1e9:,.4g} GFLOP/s, more than the "
            f"{peak / 1e9:,.4g} of matrix products on the same devices, measured {len(checks)} times. Either these "
            "were disturbed, or layers take fewer operations than are counted (convolutions by Winograd's way). Repeat "
            "the run on a quiet machine."
        )


def _check_operations(result: RunResult) -> Iterator[str]:
    layers = result.model.uncounted_layers if result.model else ()
    if layers:
        more = f" and {len(layers) - _NUM_NAMED} more" if len(layers) > _NUM_NAMED else ""
        yield (
            f"flops_per_sample is not available, since the operations of these layers are not known: "
            f"{', '.join(layers[:_NUM_NAMED])}{more}. A layer of your own says them in a method "
            "forward_flops(input_shape, output_shape)."
        )
