"""What a measurement begins with.

Devices, data and model, made ready in this order before any clock runs.
"""

import dataclasses
import json
import os
import platform
import zlib
from pathlib import Path
from typing import Any

from tfbench import __version__, backends
from tfbench.backends.device_choice import Placed, require_possible
from tfbench.backends.profiling import Call
from tfbench.datasets.sources.splits import SplitName, Splits, count_steps_per_epoch
from tfbench.errors import DeviceError, RecipeError, WorkersError
from tfbench.machine.environment import (
    FRAMEWORK_VARIABLES,
    find_memory,
    find_version,
    list_variables,
)
from tfbench.machine.facts import Environment
from tfbench.machine.frameworks import find_unused_gpu, read_system
from tfbench.machine.usage import UsageMeter, count_other_workers, find_peer_processes, read_memory
from tfbench.measure import checkpoints, data, feed, user_code
from tfbench.measure.breakdown import Breakdown
from tfbench.measure.compiled_model import (
    build_compiled_model,
    notices_kept,
    require_apart,
    summarize_model,
)
from tfbench.measure.guess import guess_step_seconds
from tfbench.measure.process_settings import import_keras, list_unneeded, set_process_wide
from tfbench.models.structure.identity import digest_of_network
from tfbench.recipe import conflicts, tables
from tfbench.recipe.backend_support import BACKEND_TITLES
from tfbench.recipe.sections import TrainingConfig
from tfbench.runs.batch_sizes import BatchSizes
from tfbench.runs.placement_record import JOINING
from tfbench.runs.record import ModelSummary, RunRequest
from tfbench.store.journal import Journal, plain_fields

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
    # resident size of this process in bytes, with libraries, devices and data
    memory_before_model: int
    gpu_addresses: tuple[str, ...]  # on the bus, of the GPUs that the process sees

    @property
    def training(self) -> TrainingConfig:
        """How the model is trained."""
        return self.request.recipe.training

    @property
    def steps_per_epoch(self) -> int:
        """Steps after which an epoch ends."""
        if self.splits.pipeline:
            return self.splits.pipeline.num_steps
        return count_steps_per_epoch(self.splits.train.num_samples, self.training.global_batch_size)

    @property
    def batch_sizes(self) -> BatchSizes:
        """Samples of the steps."""
        if self.splits.pipeline:
            return self.splits.pipeline.batches
        return BatchSizes(size=self.training.global_batch_size)

    @property
    def is_first(self) -> bool:
        """Whether this is the only worker or the first of several.

        The first writes what is the same for all.
        """
        return self.request.worker_rank is None or self.request.worker_rank.index == 0

    @property
    def first_step(self) -> int:
        """Steps that a resumed run had already done."""
        return self.request.resume.num_steps if self.request.resume else 0

    @property
    def evaluation_batch_size(self) -> int:
        """Samples of a batch in an evaluation."""
        return self.training.validation_batch_size or self.training.global_batch_size

    def build_batches(self, first_step: int = 0) -> Any:
        """Builds the endless stream of batches that tfbench makes."""
        return backends.current().build_training_dataset(
            self.splits,
            global_batch_size=self.training.global_batch_size,
            seed=self.training.seed,
            first_step=first_step,
            part=self.request.part,
            num_prefetched=self.training.prefetched_batches,
            num_parallel=self.training.parallel_batches,
        )

    def build_evaluation_batches(self, split: SplitName = "validation") -> Any:
        """Builds the batches that tfbench makes of a split, to evaluate the model."""
        return backends.current().build_validation_dataset(
            self.splits, batch_size=self.evaluation_batch_size, split=split, part=self.request.part
        )

    def measure_usage(self) -> UsageMeter:
        """Begins to measure what all workers of the training here use of the machine."""
        read_gpu_peaks = backends.current().watch_gpus(self.resolved.gpu_names)
        if self.request.worker_rank is None:
            return UsageMeter(read_gpu_peaks, memory_before_model=self.memory_before_model)
        return UsageMeter(read_gpu_peaks, peers=find_peer_processes(self.request.common_name))

    def record(self, kind: str, **instances: Any) -> None:
        """Writes a record of schema instances to the journal."""
        self.journal.append(kind, **plain_fields(**instances))

    def begin_stage(self, name: str) -> None:
        """Writes to the journal what is done now."""
        self.journal.append("stage", name=name)

    def note(self, text: str) -> None:
        """Writes a note for the user to the journal."""
        self.journal.append("note", text=text)

    def finish(self) -> None:
        """Writes to the journal that all is done, and what took the time."""
        self.record("breakdown", breakdown=self.breakdown.record())
        self.journal.append("finished")

    def note_shared_machine(self) -> None:
        """Notes in the journal if another run measured on the machine.

        That is, before this run began or at its end.
        """
        if self.shares_machine or count_other_workers(self.request.common_name):
            self.note(SHARED_MACHINE)


