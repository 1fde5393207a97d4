"""The measured job, from devices to the last epoch, in the order in which it happens."""

import contextlib
import functools

from tfbench import backends
from tfbench.backends.profiling import Call
from tfbench.errors import MeasurementError
from tfbench.machine.energy_counters import EnergyMeter, addresses_in_use
from tfbench.machine.energy_readings import Moment
from tfbench.measure.breakdown import Breakdown
from tfbench.measure.checks import check_exchange, check_limits
from tfbench.measure.evaluation import evaluate_trained, write_model_files
from tfbench.measure.prepared import Prepared, prepare
from tfbench.measure.training import train
from tfbench.runs.record import RunRequest
from tfbench.store.journal import Journal


def run_benchmark(
    request: RunRequest, journal: Journal, breakdown: Breakdown, wait_for_start: Call
) -> None:
    """Trains as the request says, and writes what happens to the journal.

    Args:
        request: The run.
        journal: Receives "stage", "ready", "replica_check", "energy_sources", "started", "spans",
            "energy", "epoch", "checkpoint", "stopped", "trained", "evaluation", "predictions",
            "input_check", "peak_check", "breakdown", "note", "finished" records.
        breakdown: Told of what takes the time; opened when the process was started.
        wait_for_start: Called when devices, data and model are ready; returns when the measurement
            may begin.

    Raises:
        TfbenchError: Before "ready": the run was rejected. After it: the measurement is not valid.
    """
    prepared = prepare(request, journal, breakdown, wait_for_start)
    measurement = request.recipe.measurement
    backend = backends.current()
    placement = prepared.resolved.placement

    if placement.num_devices > 1:
        with breakdown.entry("replica_check"):
            _check_devices(prepared)
    with breakdown.entry("model"):
        energy_meter = EnergyMeter(addresses_in_use(placement.devices, prepared.gpu_addresses))
        prepared.record("energy_sources", energy=energy_meter.sources)
        has_energy = bool(energy_meter.sources.sources)

    def read_energy(moment: Moment) -> None:
        prepared.record("energy", reading=energy_meter.read(moment))

    read_steady_energy = functools.partial(read_energy, "steady") if has_energy else None
    journal.append("started")
    meter = prepared.measure_usage()
    with (
        backend.broken_samples_named(prepared.splits.source),
        contextlib.closing(energy_meter),
    ):
        try:
            steps_per_second = train(prepared, read_steady_energy)
        finally:  # also of a training that is stopped
            with contextlib.suppress(OSError):
                if has_energy:
                    read_energy("end")
        prepared.record("trained", usage=meter.finish())
        with breakdown.entry("evaluation"):
            if prepared.is_first:
                write_model_files(prepared)  # first: what follows may fail, or be stopped
            if not measurement.is_limited:
                evaluate_trained(prepared)
        with breakdown.entry("checks"):
            if measurement.checks and prepared.is_first:
                check_limits(prepared, steps_per_second)
            prepared.note_shared_machine()
        prepared.finish()
        # Only now: TensorFlow can crash in a trace of several workers, which then costs the check
        # and not the run.
        with breakdown.entry("checks"):
            pipeline = prepared.splits.pipeline
            is_fed_alike = pipeline is None or not pipeline.is_users
            if measurement.checks and is_fed_alike and backend.tells_exchange(placement):
                check_exchange(prepared, steps_per_second)
            backend.leave()
    prepared.finish()


def _check_devices(prepared: Prepared) -> None:
    """Checks that several devices count once each in their sums.

    It also reads back what lies where on them.

    Raises:
        MeasurementError: A device is left out of a sum, or counted twice.
    """
    backend = backends.current()
    placement = prepared.resolved.placement
    devices = f"{placement.num_devices} devices"
    if placement.num_replicas > 1:
        devices = f"{placement.num_replicas} replicas"
    prepared.begin_stage(f"checking what {devices} exchange")
    if check := backend.check_replicas(prepared.model, placement):
        prepared.record("replica_check", replica_check=check)
        if check.fault:
            raise MeasurementError(
                f"{placement.strategy} on {', '.join(placement.devices)} with cross_device_ops ="
                f" {placement.cross_device_ops} does not train as one replica does: {check.fault}."
                " Nothing was measured."
            )
    pipeline = prepared.splits.pipeline
    if pipeline and pipeline.is_users:
        return  # of which no batch is taken before the training
    with backend.broken_samples_named(prepared.splits.source):
        draw = functools.partial(prepared.build_batches, prepared.first_step)
        if spread := backend.read_spread(prepared.model, draw):
            prepared.record("spread", spread=spread)
