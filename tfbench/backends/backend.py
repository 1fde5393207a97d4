"""What the measuring process asks of a framework.

A back end is a folder here with a module `backend` that holds a `Backend` named BACKEND, and a module `device_report`,
which `tfbench devices` runs as a process of its own. Each of its parts is most simply a module whose functions are
those of the protocol. What a framework is asked for once and tells of itself is data of `tfbench.records`; datasets,
models, strategies and variables are the framework's own, and go through the worker as they are.

Loading a back end must not import its framework: a run is refused, and GPUs are hidden, before that.
"""

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import numpy.typing as npt

from tfbench.backends.peak import Kernels
from tfbench.backends.placed import Placed
from tfbench.backends.profiling import Call, Profiling
from tfbench.backends.trace import Trace
from tfbench.datasets.sources.splits import SplitName, Splits
from tfbench.machine.usage import GpuMemory
from tfbench.recipe.sections import DistributionConfig, TrainingConfig
from tfbench.records.machine import Environment
from tfbench.records.part import WHOLE, Part
from tfbench.records.placement import Member, Placement, ReplicaCheck
from tfbench.records.run import EffectiveSettings
from tfbench.records.spread import Spread


class Watch(Protocol):
    """Sees where a step runs, from `with` until it is asked."""

    def verify(self, placed: Placed, model: Any) -> None:
        """Ends the watch, and makes sure that variables and step are on the devices asked for.

        Raises:
            MeasurementError: They are elsewhere.
        """


class Placing(Protocol):
    """Devices and strategies: what was asked for, what there is, what was really used."""

    def require_possible(self, config: DistributionConfig, training: TrainingConfig) -> None:
        """Checks what can be checked before the framework is imported, and hides the GPUs from a run on the CPU.

        Raises:
            DeviceError: The devices cannot be used, or the batch does not divide among them.
        """

    def resolve(self, config: DistributionConfig, training: TrainingConfig, member: Member | None = None) -> Placed:
        """Makes exactly the devices ready that were asked for; nothing may have used the framework's devices before.

        Args:
            config: Strategy and devices.
            training: Batch sizes.
            member: Which of several workers this process is; it then waits for the others.

        Raises:
            DeviceError: A device is absent, or the batch does not divide among the replicas.
        """

    def lay_out(self, placed: Placed, config: DistributionConfig, model: Any) -> Placed:
        """Spreads a model, just compiled in the scope, over several devices, where its strategy does not by itself.

        Returns:
            The devices, with what is to be said of it.

        Raises:
            RecipeError: The recipe's layout does not fit the network.
        """

    def gather_figures(self, figures: Sequence[float]) -> list[list[float]]:
        """Returns the figures of every worker, in their order; each of them has to ask at the same time."""

    def tells_exchange(self, placement: Placement) -> bool:
        """Says whether a trace tells what devices placed like this exchange."""

    def trace_exchange(self, work: Call) -> float | None:
        """Returns for how many seconds this worker's devices were in collectives while something was done, on average.

        None: nothing was found in the trace.
        """

    def lost_workers_named(self) -> AbstractContextManager[None]:
        """Returns a context that turns the framework's error about another worker into a MeasurementError.

        Entered before the framework is imported.
        """

    def leave(self) -> None:
        """Waits for all workers to be done, so that none ends while another still needs it."""

    def count_replicas(self) -> int:
        """Returns how many replicas a model has that is built in the scope that is entered now."""

    def watch(self) -> AbstractContextManager[Watch]:
        """Returns what sees where the first step runs."""

    def synchronize(self) -> None:
        """Waits until the devices have finished what they were given."""

    def check_replicas(
        self, model: Any, build_one: Callable[[], Any], batches: Any, placement: Placement
    ) -> ReplicaCheck:
        """Holds a first step of several devices against that of one, and takes it back.

        Args:
            model: Built in the scope, and laid out.
            build_one: Builds the same model once more, for one device; called outside of the scope.
            batches: A data set, as of `Feeding.build_training_dataset`.
            placement: Of the run.
        """

    def require_as_one(self, check: ReplicaCheck, placement: Placement) -> None:
        """Raises MeasurementError unless the devices train as one does."""

    def read_spread(self, model: Any, draw: Callable[[], Any]) -> Spread | None:
        """Reads back where the parts of a model lie, and what moves between devices in a step; None: nothing is told.

        Args:
            model: Laid out.
            draw: Builds batches, as `Feeding.build_training_dataset` does.
        """


