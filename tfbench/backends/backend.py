"""What the measuring process asks of a framework.

A backend is a folder here with a module `backend` that holds a subclass of `Backend`. The methods
here are for one device, and for batches that NumPy makes. What a framework reports about itself is
data of `tfbench.runs.record`; datasets, models, strategies and variables are the framework's own,
and go through the worker as they are.

Loading a backend imports its framework: a run is rejected, and GPUs are hidden, before that; see
`device_choice`.
"""

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from tfbench.backends.array_feeding import ArrayFeeding, Transform
from tfbench.backends.device_choice import Placed, choose_devices, list_visible
from tfbench.backends.peak import Run, Sizes
from tfbench.backends.profiling import Call, ProfiledBatches, StepCalls, Trace
from tfbench.machine import gpus
from tfbench.machine.environment import cpu_model, describe_environment
from tfbench.machine.facts import Environment
from tfbench.machine.frameworks import Framework
from tfbench.recipe.backend_support import BackendName
from tfbench.recipe.device_names import require_fitting
from tfbench.recipe.sections import DistributionConfig, TrainingConfig
from tfbench.runs.placement_record import Feed, ModelLayout, Placement, ReplicaCheck, WorkerRank
from tfbench.runs.record import EffectiveSettings


class Backend(ArrayFeeding):
    """A framework."""

    name: BackendName  # what it is, and what it runs on
    gpu_feed: Feed = "direct"  # how batches get to one GPU
    # what it raises where memory ran out, and what such an error says
    memory_error: type[Exception]
    memory_signs: tuple[str, ...]
    put: Transform  # brings an array of NumPy's to the device
    epoch_iterator: Callable[[Any], Any]  # what `fit` makes of a stream of batches

    def list_gpus(self) -> tuple[str, ...]:
        """Returns the hardware of the GPUs that this process sees, in the framework's order."""
        raise NotImplementedError

    def describe_versions(self) -> dict[str, Any]:
        """Returns its versions, as fields of `Environment`: `NAME`, and `NAME_cuda` for CUDA."""
        raise NotImplementedError

    def collect_environment(self) -> Environment:
        """Describes the machine and the versions in use; the framework has been imported."""
        return describe_environment(**self.describe_versions())

    def report_devices(self) -> Framework:
        """Returns what `tfbench devices` shows of it; takes the seconds that importing it takes."""
        versions = self.describe_versions()
        return Framework(
            name=self.name,
            version=versions[self.name],
            cuda=versions[f"{self.name}_cuda"],
            gpus=self.list_gpus(),
        )

    # What holds for the whole process.

    def set_process_wide(self, training: TrainingConfig) -> None:
        """Sets what the framework only takes before its first operation."""
        raise NotImplementedError

    def process_wide_settings(self) -> dict[str, object]:
        """Returns the settings that a user's own code must leave as they are, by users' names."""
        raise NotImplementedError

    def read_settings(self, model: Any, training: TrainingConfig) -> EffectiveSettings:
        """Reads back the effective settings of framework and Keras for a compiled model.

        `framework_variables` are left out.
        """
        num_gpus = len(self.list_gpus())
        visible = tuple(f"GPU:{index}" for index in range(num_gpus))
        common = {
            "backend": keras.backend.backend(),
            "precision": keras.config.dtype_policy().name,
            "steps_per_execution": int(model.steps_per_execution),
            "intra_op_threads": 0,
            "inter_op_threads": 0,
            "seed": training.seed,
            "soft_device_placement": False,
            "image_data_format": keras.config.image_data_format(),
            "visible_gpus": visible,
            "gpu_addresses": gpus.find_addresses(visible),
            "xla_flags": "",
            "onednn": "",
        }
        return EffectiveSettings(**common | self.read_own_settings(model, training))

    def read_own_settings(self, model: Any, training: TrainingConfig) -> dict[str, Any]:
        """Returns the settings that only the framework knows."""
        raise NotImplementedError

    # Devices and strategies: what was asked for, what there is, what was really used.

    def resolve(
        self, config: DistributionConfig, training: TrainingConfig, rank: WorkerRank | None = None
    ) -> Any:
        """Makes exactly the devices ready that were asked for.

        Nothing may have used the framework's devices before.

        Args:
            config: Strategy and devices.
            training: Batch sizes.
            rank: Which of several workers this process is; it then waits for the others.

        Returns:
            The devices, as of `Placed`.

        Raises:
            DeviceError: A device is absent, or the batch does not divide among the replicas.
        """
        gpu_names = self.list_gpus()
        visible = list_visible(config, len(gpu_names))
        (device,) = choose_devices(config, training, visible, takes_all=False)
        require_fitting((device,), config, training)
        is_gpu = device.kind == "gpu"
        placement = Placement(
            strategy=config.strategy,
            devices=(str(device),),
            num_replicas=1,
            global_batch_size=training.global_batch_size,
            per_replica_batch_size=training.global_batch_size,
            cross_device_ops=None,
            hardware=(gpu_names[0] if is_gpu else cpu_model(),),
            feed=self.gpu_feed if is_gpu else "direct",
        )
        return Placed(placement, (f"{device.kind}:0",))

    def lay_out(self, placed: Any, config: DistributionConfig, model: Any) -> Any:
        """Spreads a model that was just compiled over devices, where its strategy does not.

        Returns:
            The devices, with notes on the layout.

        Raises:
            RecipeError: The recipe's layout does not fit the network.
        """
        return placed

    def count_replicas(self) -> int:
        """Returns how many replicas a model has that is built in the current scope."""
        return 1

    def watch(self) -> AbstractContextManager[Any]:
        """Returns a context that sees where the first step runs.

        Its method `verify` does what the one below does, and ends the watch.
        """
        return contextlib.nullcontext(self)

    def verify(self, placed: Any, model: Any) -> None:
        """Makes sure that what was trained is on the devices asked for.

        Raises:
            MeasurementError: It is elsewhere.
        """
        raise NotImplementedError

    def synchronize(self) -> None:
        """Waits until the devices have finished what they were given."""
        raise NotImplementedError

    # Several devices, of one process or of several.

    def gather_figures(self, figures: Sequence[float]) -> list[list[float]]:
        """Returns the figures of every worker, in their order; all must ask at the same time."""
        return [list(figures)]

    def explain_lost_worker(self, error: Exception) -> str:
        """Returns what an error says of a worker that ended, or answers no more.

        "" for an error of another kind.
        """
        return ""

    def leave(self) -> None:
        """Waits for all workers to be done, so that none ends while another still needs it."""

    def check_replicas(self, model: Any, placement: Placement) -> ReplicaCheck | None:
        """Makes sure that sums over replicas count each of them once.

        None where a step is one program for all devices.

        Args:
            model: Built in the scope, and laid out.
            placement: Of the run.
        """
        return None

    def read_spread(self, model: Any, draw: Callable[[], Any]) -> ModelLayout | None:
        """Reads back where the parts of a model lie, and what moves between devices in a step.

        None where the framework does not show it.

        Args:
            model: Laid out.
            draw: Builds batches, as `build_training_dataset` does.
        """
        return None

    def tells_exchange(self, placement: Placement) -> bool:
        """Says whether a trace shows what devices placed like this exchange."""
        return False

    def trace_exchange(self, work: Call) -> float | None:
        """Returns the mean seconds that this worker's devices spend in collectives during `work`.

        None: the trace shows none.
        """
        return None

    # TensorFlow's alone, of `tensorflow.resident`: recipes are rejected that ask it of others.
    require_resident: Callable[..., None]
    build_resident_training: Callable[..., Any]

    # What training changes, for checkpoints and for the state that recurrent layers carry from
    # batch to batch.

    def training_variables(self, model: Any) -> list[Any]:
        """Returns all that training changes in a compiled model, in a reproducible order.

        These are weights, seed generators, the optimizer's variables, and what Keras does not count
        as a model's: the state that recurrent layers carry from batch to batch. Each has a shape
        and a type, and a method `assign`. A model that is built again has the same order.
        """
        return [
            *model.trainable_variables,
            *chain.from_iterable(map(self.copies_of, model.non_trainable_variables)),
            *self.carried_states(model),
            *model.optimizer.variables,
        ]

    def carried_states(self, model: Any) -> list[Any]:
        """Returns the variables, of all replicas, that recurrent layers carry between batches."""
        stateful = [layer for layer in model.layers if getattr(layer, "stateful", False)]
        states = [getattr(layer, "states", None) or () for layer in stateful]
        return list(chain.from_iterable(map(self.copies_of, keras.tree.flatten(states))))

    def copies_of(self, variable: Any) -> Sequence[Any]:
        """Returns a Keras variable's copies, whose values may differ by replica."""
        return (variable,)

    def to_numpy(self, variable: Any) -> npt.NDArray[Any]:
        """Returns the value of a variable; of several replicas, that of the first."""
        return np.array(keras.ops.convert_to_numpy(variable.value))

    # Memory as the framework counts it.

    def watch_gpus(self, names: Sequence[str]) -> Callable[[], tuple[int, ...]]:
        """Resets the peaks of GPUs, named as in `Placed.gpu_names`; returns what reads them."""
        for name in names:
            self.forget_peak(name)

        return lambda: tuple(peak for peak in map(self.read_peak, names) if peak is not None)

    def read_peak(self, name: str) -> int | None:
        """Returns the most bytes in use on a GPU since `forget_peak`; None: nothing counts them."""
        raise NotImplementedError

    def forget_peak(self, name: str) -> None:
        """Resets the peak of a GPU, where that is possible."""

    def explain_out_of_memory(self, error: Exception) -> str | None:
        """Returns what an error says about memory that ran out.

        None for an error of another kind.
        """
        text = str(error)
        is_of_memory = isinstance(error, self.memory_error) and any(
            sign in text for sign in self.memory_signs
        )
        return text if is_of_memory else None

    # How fast devices are, as the backend names them.

    def build_products(self, devices: Sequence[str], sizes: Sizes, dtype: str, chain: int) -> Run:
        """Returns a function that multiplies random matrices on all devices at once.

        Each call does `chain` products in a row. The first is of `sizes`; the next ones go there
        and back again, so that each has these sizes. Numbers are random, since products of equal
        numbers take less power, and so run at a higher clock. They are normal with a variance of
        one by the number of rows, so that a product's values are as large as its factors'.
        """
        raise NotImplementedError

    def build_additions(self, devices: Sequence[str], size: int, chain: int) -> Run:
        """Returns a function that adds one array to another, in place, `chain` times a call.

        Both have `size` float32 values.
        """
        raise NotImplementedError

    # A step taken apart.

    def build_batches(self, dataset: Any, placed: Placed) -> ProfiledBatches:
        """Takes some batches of a recipe's endless stream, for a profile of its step."""

        def iterate(stream: Any) -> Any:
            return iter(self.epoch_iterator(stream)._get_iterator())

        return ProfiledBatches(dataset, put=self.put, iterate=iterate)

    def build_step(self, model: Any, batches: Any, placed: Placed) -> StepCalls:
        """Takes the step of a compiled model apart.

        Args:
            model: Built in the scope of one replica.
            batches: As of `build_batches`.
            placed: Where it runs.
        """
        raise NotImplementedError

    def trace(self, work: Call, folder: Path | None = None) -> Trace:
        """Does something with the framework's profiler on.

        Args:
            work: What is traced. It should have run before, and leave nothing running.
            folder: Where the trace is kept; None: it is not.

        Raises:
            MeasurementError: No operation was recorded.
        """
        # JAX has none: recipes that need it are rejected, since a trace mixes its operations.
        raise NotImplementedError

    def step_mark(self, number: int) -> AbstractContextManager[Any]:
        """Returns a context in which a step is traced."""
        raise NotImplementedError

    def part_of(self, name: str) -> tuple[int, str]:
        """Returns the phase's number, and the part of it, of an operation of a profiled step."""
        raise NotImplementedError
