"""What is asked of a scheduler of a cluster: to run tasks on machines of its own, and to say what became of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from tfbench.records.sweep import SweepPlan
from tfbench.records.tasks import Task


class TaskEnd(NamedTuple):
    """How a task ended, as its scheduler has it.

    "ENDED": its command is over. "LOST": the machine is gone, or was taken away, and another one may make the task.
    "FAILED": it cannot be made as it was asked for, on another machine no more than there.
    """

    task: int  # its number
    outcome: Literal["ENDED", "LOST", "FAILED"]
    machine: str = ""  # "": it never got one
    reason: str = ""  # of "ENDED": what its command said last, if that may tell why not all of its runs are there


class Engine(Protocol):
    """A scheduler; each task gets a machine for itself, and the scheduler tries none again by itself."""

    notes: list[str]  # what the user is to know, once it has attached

    def attach(self, tasks: Sequence[Task]) -> list[int]:
        """Returns the numbers of those tasks that an earlier command submitted and that go on; they are watched, too.

        Raises:
            DeviceError: A task needs a machine that the cluster does not have, or the cluster cannot be used.
        """

    def submit(self, tasks: Sequence[Task]) -> None:
        """Asks for tasks to be made.

        Raises:
            DeviceError: The cluster refuses them.
        """

    def poll(self) -> list[TaskEnd]:
        """Brings back what there is of the tasks, and returns those that ended since the last call.

        Raises:
            DeviceError: The cluster is gone.
        """

    def list_sources(self) -> list[Path]:
        """Returns the folders of stores to which journals and tasks' records came back."""

    def cancel(self) -> None:
        """Asks for all tasks to be stopped that it was asked for, and waits until they are or a while is over."""

    def forget(self) -> None:
        """Removes its copies of what is in the sweep's store now, if it made any."""

    def close(self) -> None:
        """Lets go of the cluster."""


class EngineSetting(NamedTuple):
    """What every adapter is told."""

    plan: SweepPlan
    plan_path: Path  # of the plan's file, absolute
    store_root: Path  # of the sweep, absolute
    node_store: Path  # a folder on each machine that outlasts its tasks, absolute
    options: dict[str, str]  # as of --engine-option


def open_engine(name: str, setting: EngineSetting) -> Engine:
    """Returns an adapter: "ray" or "slurm".

    Raises:
        RecipeError: An option is not known to it.
        DeviceError: What it needs is not installed.
    """
    if name == "ray":
        from tfbench.sweeps.engines.ray import RayEngine

        return RayEngine(setting)
    from tfbench.sweeps.engines.slurm import SlurmEngine

    return SlurmEngine(setting)
