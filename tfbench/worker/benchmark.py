"""The measured job, from devices to the last epoch, in the order in which it happens."""

import contextlib
import dataclasses
import functools
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tfbench import backends
from tfbench.backends import resident_samples
from tfbench.backends.placed import Placed
from tfbench.datasets.sources import synthetic
from tfbench.datasets.sources.splits import Splits, count_steps_per_epoch
from tfbench.errors import DatasetError, DeviceError, Notice, RecipeError
from tfbench.machine.devices import GpuFacts, read_system, with_unused_gpu
from tfbench.machine.energy import EnergyMeter, addresses_in_use
from tfbench.machine.environment import find_framework_variables
from tfbench.machine.usage import UsageMeter, count_other_workers, find_fellows, read_memory
from tfbench.recipe import conflicts, registry
from tfbench.recipe.abilities import BACKEND_TITLES
from tfbench.recipe.sections import DatasetConfig, TrainingConfig
from tfbench.records.energy import Moment
from tfbench.records.journal import Journal, plain_fields
from tfbench.records.placement import JOINING
from tfbench.records.run import DatasetSummary, ModelSummary, RunRequest
from tfbench.worker import network_data, snapshots, user_code
from tfbench.worker.alike import require_alike
from tfbench.worker.compiled_model import build_compiled_model
from tfbench.worker.evaluation import evaluate_trained, write_model_files
from tfbench.worker.exchange_check import check_exchange
from tfbench.worker.ledger import Ledger
from tfbench.worker.limit_checks import check_limits
from tfbench.worker.model_summary import require_apart, summarize_model
from tfbench.worker.name_counts import names_from, read_name_counts
from tfbench.worker.process_settings import finds_tensorflow, import_keras, set_process_wide
from tfbench.worker.training import train

