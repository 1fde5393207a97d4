"""The measured job, from devices to the last epoch, in the order in which it happens."""

import contextlib
import functools
from collections.abc import Callable

from tfbench import backends
from tfbench.errors import MeasurementError
from tfbench.machine.energy import EnergyMeter, addresses_in_use
from tfbench.records.energy import Moment
from tfbench.records.journal import Journal, plain_fields
from tfbench.records.run import RunRequest
from tfbench.worker.breakdown import Breakdown
from tfbench.worker.checks import check_exchange, check_limits
from tfbench.worker.evaluation import evaluate_trained, write_model_files
from tfbench.worker.prepared import Prepared, prepare
from tfbench.worker.training import train


def run_benchmark(
    request: RunRequest, journal: Journal, breakdown: Breakdown, wait_for_start: Callable[[], None]
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
    recipe = request.recipe
    backend = backends.current()
    splits = prepared.splits
    resolved = prepared.resolved

    if resolved.placement.num_devices > 1:
        with breakdown.entry("replica_check"):
            _check_devices(prepared)
    with breakdown.entry("model"):
        energy_meter = EnergyMeter(
            addresses_in_use(resolved.placement.devices, prepared.gpu_addresses)
        )
        journal.append("energy_sources", **plain_fields(energy=energy_meter.sources))

    def read_energy(moment: Moment) -> None:
        if energy_meter.sources.sources:
            journal.append("energy", **plain_fields(reading=energy_meter.read(moment)))

    journal.append("started")
    meter = prepared.measure_usage()
    with backend.broken_samples_named(splits.source), contextlib.closing(energy_meter):
        try:
            begin = (
                functools.partial(read_energy, "steady") if energy_meter.sources.sources else None
            )
            steps_per_second = train(prepared, begin)
        finally:  # of a training that is stopped, too
            with contextlib.suppress(OSError):
                read_energy("end")
        journal.append("trained", **plain_fields(usage=meter.finish()))
        with breakdown.entry("evaluation"):
            if prepared.is_first:
                write_model_files(prepared)  # first: what follows may fail, or be stopped
            if not recipe.measurement.is_limited:
                evaluate_trained(prepared)
        with breakdown.entry("checks"):
            if recipe.measurement.checks and prepared.is_first:
                check_limits(prepared, steps_per_second)
            prepared.note_shared_machine()
        journal.append("breakdown", **plain_fields(breakdown=breakdown.record()))
        journal.append("finished")
        # Only now: TensorFlow can crash in a trace of several workers, which then costs the check
        # and not the run.
        with breakdown.entry("checks"):
            if recipe.measurement.checks and backend.tells_exchange(resolved.placement):
                check_exchange(prepared, steps_per_second)
            backend.leave()
    journal.append("breakdown", **plain_fields(breakdown=breakdown.record()))
    journal.append("finished")


def _check_devices(prepared: Prepared) -> None:
    """Checks that several devices count once each in their sums.

    It also reads back what lies where on them.

    Raises:
        MeasurementError: They do not.
    """
    backend = backends.current()
    journal = prepared.journal
    placement = prepared.resolved.placement
    several = (
        f"{placement.num_replicas} replicas"
        if placement.num_replicas > 1
        else f"{placement.num_devices} devices"
    )
    journal.append("stage", name=f"checking what {several} exchange")
    if check := backend.check_replicas(prepared.model, placement):
        journal.append("replica_check", **plain_fields(replica_check=check))
        if check.fault:
            raise MeasurementError(
                f"{placement.strategy} on {', '.join(placement.devices)} with cross_device_ops ="
                f" {placement.cross_device_ops} does not train as one replica does: {check.fault}."
                " Nothing was measured."
            )
    with backend.broken_samples_named(prepared.splits.source):
        draw = functools.partial(prepared.build_batches, prepared.first_step)
        if spread := backend.read_spread(prepared.model, draw):
            journal.append("spread", **plain_fields(spread=spread))
