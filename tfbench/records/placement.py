"""Where a run takes place: devices, replicas and workers, and whether they train as one."""

import dataclasses
from typing import Literal

from tfbench.recipe.mesh import MeshAxis
from tfbench.schema import NaturalNumber, schema

# How batches reach the devices, as `feeding` says; "resident": they are gathered there.
Feed = Literal["direct", "prefetched", "split", "resident"]


@schema
class Placement:
    """Where a run takes place; a run whose variables or first step turn out to be elsewhere fails."""

    strategy: str
    devices: tuple[str, ...]  # "cpu:0", "gpu:1": TensorFlow's numbering, GPUs in the order of their bus
    hardware: tuple[str, ...] = ()  # of each device, as its driver or the kernel names it
    num_replicas: int
    global_batch_size: int
    per_replica_batch_size: int
    cross_device_ops: str | None
    notes: tuple[str, ...] = ()
    unused_gpu: str = ""  # why a GPU of the machine is not seen, where nobody asked for the processor
    feed: Feed | None = None  # None: not recorded
    num_workers: int = 1  # processes, each with its own `devices`; replicas and batches count those of all
    num_machines: int = 1  # that these are on
    mesh: dict[str, int] = dataclasses.field(default_factory=dict)  # of the devices of all workers; {}: no mesh
    # Of each variable that is cut, which axis of the mesh each of its axes lies along.
    layout: dict[str, tuple[MeshAxis | None, ...]] = dataclasses.field(default_factory=dict)

    @property
    def num_devices(self) -> int:
        """Devices of all workers together."""
        return len(self.devices) * self.num_workers


@schema
class ReplicaCheck:
    """Whether sums over several replicas count each of them once, as seen before the clock started."""

    num_replicas: int
    reason: str = ""  # why they may not train as one replica does all the same
    fault: str = ""  # for which the run failed


JOINING = "waiting for the other workers"  # the stage in which workers that train together meet


@schema
class WorkerRank:
    """One of the processes that train together."""

    index: NaturalNumber  # 0: the first, whose journal is the run's
    num_workers: NaturalNumber
    addresses: tuple[str, ...]  # HOST:PORT where the framework meets: the first worker's, or on TensorFlow each one's