SHARED_MACHINE = (
    "another tfbench run was measuring on this machine at the same time: times may be too long. Measure one at a time."
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """What a measurement begins with."""

    training: TrainingConfig
    splits: Splits
    model: Any  # keras.Model, compiled
    resolved: Placed
    summary: ModelSummary
    steps_per_epoch: int
    shares_machine: bool  # another run was measuring here already
    memory_before_model: int  # resident size of this process in bytes, with libraries, devices and data
    name_counts: dict[str, int]  # Keras's, before the model was built: another build from them has its names
    gpu_addresses: tuple[str, ...]  # on the bus, of those that the process sees
    num_replicas: int  # by which the model was built to share a batch

    def measure_usage(self, request: RunRequest) -> UsageMeter:
        """Begins to measure what the training takes of the machine, by all of its workers there."""
        gpu_memory = backends.current().memory.watch_gpus(self.resolved.gpu_names)
        if request.member is None:
            return UsageMeter(gpu_memory, memory_before_model=self.memory_before_model)
        return UsageMeter(gpu_memory, fellows=find_fellows(request.member.addresses[0]))


def run_benchmark(request: RunRequest, journal: Journal, ledger: Ledger, wait_for_start: Callable[[], None]) -> None:
    """Trains as the request says, and writes what happens to the journal.

    Args:
        request: The run.
        journal: Receives "stage", "ready", "replica_check", "energy_sources", "started", "spans", "energy", "epoch",
            "snapshot", "stopped", "trained", "evaluation", "predictions", "input_check", "peak_check", "ledger",
            "note", "finished" records.
        ledger: Told of what takes the time; opened when the process was started.
        wait_for_start: Called when devices, data and model are ready; returns when the measurement may begin.

    Raises:
        TfbenchError: Before "ready": the run was refused, nothing was measured. After it: the measurement is not valid.
    """
    recipe = request.recipe
    prepared = prepare(request, journal, ledger, wait_for_start)
    splits, model, resolved = prepared.splits, prepared.model, prepared.resolved

    if resolved.placement.num_devices > 1:
        with ledger.entry("replica_check"):
            _check_devices(request, prepared, journal)
    with ledger.entry("model"):
        in_use = addresses_in_use(resolved.placement.devices, prepared.gpu_addresses)
        energy_meter = EnergyMeter(list(in_use.values()))
        journal.append("energy_sources", **plain_fields(energy=energy_meter.sources))

    def read_energy(moment: Moment) -> None:
        if energy_meter.sources.sources:
            journal.append("energy", **plain_fields(reading=energy_meter.read(moment)))

    journal.append("started")
    meter = prepared.measure_usage(request)
    with backends.current().feeding.broken_samples_named(splits.source, splits.files), energy_meter:
        try:
            begin = functools.partial(read_energy, "steady") if energy_meter.sources.sources else None
            steps_per_second = train(request, splits, model, prepared.steps_per_epoch, resolved, journal, ledger, begin)
        finally:  # of a training that is stopped, too
            with contextlib.suppress(OSError):
                read_energy("end")
        journal.append("trained", **plain_fields(usage=meter.finish()))
        is_first = request.member is None or request.member.index == 0  # the others would find the same
        with ledger.entry("evaluation"):
            if is_first:
                write_model_files(recipe.output, model, journal)  # first: what follows may fail, or be stopped
            if not recipe.measurement.is_limited:
                evaluate_trained(request, splits, model, journal)
        with ledger.entry("checks"):
            if recipe.measurement.checks and is_first:
                check_limits(request, splits, resolved, prepared.summary, steps_per_second, journal)
            if recipe.measurement.checks and backends.current().placement.tells_exchange(resolved.placement):
                check_exchange(request, splits, model, steps_per_second, journal)
            note_shared_machine(request, prepared, journal)
            backends.current().placement.leave()
    journal.append("ledger", **plain_fields(ledger=ledger.record()))
    journal.append("finished")


def prepare(request: RunRequest, journal: Journal, ledger: Ledger, wait_for_start: Callable[[], None]) -> Prepared:
    """Makes devices, data and model ready, says so in the journal, and waits for the sign to begin.

    Args:
        request: The run.
        journal: Receives "stage", "note" and "ready" records.
        ledger: Told of what takes the time.
        wait_for_start: As of `run_benchmark`.

    Raises:
        TfbenchError: The run is refused.
    """
    recipe, training = request.recipe, request.recipe.training
    backend = backends.current()
    variables = find_framework_variables(os.environ)
    gpu_facts = GpuFacts(**read_system(Path("/"), os.environ))  # before GPUs are hidden from the framework
    backend.placement.require_possible(recipe.distribution, training)

    journal.append("stage", name=f"starting {BACKEND_TITLES[training.backend]}")
    import_keras(recipe)
    set_process_wide(training, finds_tensorflow=finds_tensorflow(recipe))
    if request.member:
        journal.append("stage", name=JOINING)
    resolved = backend.placement.resolve(recipe.distribution, training, request.member)
    num_machines = require_alike(request) if request.member else 1
    if request.profile and resolved.placement.num_devices > 1:
        raise DeviceError(
            f"a profile is of the step of one replica. Received: {', '.join(resolved.placement.devices)}. Name one of "
            "them; `tfbench scale` says what more replicas cost."
        )

    ledger.switch("data")
    journal.append("stage", name="loading data")
    if network_data.is_needed(recipe.dataset):
        splits = network_data.make_splits(recipe.dataset, recipe.model, allows_code=request.allows_code)
    else:
        splits = load_data(recipe.dataset, request.data_dir, seed=training.seed, allows_code=request.allows_code)
    for note in splits.notes:
        journal.append("note", text=note)
    backend.feeding.require_readable(splits)
    if training.data_on_device:
        resident_samples.require_in_memory(splits)
    misfits = conflicts.find_misfits(splits.spec, recipe.dataset.name, training)
    if misfits:  # of data whose size only the user's own code knew
        raise RecipeError("\n".join(misfits))

    memory_before_model = read_memory()
    ledger.switch("model")
    journal.append("stage", name="building the model")
    name_counts = read_name_counts()
    with resolved.scope(), _notices_recorded(journal):
        model = build_compiled_model(
            recipe.model,
            training,
            splits.spec,
            allows_code=request.allows_code,
            splits=splits,
            given=request.overrides,
        )
        num_replicas = backend.placement.count_replicas()
        resolved = backend.placement.lay_out(resolved, recipe.distribution, model)
        if training.data_on_device:
            resident_samples.require_plain_fit(model)
        if request.profile:
            require_apart(model, splits)
        if request.resume:
            snapshots.resume_training(model, request.resume)
    settings = dataclasses.replace(backend.settings.read_settings(model, training), framework_variables=variables)
    prepared = Prepared(
        training=training,
        splits=splits,
        model=model,
        resolved=resolved,
        summary=summarize_model(model, user_code.find_digest(recipe.model)),
        steps_per_epoch=count_steps_per_epoch(splits.train.num_samples, training.global_batch_size),
        shares_machine=_shares_machine(request),
        memory_before_model=memory_before_model,
        name_counts=name_counts,
        gpu_addresses=settings.gpu_addresses,
        num_replicas=num_replicas,
    )
    environment = backend.environment.collect_environment()
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
    ledger.switch("waiting")
    wait_for_start()
    ledger.switch(None)
    return prepared


def _check_devices(request: RunRequest, prepared: Prepared, journal: Journal) -> None:
    """Makes sure that several devices train as one does, and reads back what lies where on them.

    Raises:
        MeasurementError: They do not.
    """
    backend = backends.current()
    recipe, training, placement = request.recipe, request.recipe.training, prepared.resolved.placement
    several = f"{placement.num_replicas} replicas" if placement.num_replicas > 1 else f"{placement.num_devices} devices"
    journal.append("stage", name=f"comparing a first step of {several} with that of one")

    def build_one() -> Any:
        with warnings.catch_warnings(), names_from(prepared.name_counts):
            warnings.simplefilter("ignore", Notice)  # given once already
            return build_compiled_model(
                recipe.model,
                training,
                prepared.splits.spec,
                allows_code=request.allows_code,
                num_replicas=prepared.num_replicas,
                beside=prepared.model,
                splits=prepared.splits,
            )

    def draw() -> Any:
        return backend.feeding.build_training_dataset(
            prepared.splits,
            global_batch_size=training.global_batch_size,
            seed=training.seed,
            first_step=request.resume.num_steps if request.resume else 0,
            part=request.part,
        )

    with backend.feeding.broken_samples_named(prepared.splits.source, prepared.splits.files):
        check = backend.placement.check_replicas(prepared.model, build_one, draw(), placement)
        journal.append("replica_check", **plain_fields(replica_check=check))
        backend.placement.require_as_one(check, placement)
        if spread := backend.placement.read_spread(prepared.model, draw):
            journal.append("spread", **plain_fields(spread=spread))


def note_shared_machine(request: RunRequest, prepared: Prepared, journal: Journal) -> None:
    """Says so in the journal if another run measured on the machine, before this one began or at its end."""
    if prepared.shares_machine or _shares_machine(request):
        journal.append("note", text=SHARED_MACHINE)


def _shares_machine(request: RunRequest) -> bool:
    return count_other_workers(request.member.addresses[0] if request.member else request.run_id) > 0


def load_data(config: DatasetConfig, data_dir: str | None, *, seed: int, allows_code: bool = False) -> Splits:
    """Loads the real data set, or makes its synthetic stand-in."""
    if registry.is_code(config.name):
        return user_code.load_splits(config, data_dir, allows_code=allows_code)
    module = registry.load("datasets", config.name)
    options = module.Config(**config.options)
    if config.data == "synthetic":
        return synthetic.generate_splits(module.describe(options), seed=seed)
    splits = module.load_splits(options, data_dir)
    if not isinstance(splits, Splits):
        received = type(splits).__name__
        raise DatasetError(f"data set {config.name}: load_splits must return Splits. Received: {received}.")
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
