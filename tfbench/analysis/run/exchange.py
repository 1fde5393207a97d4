"""What devices that train together exchange and wait for, as read back and traced, in plain sentences."""

from collections.abc import Iterator

from tfbench.records.run import RunResult
from tfbench.records.spread import ExchangeCheck

_MUCH = 0.05  # of a step: waiting for a slower worker that is worth a caution
_MOST_OF_IT = 0.5  # of the waiting: what the input of the slowest worker must account for to be named as its cause


def exchange_values(result: RunResult) -> dict[str, float | None]:
    """Returns what devices exchange, wait for and hold, of a run of which it was read back; metric name to value."""
    values: dict[str, float | None] = {}
    if spread := result.spread:
        if spread.collectives:  # of a framework that tells
            values["collective_bytes_per_step"] = sum(collective.num_bytes for collective in spread.collectives)
        if spread.bytes_per_device:
            values["state_bytes_per_device"] = max(spread.bytes_per_device)
    if check := result.exchange_check:
        values["transfer_seconds_per_step"] = check.transfer_seconds
        values["waiting_seconds_per_step"] = check.waiting_seconds
        values["transfer_share"] = check.transfer_seconds / _longest_step(check)
        values["waiting_share"] = check.waiting_seconds / _longest_step(check)
    return values


def check_waiting(result: RunResult) -> Iterator[str]:
    """Yields which worker the others wait for, and for how long, where that is much of a step."""
    check = result.exchange_check
    if check is None or check.waiting_seconds <= _MUCH * _longest_step(check):
        return
    share = 100 * check.waiting_seconds / _longest_step(check)
    yield (
        f"the other workers wait for worker {check.slowest} of {len(check.workers)}: {1e3 * check.waiting_seconds:.3g} "
        f"of {1e3 * _longest_step(check):.3g} ms of a step ({share:.0f} %), as traced over {check.num_steps} steps "
        f"after the training. {_describe_cause(check)}"
    )


def _describe_cause(check: ExchangeCheck) -> str:
    inputs = [worker.input_seconds for worker in check.workers]
    own = inputs[check.slowest]
    if own is None:
        return "Its own work, or its input, takes longer, which this back end does not tell apart."
    others = [seconds for index, seconds in enumerate(inputs) if index != check.slowest and seconds is not None]
    if others and own - min(others) > _MOST_OF_IT * check.waiting_seconds:
        return (
            f"Its input takes {1e3 * (own - min(others)):.3g} ms longer than the others': look at its disk and cores."
        )
    return "Its own work takes longer: look at its device, and at what else runs on its machine."


def _longest_step(check: ExchangeCheck) -> float:
    return max(worker.step_seconds for worker in check.workers)
