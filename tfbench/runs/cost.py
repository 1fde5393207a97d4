"""What a run costs: the machine, by the hour."""

import dataclasses
import statistics

from tfbench.runs.early_stop import reaches
from tfbench.runs.record import RunResult

SECONDS_PER_HOUR = 3600.0


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A validation accuracy, when a run reached it, and what that cost; None: no epoch did."""

    val_accuracy: float
    epoch: int | None = None
    seconds: float | None = None  # from the request of the run to the end of that epoch
    machine: float | None = None  # cost of the machine until then


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What a run cost, in `currency`.

    `epoch` is of one epoch and is None where none was trained to its end.
    """

    currency: str
    instance: str
    price_per_hour: float
    hours: float
    machine: float
    epoch: float | None
    target: Target | None

    def metrics(self) -> dict[str, float]:
        """Returns the figures that exist under their names in `METRICS`."""
        values = {"cost/hours": self.hours, "cost/machine": self.machine}
        if self.epoch is not None:
            values["cost/epoch"] = self.epoch
        if self.target and self.target.machine is not None:
            values["cost/to_accuracy"] = self.target.machine
        return values


def compute_cost(result: RunResult) -> Cost | None:
    """Works out what a run cost at the price in its recipe's [cost].

    Paid for is the whole run, from its request to its end, as a rented machine would be: start-up,
    loading the data, tracing, training and every evaluation, whether or not the run came to a good
    end. An epoch is paid for its training and its validation alone, as a mean over the epochs that
    were trained to their end. The way to an accuracy is paid for from the request to the end of the
    first epoch that reached it. A run that goes on from a checkpoint pays for its own time; what
    came before belongs to the run that wrote the checkpoint.

    Args:
        result: A run in whatever state; times in seconds.

    Returns:
        Prices in the currency of the recipe. None: the recipe has no price, or the run is not over.
    """
    config = result.request.recipe.cost
    if config.price_per_hour is None or result.ended_at is None:
        return None
    hours = _seconds_until(result.ended_at, result) / SECONDS_PER_HOUR
    times = [
        record.epoch_seconds + (record.validation_seconds or 0.0) for record in result.whole_epochs
    ]
    epoch = None
    if times:
        epoch = statistics.fmean(times) / SECONDS_PER_HOUR * config.price_per_hour
    return Cost(
        currency=config.currency,
        instance=config.instance,
        price_per_hour=config.price_per_hour,
        hours=hours,
        machine=hours * config.price_per_hour,
        epoch=epoch,
        target=_find_target(result, config.price_per_hour),
    )


def _seconds_until(time: float, result: RunResult) -> float:
    return max(0.0, time - result.request.created)  # a clock that is set back earns nothing


def _find_target(result: RunResult, price_per_hour: float) -> Target | None:
    """Returns the accuracy that a run is to reach, and when it did.

    It is what is expected of real data, else what training stops at. None: there is no such
    accuracy, nothing was validated, or the run goes on from a checkpoint: another run went a part
    of the way.
    """
    recipe = result.request.recipe
    wanted = recipe.training.stop_at_val_accuracy
    if not result.is_synthetic and recipe.expect.target_accuracy is not None:
        wanted = recipe.expect.target_accuracy
    validated = [record for record in result.epochs if record.val_accuracy is not None]
    if wanted is None or not validated or result.request.resume:
        return None
    for record in validated:
        if reaches(record.val_accuracy, wanted):
            seconds = _seconds_until(record.finished_at, result)
            machine = seconds / SECONDS_PER_HOUR * price_per_hour
            return Target(wanted, record.epoch, seconds, machine)
    return Target(wanted)
