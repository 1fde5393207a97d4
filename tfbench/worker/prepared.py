"""What a measurement begins with: devices, data and model, made ready in this order before any clock runs."""

import contextlib
import dataclasses
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tfbench import backends
from tfbench.backends import resident_samples
from tfbench.backends.one_device import Placed
from tfbench.datasets.sources import synthetic
from tfbench.datasets.sources.splits import SplitName, Splits, count_steps_per_epoch
from tfbench.errors import DeviceError, Notice, RecipeError
from tfbench.machine.devices import read_system, with_unused_gpu
from tfbench.machine.environment import find_framework_variables
from tfbench.machine.usage import UsageMeter, count_other_workers, find_fellows, read_memory
from tfbench.recipe import conflicts, registry
from tfbench.recipe.backend_support import BACKEND_TITLES
from tfbench.recipe.sections import DatasetConfig, TrainingConfig
from tfbench.records.journal import Journal, plain_fields
from tfbench.records.placement import JOINING
from tfbench.records.run import DatasetSummary, ModelSummary, RunRequest
from tfbench.worker import checkpoints, network_data, user_code
from tfbench.worker.breakdown import Breakdown
from tfbench.worker.compiled_model import build_compiled_model
from tfbench.worker.model_summary import require_apart, summarize_model
from tfbench.worker.process_settings import import_keras, set_process_wide
from tfbench.worker.workers_agree import require_alike

SHARED_MACHINE = (
    "another tfbench run was measuring on this machine at the same time: times may be too long. Measure one at a time."
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
    memory_before_model: int  # resident size of this process in bytes, with libraries, devices and data
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
        """Whether this is the first of several workers, which writes what all would find alike, or the only one."""
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
        gpu_memory = backends.current().watch_gpus(self.resolved.gpu_names)
        if self.request.worker_rank is None:
            return UsageMeter(gpu_memory, memory_before_model=self.memory_before_model)
        return UsageMeter(gpu_memory, fellows=find_fellows(self.request.worker_rank.addresses[0]))

    def note_shared_machine(self) -> None:
        """Says so in the journal if another run measured on the machine, before this one began or at its end."""
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
    recipe, training = request.recipe, request.recipe.training
    backend = backends.current()
    variables = find_framework_variables(os.environ)
    gpu_facts = read_system(Path("/"), os.environ)  # before GPUs are hidden from the framework
    backend.require_possible(recipe.distribution, training)

    journal.append("stage", name=f"starting {BACKEND_TITLES[training.backend]}")
    import_keras(recipe)
    set_process_wide(recipe)
    if request.worker_rank:
        journal.append("stage", name=JOINING)
    resolved = backend.resolve(recipe.distribution, training, request.worker_rank)
    num_machines = require_alike(request) if request.worker_rank else 1
    if request.profile and resolved.placement.num_devices > 1:
        raise DeviceError(
            f"a profile is of the step of one replica. Received: {', '.join(resolved.placement.devices)}. Name one of "
            "them; `tfbench scale` says what more replicas cost."
        )

    breakdown.switch("data")
    journal.append("stage", name="loading data")
    if network_data.is_needed(recipe.dataset):
        splits = network_data.make_splits(recipe.dataset, recipe.model, allows_code=request.allows_code)
    else:
        splits = load_data(recipe.dataset, request.data_dir, seed=training.seed, allows_code=request.allows_code)
    for note in splits.notes:
        journal.append("note", text=note)
    if training.data_on_device:
        resident_samples.require_in_memory(splits)
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
            resident_samples.require_plain_fit(model)
        if request.profile:
            require_apart(model, splits)
        if request.resume:
            checkpoints.resume_training(model, request.resume)
    settings = dataclasses.replace(backend.read_settings(model, training), framework_variables=variables)
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
    environment = backend.collect_environment()
    journal.append(
        "ready",
        steps_per_epoch=prepared.steps_per_epoch,
        **plain_fields(
            placement=dataclasses.replace(
                with_unused_gpu(resolved.placement, recipe, gpu_facts, environment), num_machines=num_machines
            ),
            settings=settings,
            environment=environment,
            dataset=_summarize_data(recipe.dataset, splits),
            model=prepared.summary,
        ),
    )
    breakdown.switch("waiting")
    wait_for_start()
    breakdown.switch(None)
    return prepared


def _shares_machine(request: RunRequest) -> bool:
    return count_other_workers(request.worker_rank.addresses[0] if request.worker_rank else request.run_id) > 0


def load_data(config: DatasetConfig, data_dir: str | None, *, seed: int, allows_code: bool = False) -> Splits:
    """Loads the real data set, or makes its synthetic stand-in."""
    if registry.is_code(config.name):
        return user_code.load_splits(config, data_dir, allows_code=allows_code)
    module = registry.load("datasets", config.name)
    options = module.Config(**config.options)
    if config.data == "synthetic":
        return synthetic.generate_splits(module.describe(options), seed=seed)
    splits: Splits = module.load_splits(options, data_dir)
    return splits


@contextlib.contextmanager
def _notices_recorded(journal: Journal) -> Iterator[None]:
    """Writes what is noticed while a model is built to the journal."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Notice)
        yield
    for warning in caught:
        if issubclass(warning.category, Notice):
            journal.append("note", text=str(warning.message))


def _summarize_data(config: DatasetConfig, splits: Splits) -> DatasetSummary:
    return DatasetSummary(
        name=config.name,
        source=splits.source,
        synthetic=splits.synthetic,
        train_samples=splits.train.num_samples,
        validation_samples=splits.validation.num_samples,
        cache=splits.cache,
        digest=user_code.find_digest(config),
    )