class Feeding(Protocol):
    """From stored samples to the batches that training and validation are fed with, as Keras takes them."""

    def require_readable(self, splits: Splits) -> None:
        """Raises DatasetError if samples of any split cannot be read on the way to this framework."""

    def build_training_dataset(
        self, splits: Splits, *, global_batch_size: int, seed: int, first_step: int = 0, part: Part = WHOLE
    ) -> Any:
        """Builds an endless stream of full batches, whose order depends on the seed and the step alone.

        Args:
            splits: The data.
            global_batch_size: Samples of a batch, for all replicas together.
            seed: Of the order, the crops and the mirrors.
            first_step: Steps already done: the stream begins with the batch that would come next.
            part: Of each batch, that this worker is fed with.
        """

    def build_validation_dataset(
        self,
        splits: Splits,
        *,
        batch_size: int,
        split: SplitName = "validation",
        view: int | None = None,
        part: Part = WHOLE,
    ) -> Any:
        """Builds batches that hold every sample of a split once, in order, the last batch short.

        Args:
            splits: The data.
            batch_size: Samples of a batch, for all replicas together.
            split: Which samples.
            view: Which of the data's crops, from 0; None: the centre.
            part: Of each batch, that this worker is fed with.
        """

    def without_targets(self, dataset: Any) -> Any:
        """Returns the inputs alone, for a prediction."""

    def count_ahead(self, splits: Splits, global_batch_size: int) -> int:
        """Returns how many training batches are ready, at most, where nothing took one for a while."""

    def most_ahead(self) -> tuple[int, int]:
        """Returns how many batches of any data are ready, and in the making, at most."""

    def compile_draws(self, batches: Any) -> Callable[[int], None]:
        """Returns what draws a number of batches, on the host, with as little Python in between as training has."""

    def broken_samples_named(self, source: str, files: Sequence[str] = ()) -> AbstractContextManager[None]:
        """Turns the framework's error about data of a source or files into a DatasetError that says which is broken."""


class Resident(Protocol):
    """Training from samples that lie on the device."""

    def build_resident_training(
        self,
        model: Any,
        splits: Splits,
        training: TrainingConfig,
        placed: Placed,
        *,
        steps_per_epoch: int,
        first_step: int,
    ) -> Any:
        """Copies the training samples to the device, and gives a model a training function that takes them there.

        The order of the samples is that of `Feeding.build_training_dataset`. An epoch's last execution does the steps
        that are left of it.

        Args:
            model: Compiled, of one replica.
            splits: The data.
            training: Batch size, seed, steps of an execution, compiler.
            placed: Where the model is.
            steps_per_epoch: After which an epoch ends.
            first_step: Steps already done, whole epochs of them.

        Returns:
            What `fit` is given in place of batches.

        Raises:
            DatasetError: As of `resident_samples.require_in_memory`.
            DeviceError: They do not fit on the device.
        """


class Variables(Protocol):
    """What training changes, for snapshots and for the state that recurrent layers carry from batch to batch."""

    def training_variables(self, model: Any) -> list[Any]:
        """Returns all that training changes in a compiled model, in an order that a model built again has too.

        Each has a shape and a type, and a method `assign`.
        """

    def carried_states(self, model: Any) -> list[Any]:
        """Returns the variables of the state that recurrent layers carry from batch to batch, of all replicas."""

    def to_numpy(self, variable: Any) -> npt.NDArray[Any]:
        """Returns the value of a variable; of several replicas, that of the first."""


class Settings(Protocol):
    """What holds for the whole process, and what was made of it."""

    def set_process_wide(self, training: TrainingConfig) -> None:
        """Sets what the framework only takes before its first operation."""

    def read_settings(self, model: Any, training: TrainingConfig) -> EffectiveSettings:
        """Reads back what framework and Keras will really do with a compiled model, but for `framework_variables`."""

    def process_wide_settings(self) -> dict[str, object]:
        """Returns settings, by what a user knows them as, that a user's own code must leave as they are."""


class Machine(Protocol):
    """What the framework says of itself and of what it runs on."""

    def collect_environment(self) -> Environment:
        """Describes the machine and the versions in use; the framework has been imported."""


class Memory(Protocol):
    """Memory as the framework counts it."""

    def watch_gpus(self, names: Sequence[str]) -> GpuMemory:
        """Returns what reads the peaks of these GPUs, as of `Placed.gpu_names`."""

    def explain_exhaustion(self, error: Exception) -> str | None:
        """Returns what an error says of memory that could not be had; None for an error of another kind."""


class Tracing(Protocol):
    """The framework's own trace of its operations."""

    def trace(self, work: Call, folder: Path | None = None) -> Trace:
        """Does something with the framework's profiler on.

        Args:
            work: What is traced. It should have run before, and leave nothing running.
            folder: Where the trace is kept; None: it is not.

        Raises:
            MeasurementError: No operation was recorded.
        """

    def mark_steps(self, call: Call) -> Call:
        """Returns a call that is marked as a step in a trace, however many steps it does."""

    def part_of(self, name: str) -> tuple[int, str]:
        """Returns to which phase, by its number, and to which part of it an operation of a profiled step belongs."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Backend:
    """A framework, in parts."""

    name: str
    placement: Placing
    feeding: Feeding
    resident: Resident
    variables: Variables
    settings: Settings
    environment: Machine
    memory: Memory
    kernels: Kernels
    profiling: Profiling
    tracing: Tracing | None = None  # None: its operations cannot be told apart
