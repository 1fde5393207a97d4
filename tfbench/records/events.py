"""What a journal tells: a class for each kind of record, with the types of its fields."""

import dataclasses
import typing
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

from tfbench.recipe.jit_compile import read_settings
from tfbench.records.lines import UNREADABLE, Record
from tfbench.records.machine import Environment, InputCheck, LedgerRecord, PeakCheck, Usage
from tfbench.records.profile import (
    BandwidthCheck,
    EpochCheck,
    ProfiledLayer,
    ProfiledOperation,
    ProfileRound,
    VariantRound,
    VariantSetup,
)
from tfbench.records.run import (
    DatasetSummary,
    EffectiveSettings,
    EpochRecord,
    Evaluation,
    ModelSummary,
    Parent,
    Placement,
    Predictions,
    ReplicaCheck,
    Status,
    WorkerError,
)
from tfbench.schema import NaturalNumber, NonNegativeNumber, Number, build_fields

Span = tuple[NaturalNumber, NaturalNumber, NaturalNumber, NonNegativeNumber]  # epoch, first and last step, seconds

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def _event(kind: str) -> Callable[[type[T]], type[T]]:
    """Makes a class what the records of a kind are read as."""

    def decorate(cls: type[T]) -> type[T]:
        made: Any = dataclasses.dataclass(frozen=True, kw_only=True, slots=True)(cls)
        made.kind = kind
        return cast(type[T], made)

    return decorate


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """What every record has: a kind, and the time at which it was written, in seconds since 1970."""

    kind: ClassVar[str]
    time: float

    def fields(self) -> dict[str, Any]:
        """Returns its other fields by name."""
        return {name: getattr(self, name) for name in field_types(type(self))}


@_event("request")
class Requested(Recorded):
    """The first record: what is to be measured, and by whom. `request` is read by `journal.read_request`."""

    request: dict[str, Any]
    parent: Parent | None


@_event("worker")
class WorkerStarted(Recorded):
    """The measuring process is there."""

    pid: NaturalNumber
    created: Number


@_event("stage")
class StageBegun(Recorded):
    """Something else is done from now on."""

    name: str


@_event("ready")
class Ready(Recorded):
    """Devices, data and model are ready."""

    placement: Placement
    settings: EffectiveSettings
    environment: Environment
    dataset: DatasetSummary
    model: ModelSummary
    steps_per_epoch: NaturalNumber | None


@_event("refused")
class Refused(Recorded):
    """The run cannot be made; nothing was measured. `error` has type and message."""

    error: Any  # of a process of this version, which has just written it


@_event("replica_check")
class ReplicaChecked(Recorded):
    """A first step of all replicas was held against that of one."""

    replica_check: ReplicaCheck


@_event("started")
class Started(Recorded):
    """Training has begun."""


@_event("spans")
class SpansMeasured(Recorded):
    """What some spans of steps took."""

    spans: tuple[Span, ...]


@_event("epoch")
class EpochEnded(Recorded):
    """An epoch is over, validation included."""

    epoch: EpochRecord


@_event("snapshot")
class SnapshotKept(Recorded):
    """The run can be gone on with from the end of an epoch."""

    epoch: NaturalNumber


@_event("stopped")
class Stopped(Recorded):
    """Training ended before the recipe's epochs were done."""

    reason: str


@_event("evaluation")
class Evaluated(Recorded):
    """The trained model was evaluated."""

    evaluation: Evaluation


@_event("predictions")
class Predicted(Recorded):
    """The trained model predicted some validation labels."""

    predictions: Predictions


@_event("trained")
class Trained(Recorded):
    """Training is over; what it used of the machine."""

    usage: Usage


@_event("input_check")
class InputChecked(Recorded):
    """The input pipeline was timed alone."""

    input_check: InputCheck


@_event("peak_check")
class PeakChecked(Recorded):
    """The peak of the devices was measured."""

    peak_check: PeakCheck


