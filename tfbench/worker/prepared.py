"""What a measurement begins with.

Devices, data and model, made ready in this order before any clock runs.
"""

import contextlib
import dataclasses
import json
import os
import platform
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tfbench import __version__, backends
from tfbench.backends.device_choice import Placed, require_possible
from tfbench.datasets.sources.splits import SplitName, Splits, count_steps_per_epoch
from tfbench.errors import DeviceError, Notice, RecipeError, WorkersError
from tfbench.machine.devices import find_unused_gpu, read_system
from tfbench.machine.environment import FRAMEWORK_VARIABLES, find_version, list_variables
from tfbench.machine.usage import UsageMeter, count_other_workers, find_peer_processes, read_memory
from tfbench.recipe import conflicts, tables
from tfbench.recipe.backend_support import BACKEND_TITLES
from tfbench.recipe.sections import TrainingConfig
from tfbench.records.journal import Journal, plain_fields
from tfbench.records.placement import JOINING
from tfbench.records.run import ModelSummary, RunRequest
from tfbench.worker import checkpoints, data, user_code
from tfbench.worker.breakdown import Breakdown
from tfbench.worker.compiled_model import build_compiled_model, require_apart, summarize_model
from tfbench.worker.process_settings import import_keras, list_unneeded, set_process_wide

