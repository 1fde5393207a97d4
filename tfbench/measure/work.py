"""What a training computes and is fed, beside the most that its devices and its input pipeline could do."""

from collections.abc import Iterator, Sequence

from tfbench.machine import PeakCheck
from tfbench.results import RunResult

# Rate of the input pipeline alone over that of the training. Where both share the cores, the time of a sample is the
# sum of both, so that below 1.5 more than two thirds of it go into the input; where a GPU trains, less than a third of
# the pipeline's time is left to make up for a hold-up.
MIN_HEADROOM = 1.5
MAX_OTHER_SHARE = 0.1  # of the machine's processor time: with more of it taken by others, products show no peak
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
    model, checks = result.model, result.peak_checks
    if model and model.flops_per_sample and model.training_flops_per_sample is None:
        yield (
            "flops_per_second is not available: the record of this run holds the operations of the forward pass alone, "
            "not those of the gradients. Repeat the run with this version of tfbench."
        )
        return
    flops = model.training_flops_per_sample if model else None
    if not flops or not speed or len(checks) < 2:
        return
    peak = find_peak(checks)
    if peak is None:
        share = min(check.other_share for check in checks)
        yield (
            "model_flops_utilization is not available: while the devices' peak was measured, other processes took "
            f"{100 * share:.0f} % of the machine's processor time. Stop them, and repeat the run."
        )
        return
    reached = flops * speed
    if reached > peak:
        yield (
            f"model_flops_utilization is not available: the training made {reached / 1e9:,.4g} GFLOP/s, more than the "
            f"{peak / 1e9:,.4g} of matrix products on the same devices, measured {len(checks)} times. Either these "
            "were disturbed, or they are no peak for this network: there are shorter ways to convolve than are counted "
            "(Winograd's). Repeat the run on a quiet machine."
        )


def find_peak(checks: Sequence[PeakCheck]) -> float | None:
    """Returns the most that the devices were seen to compute in a second; None: others disturbed every measurement."""
    if all(check.other_share > MAX_OTHER_SHARE for check in checks):
        return None
    return max(check.flops_per_second for check in checks)


def _check_operations(result: RunResult) -> Iterator[str]:
    layers = result.model.uncounted_layers if result.model else ()
    if layers:
        more = f" and {len(layers) - _NUM_NAMED} more" if len(layers) > _NUM_NAMED else ""
        yield (
            f"flops_per_sample is not available, since the operations of these layers are not known: "
            f"{', '.join(layers[:_NUM_NAMED])}{more}. A layer of your own says them in a method "
            "forward_flops(input_shape, output_shape)."
        )