@_event("ledger")
class LedgerKept(Recorded):
    """Where the measuring process's time has gone so far."""

    ledger: LedgerRecord


@_event("note")
class Noted(Recorded):
    """The measuring process noticed something."""

    text: str


@_event("profile_layers")
class LayersProfiled(Recorded):
    """The layers of a profile; `problem` says why there are none."""

    layers: tuple[ProfiledLayer, ...]
    problem: str


@_event("profile_round")
class RoundProfiled(Recorded):
    """One round of a profile."""

    round: ProfileRound


@_event("profile_bandwidth")
class BandwidthProfiled(Recorded):
    """How fast the device copies."""

    bandwidth: BandwidthCheck


@_event("profile_epoch")
class EpochProfiled(Recorded):
    """What an ordinary epoch took, beside a profile."""

    epoch: EpochCheck


@_event("profile_operations")
class OperationsTraced(Recorded):
    """The longest operations of a trace."""

    operations: tuple[ProfiledOperation, ...]
    host_waits: tuple[ProfiledOperation, ...] | None  # None: an older profile, which did not look for any
    num_steps: NaturalNumber
    step_seconds: float | None


@_event("profile_setup")
class VariantSetUp(Recorded):
    """A variant of a step was built."""

    setup: VariantSetup


@_event("profile_variant_round")
class VariantsTimed(Recorded):
    """One round of variants."""

    round: VariantRound


@_event("finished")
class Finished(Recorded):
    """The measuring process has done all it was asked for."""


@_event("failed")
class Failed(Recorded):
    """The measuring process ends in an error."""

    error: WorkerError


@_event("exit")
class Exited(Recorded):
    """How the run ended, as the process says that tracked it."""

    status: Status
    reason: str
    worker_seconds: float | None


@_event(UNREADABLE)
class Unreadable(Recorded):
    """Stands for a line that is no record."""


@_event("")
class Unknown(Recorded):
    """A record of a kind that this version passes over: a newer one wrote it, or nothing comes of it."""


# fmt: off
Event = (
    Requested | WorkerStarted | StageBegun | Ready | Refused | ReplicaChecked | Started
    | SpansMeasured | EpochEnded | SnapshotKept | Stopped | Evaluated | Predicted | Trained
    | InputChecked | PeakChecked | LedgerKept | Noted | LayersProfiled | RoundProfiled
    | BandwidthProfiled | EpochProfiled | OperationsTraced | VariantSetUp | VariantsTimed | Finished
    | Failed | Exited | Unreadable | Unknown
)
# fmt: on
_TYPES: dict[type[Recorded], Mapping[str, Any]] = {}  # read once: it takes longer than to read a record
_CLASSES: Mapping[str, type[Event]] = {cls.kind: cls for cls in typing.get_args(Event) if cls.kind}


def class_of(record: Record) -> type[Event]:
    """Returns what a record is, whether or not its fields are what they should be."""
    return _CLASSES.get(record["kind"], Unknown)


def field_types(cls: type[Recorded]) -> Mapping[str, Any]:
    """Returns the types of an event's fields beside its time, as `build_fields` takes them."""
    if cls not in _TYPES:
        hints = typing.get_type_hints(cls, include_extras=True)
        _TYPES[cls] = {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.name != "time"}
    return _TYPES[cls]


def read_event(record: Record) -> Event:
    """Returns what a record tells, without fields that its class does not have; one that is missing may be None.

    Raises:
        RecipeError: Naming every field that is not of its type.
    """
    return class_of(record)(time=record.get("time", 0.0), **read_fields(record))


def read_fields(record: Record, *, strict: bool = False) -> dict[str, Any]:
    """Returns the fields of a record, an earlier version's too, as its class has them; see `build_fields`."""
    cls = class_of(record)
    if cls is Ready and isinstance(record.get("settings"), Mapping):
        record = record | {"settings": read_settings(record["settings"])}
    return build_fields(field_types(cls), record, record["kind"], strict=strict)