def prepare(
    request: RunRequest, journal: Journal, breakdown: Breakdown, wait_for_start: Call
) -> Prepared:
    """Makes devices, data and model ready, says so in the journal, and waits for the sign to begin.

    Args:
        request: The run.
        journal: Receives "stage", "placed", "note" and "ready" records.
        breakdown: Told of what takes the time.
        wait_for_start: Called when all is ready; returns when the measurement may begin.

    Raises:
        TfbenchError: The run is rejected.
    """
    recipe = request.recipe
    variables = list_variables(FRAMEWORK_VARIABLES)
    resolved, environment = _start_framework(request, journal)

    breakdown.switch("data")
    splits = _load_splits(request, journal)
    feed.require_parts(request, splits, resolved.placement.num_replicas)

    memory_before_model = read_memory()
    breakdown.switch("model")
    journal.append("stage", name="building the model")
    with resolved.scope(), notices_kept() as notices:
        limit_bytes = find_memory(environment, resolved.placement)
        model, resolved, digest = _build_model(request, splits, resolved, limit_bytes)
    for notice in notices:
        journal.append("note", text=notice)
    settings = backends.current().read_settings(model, recipe.training)
    settings = dataclasses.replace(settings, framework_variables=variables)
    prepared = Prepared(
        request=request,
        journal=journal,
        breakdown=breakdown,
        splits=splits,
        model=model,
        resolved=resolved,
        summary=summarize_model(model, digest, user_code.find_files(recipe.model)),
        shares_machine=count_other_workers(request.common_name) > 0,
        memory_before_model=memory_before_model,
        gpu_addresses=settings.gpu_addresses,
    )
    journal.append(
        "ready",
        steps_per_epoch=prepared.steps_per_epoch,
        step_guess=guess_step_seconds(
            request, prepared.summary, resolved, prepared.steps_per_epoch
        ),
        **plain_fields(
            placement=resolved.placement,
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


def _start_framework(request: RunRequest, journal: Journal) -> tuple[Placed, Environment]:
    """Imports the framework, makes the devices ready, and meets the other workers.

    Raises:
        DeviceError: The devices cannot be used, or are too many for a profile.
        WorkersError: The workers are not alike.
    """
    recipe = request.recipe
    training = recipe.training
    rank = request.worker_rank
    gpu_facts = read_system(Path("/"), os.environ)  # before GPUs are hidden from the framework
    require_possible(recipe.distribution, training)
    journal.append("stage", name=f"starting {BACKEND_TITLES[training.backend]}")
    import_keras(training.backend, list_unneeded(training.backend, is_users=recipe.is_users))
    set_process_wide(recipe)
    backend = backends.current()
    if rank:
        journal.append("stage", name=JOINING)
    resolved = backend.resolve(recipe.distribution, training, rank)
    environment = backend.collect_environment()
    unused_gpu = find_unused_gpu(resolved.placement, recipe, gpu_facts, environment)
    placement = dataclasses.replace(resolved.placement, unused_gpu=unused_gpu)
    journal.append("placed", **plain_fields(placement=placement))
    if rank:
        placement = dataclasses.replace(placement, num_machines=require_alike(request))
    if request.profile and placement.num_devices > 1:
        raise DeviceError(
            "a profile is of the step of one replica. Received:"
            f" {', '.join(placement.devices)}. Use --devices"
            f" {placement.devices[0]}; `tfbench scale RECIPE` says what more replicas cost."
        )
    return dataclasses.replace(resolved, placement=placement), environment


def _load_splits(request: RunRequest, journal: Journal) -> Splits:
    """Loads the data.

    Raises:
        RecipeError: The data does not fit the recipe's training.
    """
    recipe = request.recipe
    config = recipe.dataset
    allows_code = request.allows_code
    journal.append("stage", name="loading data")
    if config.name == data.NETWORK:
        splits = data.make_splits(config, recipe.model, allows_code=allows_code)
    else:
        splits = data.load_data(
            config,
            request.data_dir,
            seed=recipe.training.seed,
            batch_size=recipe.training.global_batch_size,
            allows_code=allows_code,
        )
    if recipe.training.feed == "fit" and not splits.pipeline and not request.profile:
        splits = feed.hand_to_fit(splits, request)
    if splits.pipeline:
        feed.require_usable(splits, request)
    for note in splits.notes:
        journal.append("note", text=note)
    # Only the user's own code may have known how large the data is.
    if misfits := conflicts.find_misfits(splits.spec, config.name, recipe.training):
        raise RecipeError("\n".join(misfits))
    return splits


def _build_model(
    request: RunRequest, splits: Splits, resolved: Placed, limit_bytes: int | None
) -> tuple[Any, Placed, str]:
    """Builds and compiles the model.

    Returns it with the devices that it is laid out on, and the digest of a network of the user's.
    To be called in the strategy's scope.

    Raises:
        RecipeError: The model cannot be trained, or its weights take more than `limit_bytes`.
    """
    recipe = request.recipe
    training = recipe.training
    backend = backends.current()
    model = build_compiled_model(
        recipe.model,
        training,
        splits.spec,
        allows_code=request.allows_code,
        splits=splits,
        given=request.overrides,
        limit_bytes=limit_bytes,
    )
    resolved = backend.lay_out(resolved, recipe.distribution, model)
    if training.data_on_device:
        backend.require_resident(splits, model)
    if request.profile:
        require_apart(model, splits)
    digest = ""
    if user_code.find_files(recipe.model):
        digest = digest_of_network(model)  # before a checkpoint may change its learning rate
    if request.resume:
        checkpoints.resume_training(model, request.resume)
    return model, resolved, digest


def require_alike(request: RunRequest) -> int:
    """Compares this worker's request with those of the other workers.

    All workers do so at the same time.

    Returns:
        On how many machines they are.

    Raises:
        WorkersError: A worker has another request, or other versions.
    """
    backend = backends.current()
    parts = _list_parts(request)
    texts = [json.dumps(part, sort_keys=True) for part in (*parts.values(), platform.node())]
    rows = backend.gather_figures([float(zlib.crc32(text.encode())) for text in texts])
    for index, row in enumerate(rows):
        pairs = zip(parts, rows[0], row, strict=False)
        differing = [name for name, first, other in pairs if first != other]
        if differing:
            backend.leave()  # all workers know it now; the first to end would end the others
            raise WorkersError(
                f"worker {index} has another {', '.join(differing)} than worker 0. Start the same"
                " command, with the same versions, for each worker."
            )
    return len({row[-1] for row in rows})


def _list_parts(request: RunRequest) -> dict[str, Any]:
    """Returns what must be the same for all workers, by the names that an error gives it."""
    recipe_tables = tables.to_tables(request.recipe).items()
    parts: dict[str, Any] = {f"[{name}] of the recipe": table for name, table in recipe_tables}
    parts["--resume"] = request.resume.run_id if request.resume else ""
    parts["version of tfbench"] = __version__
    for name in ("keras", request.recipe.training.backend):
        parts[f"version of {name}"] = find_version(name) or find_version(f"{name}-cpu")
    return parts