SHARED_MACHINE = (
    "Another tfbench run measured at the same time. Speed may be too low. Measure one at a time."
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """What a measurement begins with."""

    request: RunRequest
    journal: Journal
    breakdown: Breakdown
    splits: Splits
    model: Any  # keras.Model, compiled
    resolved: Placed
    summary: ModelSummary
    shares_machine: bool  # another run was measuring here already
    memory_before_model: (
        int  # resident size of this process in bytes, with libraries, devices and data
    )
    gpu_addresses: tuple[str, ...]  # on the bus, of those that the process sees

    @property
    def training(self) -> TrainingConfig:
        """How the model is trained."""
        return self.request.recipe.training

    @property
    def steps_per_epoch(self) -> int:
        """Steps after which an epoch ends."""
        return count_steps_per_epoch(self.splits.train.num_samples, self.training.global_batch_size)

    @property
    def is_first(self) -> bool:
        """Whether this is the only worker or the first of several.

        The first writes what all would find alike.
        """
        return self.request.worker_rank is None or self.request.worker_rank.index == 0

    @property
    def first_step(self) -> int:
        """Steps that were done when a run is gone on with."""
        return self.request.resume.num_steps if self.request.resume else 0

    @property
    def evaluation_batch_size(self) -> int:
        """Samples of a batch that the model is judged by."""
        return self.training.validation_batch_size or self.training.global_batch_size

    def build_batches(self, first_step: int = 0) -> Any:
        """Builds the endless stream of batches that the model is trained with."""
        return backends.current().build_training_dataset(
            self.splits,
            global_batch_size=self.training.global_batch_size,
            seed=self.training.seed,
            first_step=first_step,
            part=self.request.part,
        )

    def build_evaluation_batches(self, split: SplitName = "validation") -> Any:
        """Builds the batches of a split that the model is judged by."""
        return backends.current().build_validation_dataset(
            self.splits, batch_size=self.evaluation_batch_size, split=split, part=self.request.part
        )

    def measure_usage(self) -> UsageMeter:
        """Begins to measure what the training takes of the machine, by all of its workers there."""
        read_gpu_peaks = backends.current().watch_gpus(self.resolved.gpu_names)
        if self.request.worker_rank is None:
            return UsageMeter(read_gpu_peaks, memory_before_model=self.memory_before_model)
        return UsageMeter(
            read_gpu_peaks, fellows=find_peer_processes(self.request.worker_rank.addresses[0])
        )

    def note_shared_machine(self) -> None:
        """Notes in the journal if another run measured on the machine.

        It counts if it did so before this run began or at its end.
        """
        if self.shares_machine or _shares_machine(self.request):
            self.journal.append("note", text=SHARED_MACHINE)


def prepare(
    request: RunRequest, journal: Journal, breakdown: Breakdown, wait_for_start: Callable[[], None]
) -> Prepared:
    """Makes devices, data and model ready, says so in the journal, and waits for the sign to begin.

    Args:
        request: The run.
        journal: Receives "stage", "note" and "ready" records.
        breakdown: Told of what takes the time.
        wait_for_start: Called when all is ready; returns when the measurement may begin.

    Raises:
        TfbenchError: The run is rejected.
    """
    recipe = request.recipe
    training = request.recipe.training
    variables = list_variables(FRAMEWORK_VARIABLES)
    gpu_facts = read_system(Path("/"), os.environ)  # before GPUs are hidden from the framework
    require_possible(recipe.distribution, training)

    journal.append("stage", name=f"starting {BACKEND_TITLES[training.backend]}")
    import_keras(training.backend, list_unneeded(training.backend, is_users=recipe.is_users))
    set_process_wide(recipe)
    backend = backends.current()
    if request.worker_rank:
        journal.append("stage", name=JOINING)
    resolved = backend.resolve(recipe.distribution, training, request.worker_rank)
    environment = backend.collect_environment()
    unused_gpu = find_unused_gpu(resolved.placement, recipe, gpu_facts, environment)
    journal.append(
        "placed",
        **plain_fields(placement=dataclasses.replace(resolved.placement, unused_gpu=unused_gpu)),
    )
    num_machines = require_alike(request) if request.worker_rank else 1
    if request.profile and resolved.placement.num_devices > 1:
        raise DeviceError(
            "a profile is of the step of one replica. Received:"
            f" {', '.join(resolved.placement.devices)}. Name one of them; `tfbench scale` says what"
            " more replicas cost."
        )

    breakdown.switch("data")
    journal.append("stage", name="loading data")
    if recipe.dataset.name == data.NETWORK:
        splits = data.make_splits(recipe.dataset, recipe.model, allows_code=request.allows_code)
    else:
        splits = data.load_data(
            recipe.dataset, request.data_dir, seed=training.seed, allows_code=request.allows_code
        )
    for note in splits.notes:
        journal.append("note", text=note)
    misfits = conflicts.find_misfits(splits.spec, recipe.dataset.name, training)
    if misfits:  # of data whose size only the user's own code knew
        raise RecipeError("\n".join(misfits))

    memory_before_model = read_memory()
    breakdown.switch("model")
    journal.append("stage", name="building the model")
    with resolved.scope(), _notices_recorded(journal):
        model = build_compiled_model(
            recipe.model,
            training,
            splits.spec,
            allows_code=request.allows_code,
            splits=splits,
            given=request.overrides,
        )
        resolved = backend.lay_out(resolved, recipe.distribution, model)
        if training.data_on_device:
            backend.require_resident(splits, model)
        if request.profile:
            require_apart(model, splits)
        if request.resume:
            checkpoints.resume_training(model, request.resume)
    settings = dataclasses.replace(
        backend.read_settings(model, training), framework_variables=variables
    )
    prepared = Prepared(
        request=request,
        journal=journal,
        breakdown=breakdown,
        splits=splits,
        model=model,
        resolved=resolved,
        summary=summarize_model(model, user_code.find_digest(recipe.model)),
        shares_machine=_shares_machine(request),
        memory_before_model=memory_before_model,
        gpu_addresses=settings.gpu_addresses,
    )
    journal.append(
        "ready",
        steps_per_epoch=prepared.steps_per_epoch,
        **plain_fields(
            placement=dataclasses.replace(
                resolved.placement, unused_gpu=unused_gpu, num_machines=num_machines
            ),
            settings=settings,
            environment=environment,
            dataset=data.summarize_data(recipe.dataset, splits),
            model=prepared.summary,
        ),
    )
    breakdown.switch("waiting")
    wait_for_start()
    breakdown.switch(None)
    return prepared


def _shares_machine(request: RunRequest) -> bool:
    return (
        count_other_workers(
            request.worker_rank.addresses[0] if request.worker_rank else request.run_id
        )
        > 0
    )


@contextlib.contextmanager
def _notices_recorded(journal: Journal) -> Iterator[None]:
    """Writes what is noticed while a model is built to the journal."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Notice)
        yield
    for warning in caught:
        if issubclass(warning.category, Notice):
            journal.append("note", text=str(warning.message))


def require_alike(request: RunRequest) -> int:
    """Compares this worker's request with those of the other workers.

    All workers do so at the same time.

    Returns:
        On how many machines they are.

    Raises:
        WorkersError: One was asked for something else, or has other versions.
    """
    own = _list_parts(request)
    texts = [json.dumps(part, sort_keys=True).encode() for part in (*own.values(), platform.node())]
    rows = backends.current().gather_figures([float(zlib.crc32(text)) for text in texts])
    for index, row in enumerate(rows):
        differing = [
            name for name, first, other in zip(own, rows[0], row, strict=False) if first != other
        ]
        if differing:
            backends.current().leave()  # all know it now; who ends first would end the others
            raise WorkersError(
                f"worker {index} has another {', '.join(differing)} than worker 0. Start the same"
                " command, with the same versions, for each worker."
            )
    return len({row[-1] for row in rows})


def _list_parts(request: RunRequest) -> dict[str, Any]:
    """Returns what must be the same, by the names that differences are told by."""
    backend = request.recipe.training.backend
    recipe = tables.to_tables(request.recipe)
    return {
        **{f"[{name}] of the recipe": table for name, table in recipe.items()},
        "--resume": request.resume.run_id if request.resume else "",
        "version of tfbench": __version__,
        **{
            f"version of {name}": find_version(name) or find_version(f"{name}-cpu")
            for name in ("keras", backend)
        },
    }
