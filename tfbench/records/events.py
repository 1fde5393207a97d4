"""What a journal tells: a class for each kind of record, with the types of its fields."""

import typing
from collections.abc import Mapping
from typing import Any

from tfbench.records.energy import EnergyReading, EnergySources, MachineState
from tfbench.records.lines import UNREADABLE, Record
from tfbench.records.machine import Environment, InputCheck, LedgerRecord, PeakCheck, Usage
from tfbench.records.placement import Placement, ReplicaCheck
from tfbench.records.profile import (
    BandwidthCheck,
    EpochCheck,
    ProfiledLayer,
    ProfiledOperation,
    ProfileRound,
)
from tfbench.records.recorded import Recorded, event_of, field_types
from tfbench.records.run import (
    DatasetSummary,
    EffectiveSettings,
    EpochRecord,
    Evaluation,
    ModelSummary,
    Predictions,
    Status,
    WorkerError,
)
from tfbench.records.spread import ExchangeCheck, Spread
from tfbench.schema import NaturalNumber, NonNegativeNumber, build_fields

Span = tuple[NaturalNumber, NaturalNumber, NaturalNumber, NonNegativeNumber]  # epoch, first and last step, seconds


@event_of("request")
class Requested(Recorded):
    """The first record: what is to be measured. `request` is read by `journal.read_request`."""

    request: dict[str, Any]


@event_of("worker")
class WorkerStarted(Recorded):
    """The measuring process is there."""

    pid: NaturalNumber


@event_of("stage")
class StageBegun(Recorded):
    """Something else is done from now on."""

    name: str


@event_of("ready")
class Ready(Recorded):
    """Devices, data and model are ready."""

    placement: Placement
    settings: EffectiveSettings
    environment: Environment
    dataset: DatasetSummary
    model: ModelSummary
    steps_per_epoch: NaturalNumber | None


@event_of("refused")
class Refused(Recorded):
    """The run cannot be made; nothing was measured. `error` has type and message."""

    error: Any  # of a process of this version, which has just written it


@event_of("replica_check")
class ReplicaChecked(Recorded):
    """A first step of all replicas was held against that of one."""

    replica_check: ReplicaCheck


@event_of("spread")
class SpreadRead(Recorded):
    """Where the parts of variables and of layers' outputs lie was read back."""

    spread: Spread


@event_of("exchange_check")
class ExchangeChecked(Recorded):
    """Some steps were traced for what devices exchange, after the training."""

    exchange_check: ExchangeCheck


@event_of("started")
class Started(Recorded):
    """Training has begun."""


@event_of("energy_sources")
class EnergyFound(Recorded):
    """Which counters of energy can be read."""

    energy: EnergySources


@event_of("energy")
class EnergyRead(Recorded):
    """The counters of energy were read between two spans."""

    reading: EnergyReading


@event_of("machine")
class MachineSeen(Recorded):
    """The parent looked at the machine beside the training."""

    state: MachineState


@event_of("spans")
class SpansMeasured(Recorded):
    """What some spans of steps took."""

    spans: tuple[Span, ...]


@event_of("epoch")
class EpochEnded(Recorded):
    """An epoch is over, validation included."""

    epoch: EpochRecord


@event_of("snapshot")
class SnapshotKept(Recorded):
    """The run can be gone on with from the end of an epoch."""

    epoch: NaturalNumber


@event_of("stopped")
class Stopped(Recorded):
    """Training ended before the recipe's epochs were done."""

    reason: str


@event_of("evaluation")
class Evaluated(Recorded):
    """The trained model was evaluated."""

    evaluation: Evaluation


@event_of("predictions")
class Predicted(Recorded):
    """The trained model predicted some validation labels."""

    predictions: Predictions


@event_of("trained")
class Trained(Recorded):
    """Training is over; what it used of the machine."""

    usage: Usage


@event_of("input_check")
class InputChecked(Recorded):
    """The input pipeline was timed alone."""

    input_check: InputCheck


@event_of("peak_check")
class PeakChecked(Recorded):
    """The peak of the devices was measured."""

    peak_check: PeakCheck


@event_of("ledger")
class LedgerKept(Recorded):
    """Where the measuring process's time has gone so far."""

    ledger: LedgerRecord


@event_of("note")
class Noted(Recorded):
    """The measuring process noticed something."""

    text: str


@event_of("profile_layers")
class LayersProfiled(Recorded):
    """The layers of a profile; `problem` says why there are none."""

    layers: tuple[ProfiledLayer, ...]
    problem: str


@event_of("profile_round")
class RoundProfiled(Recorded):
    """One round of a profile."""

    round: ProfileRound


@event_of("profile_bandwidth")
class BandwidthProfiled(Recorded):
    """How fast the device copies."""

    bandwidth: BandwidthCheck


@event_of("profile_epoch")
class EpochProfiled(Recorded):
    """What an ordinary epoch took, beside a profile."""

    epoch: EpochCheck


@event_of("profile_operations")
class OperationsTraced(Recorded):
    """The longest operations of a trace."""

    operations: tuple[ProfiledOperation, ...]
    host_waits: tuple[ProfiledOperation, ...]
    num_steps: NaturalNumber
    step_seconds: float | None


@event_of("finished")
class Finished(Recorded):
    """The measuring process has done all it was asked for."""


@event_of("failed")
class Failed(Recorded):
    """The measuring process ends in an error."""

    error: WorkerError


@event_of("exit")
class Exited(Recorded):
    """How the run ended, as the process says that tracked it."""

    status: Status
    reason: str
    worker_seconds: float | None


@event_of(UNREADABLE)
class Unreadable(Recorded):
    """Stands for a line that is no record."""


@event_of("")
class Unknown(Recorded):
    """A record of a kind that is passed over: nothing comes of it."""


# fmt: off
Event = (
    Requested | WorkerStarted | StageBegun | Ready | Refused | ReplicaChecked | SpreadRead | ExchangeChecked | Started
    | EnergyFound | EnergyRead | MachineSeen | SpansMeasured | EpochEnded | SnapshotKept | Stopped | Evaluated
    | Predicted | Trained | InputChecked | PeakChecked | LedgerKept | Noted | LayersProfiled | RoundProfiled
    | BandwidthProfiled | EpochProfiled | OperationsTraced | Finished | Failed
    | Exited | Unreadable | Unknown
)
# fmt: on
_CLASSES: Mapping[str, type[Event]] = {cls.kind: cls for cls in typing.get_args(Event) if cls.kind}


def class_of(record: Record) -> type[Event]:
    """Returns what a record is, whether or not its fields are what they should be."""
    return _CLASSES.get(record["kind"], Unknown)


def read_event(record: Record) -> Event:
    """Returns what a record tells, without fields that its class does not have; one that is missing may be None.

    Raises:
        RecipeError: Naming every field that is not of its type.
    """
    return class_of(record)(time=record.get("time", 0.0), **read_fields(record))


def read_fields(record: Record, *, strict: bool = False) -> dict[str, Any]:
    """Returns the fields of a record as its class has them; see `build_fields`."""
    return build_fields(field_types(class_of(record)), record, record["kind"], strict=strict)
