"""How a network lies on several devices, as read back from them, and what they exchange for it in a step."""

from tfbench.schema import schema


@schema
class VariableParts:
    """A variable, and its part on a device."""

    name: str
    shape: tuple[int, ...]
    part_shape: tuple[int, ...]


@schema
class Collective:
    """Operations of one kind in the compiled step, by which devices exchange something; bytes of all their results."""

    operation: str  # XLA's name: "all-reduce"
    num: int
    num_bytes: int


@schema
class Spread:
    """Where the parts of a network lie, and what moves between devices in a step."""

    variables: tuple[VariableParts, ...]
    bytes_per_device: tuple[int, ...]  # of weights and the optimizer's variables, on each device of this worker
    collectives: tuple[Collective, ...] = ()  # of the compiled step; empty: the framework does not tell


@schema
class StepParts:
    """What the steps of one worker took, in seconds a step; the rest is its own work.

    `exchange_seconds` were spent in collectives, the wait for slower workers included; mean over its devices.
    `input_seconds`: it waited so long for batches; None: not told.
    """

    step_seconds: float
    exchange_seconds: float
    input_seconds: float | None


@schema
class ExchangeCheck:
    """Some steps after the training, each waited for and traced, of all workers at the same time."""

    num_steps: int
    workers: tuple[StepParts, ...]  # in their order

    @property
    def slowest(self) -> int:
        """The worker that the others wait for: it spends the least time in collectives, where the others wait."""
        return min(range(len(self.workers)), key=lambda index: self.workers[index].exchange_seconds)

    @property
    def waiting_seconds(self) -> float:
        """How long the worker that waits the longest waits for the slowest, in a step."""
        times = [worker.exchange_seconds for worker in self.workers]
        return max(times) - min(times)

    @property
    def transfer_seconds(self) -> float:
        """What a step spends in collectives beside waiting for the slowest worker."""
        return self.workers[self.slowest].exchange_seconds
