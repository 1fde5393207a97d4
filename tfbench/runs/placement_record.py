"""Where a run takes place: devices, replicas, workers, and the parts of its network."""

import dataclasses
from typing import Any, Literal

from tfbench.recipe.mesh import Layout
from tfbench.schema import NaturalNumber, schema

# How batches reach the devices, as `feed_alike` says; "resident": they are gathered there.
Feed = Literal["direct", "prefetched", "split", "resident"]


@schema
class Placement:
    """Where a run takes place.

    A run whose variables or first step turn out to be elsewhere fails.
    """

    strategy: str
    # "cpu:0", "gpu:1": TensorFlow's numbering, GPUs in the order of their bus
    devices: tuple[str, ...]
    hardware: tuple[str, ...] = ()  # of each device, as its driver or the kernel names it
    num_replicas: int
    global_batch_size: int
    per_replica_batch_size: int
    cross_device_ops: str | None
    notes: tuple[str, ...] = ()
    # why a GPU of the machine is not seen, where nobody asked for the processor
    unused_gpu: str = ""
    feed: Feed | None = None  # None: not recorded
    # processes, each with its own `devices`; replicas and batches count those of all
    num_workers: int = 1
    num_machines: int = 1  # that these are on
    # of the devices of all workers; {}: no mesh
    mesh: dict[str, int] = dataclasses.field(default_factory=dict)
    # Of each variable that is cut, which axis of the mesh each of its axes lies along.
    layout: Layout = dataclasses.field(default_factory=dict)

    @property
    def num_devices(self) -> int:
        """Devices of all workers together."""
        return len(self.devices) * self.num_workers


@schema
class ReplicaCheck:
    """A check that sums over replicas count each replica once.

    It is made before the clock starts.
    """

    num_replicas: int
    reason: str = ""  # why they may not train as one replica does all the same
    fault: str = ""  # for which the run failed


JOINING = "waiting for the other workers"  # the stage in which workers that train together meet


@schema
class WorkerRank:
    """One of the processes that train together."""

    index: NaturalNumber  # 0: the first, whose journal is the run's
    num_workers: NaturalNumber
    # HOST:PORT where the framework meets: the first worker's, or on TensorFlow each one's
    addresses: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class BatchPart:
    """One of equal parts, in order."""

    index: int
    count: int

    def bounds(self, size: Any) -> tuple[Any, Any]:
        """Returns the first row of this part, and the one after its last.

        Parts of rows that do not divide differ by one row; with fewer rows than parts, some parts
        are empty.

        Args:
            size: Number of all rows: an integer, or a tensor of one.
        """
        return size * self.index // self.count, size * (self.index + 1) // self.count

    def size_of(self, size: int) -> int:
        """Returns how many rows this part has, of so many."""
        start, stop = self.bounds(size)
        return int(stop - start)

    def of(self, rows: Any) -> Any:
        """Returns this part of an array's rows."""
        start, stop = self.bounds(len(rows))
        return rows[start:stop]


WHOLE = BatchPart(0, 1)


@schema
class VariableParts:
    """A variable, and its part on a device."""

    name: str
    shape: tuple[int, ...]
    part_shape: tuple[int, ...]


@schema
class Collective:
    """Operations of one kind in the compiled step, by which devices exchange something."""

    operation: str  # XLA's name: "all-reduce"
    num: int
    num_bytes: int  # of all their results


@schema
class ModelLayout:
    """Where the parts of a network lie, and what moves between devices in a step."""

    variables: tuple[VariableParts, ...]
    # of weights and the optimizer's variables, on each device of this worker
    bytes_per_device: tuple[int, ...]
    # of the compiled step; empty: not known
    collectives: tuple[Collective, ...] = ()


@schema
class StepParts:
    """What the steps of one worker took, in seconds per step.

    `exchange_seconds` were spent in collectives, the wait for slower workers included; mean over
    its devices. The rest is its own work.
    """

    step_seconds: float
    exchange_seconds: float


@schema
class ExchangeCheck:
    """Some steps that all workers traced at the same time after the training, one by one."""

    num_steps: int
    workers: tuple[StepParts, ...]  # in their order

    @property
    def step_seconds(self) -> float:
        """The longest step of a worker."""
        return max(worker.step_seconds for worker in self.workers)

    @property
    def slowest(self) -> int:
        """The worker that the others wait for.

        It spends the least time in collectives, where the others wait.
        """
        times = self._exchange_times()
        return times.index(min(times))

    @property
    def waiting_seconds(self) -> float:
        """How long the worker that waits the longest waits for the slowest, in a step."""
        return max(self._exchange_times()) - self.transfer_seconds

    @property
    def transfer_seconds(self) -> float:
        """What a step spends in collectives beside waiting for the slowest worker."""
        return min(self._exchange_times())

    def _exchange_times(self) -> list[float]:
        return [worker.exchange_seconds for worker in self.workers]
