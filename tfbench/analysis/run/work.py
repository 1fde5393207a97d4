"""What a training computes and is fed, beside the most that its devices and its input pipeline could do."""

from collections.abc import Iterator, Sequence

from tfbench.records.machine import PeakCheck
from tfbench.records.run import RunResult

# Rate of the input pipeline alone over that of the training. Where both share the cores, the time of a sample is the
# sum of both, so that below 1.5 more than two thirds of it go into the input; where a GPU trains, less than a third of
# the pipeline's time is left to make up for a hold-up.
MIN_HEADROOM = 1.5
# Below it, the pipeline alone was slower than the training that it fed, which cannot be; above, but below 1, both are
# equal for what they are known to: single rates of half a second were seen to differ by a few per cent.
POSSIBLE_HEADROOM = 0.95
# Of an epoch's time, that making its batches would have taken, had they not been made before its clock began.
MAX_READY_SHARE = 0.02
MAX_OTHER_SHARE = 0.1  # of the machine's processor time: with more of it taken by others, products show no peak
OWN_STEP, OWN_CALL = ".train_step)", ".call)"  # at the end of what is not counted, in place of a layer
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
    headroom, ready = rate / speed, _find_ready_share(result)
    if headroom < POSSIBLE_HEADROOM:
        why = (
            f"Up to {100 * ready:.0f} % of its batches were made between epochs, outside of their clock, which makes "
            "it look faster than it is: measure a part without validation (--seconds 10)."
            if ready > MAX_READY_SHARE
            else "Something else may have taken the processor during the check: repeat the run on a quiet machine."
        )
        yield (
            f"the input check contradicts the training: the input pipeline alone made {rate:,.0f} samples/s in "
            f"{check.seconds:.2g} s, less than the {speed:,.0f} that the training is said to have used, so that "
            f"nothing is known of what limits it. {why}"
        )
    elif headroom < MIN_HEADROOM:
        yield (
            f"input-bound, or nearly: the input pipeline alone makes {rate:,.0f} samples/s, {headroom:.2f} times "
            f"the {speed:,.0f} of the training ({MIN_HEADROOM:g} times would leave room), so that this run says "
            "little of its devices. Use faster storage, more processor cores for the input, smaller images or a larger "
            "network."
        )
    if headroom >= POSSIBLE_HEADROOM and ready / headroom > MAX_READY_SHARE:
        yield (
            f"epochs are short: up to {100 * ready:.0f} % of their batches were made between epochs, outside of their "
            f"clock, which may make the training look up to {100 * ready / headroom:.0f} % faster than it is. Measure "
            "a part without validation (--seconds 10)."
        )


def _find_ready_share(result: RunResult) -> float:
    """Returns the share of the batches that were made before their epoch's clock began; 0 where none is known of."""
    epochs = [record for record in result.own_epochs if record.ready_batches is not None]
    num_steps = sum(record.num_steps for record in epochs)
    return sum(record.ready_batches or 0 for record in epochs) / num_steps if num_steps else 0.0


def _check_peak(speed: float | None, result: RunResult) -> Iterator[str]:
    model, checks = result.model, result.peak_checks
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
    own = [layer for layer in layers if layer.endswith((OWN_STEP, OWN_CALL))]
    if own:
        yield f"flops_per_sample is not available: code of the network's own cannot be counted, {', '.join(own)}."
    elif layers:
        more = f" and {len(layers) - _NUM_NAMED} more" if len(layers) > _NUM_NAMED else ""
        yield (
            f"flops_per_sample is not available, since the operations of these layers are not known: "
            f"{', '.join(layers[:_NUM_NAMED])}{more}. A layer of your own says them in a method "
            "forward_flops(input_shape, output_shape)."
        )
