"""What a journal tells: a class for each kind of record, with the types of its fields."""

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, dataclass_transform

import pydantic
from pydantic.dataclasses import dataclass as pydantic_dataclass

from tfbench.records.energy import EnergyReading, EnergySources, MachineState
from tfbench.records.json_lines import UNREADABLE, Record
from tfbench.records.machine import BreakdownRecord, Environment, InputCheck, PeakCheck, Usage
from tfbench.records.placement import ExchangeCheck, Placement, ReplicaCheck, Spread
from tfbench.records.profile import (
    BandwidthCheck,
    ProfiledLayer,
    ProfiledOperation,
    ProfileRound,
)
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
from tfbench.schema import NaturalNumber, NonNegativeNumber, Timestamp, build

Span = tuple[NaturalNumber, NaturalNumber, NaturalNumber, NonNegativeNumber]  # epoch, first and last step, seconds

T = TypeVar("T")
_CONFIG = pydantic.ConfigDict(extra="ignore", allow_inf_nan=False)
_CLASSES: "dict[str, type[Event]]" = {}


@dataclass_transform(frozen_default=True, kw_only_default=True)
def event_of(kind: str) -> Callable[[type[T]], type[T]]:
    """Makes a class what the records of a kind are read as; a field that it does not have is passed over."""

    def decorate(cls: type[T]) -> type[T]:
        made: Any = pydantic_dataclass(frozen=True, kw_only=True, slots=True, config=_CONFIG)(cls)
        made.kind = kind
        _CLASSES[kind] = made
        return made  # type: ignore[no-any-return]

    return decorate


@pydantic_dataclass(frozen=True, kw_only=True, slots=True, config=_CONFIG)
class Event:
    """What every record has: a kind, and the time at which it was written, in seconds since 1970."""

    kind: ClassVar[str]
    time: Timestamp


@event_of("request")
class Requested(Event):
    """The first record: what is to be measured. `request` is read by `journal.read_request`."""

    request: dict[str, Any]


@event_of("stage")
class StageBegun(Event):
    """Something else is done from now on."""

    name: str


@event_of("ready")
class Ready(Event):
    """Devices, data and model are ready."""

    placement: Placement
    settings: EffectiveSettings
    environment: Environment
    dataset: DatasetSummary
    model: ModelSummary
    steps_per_epoch: NaturalNumber | None = None


@event_of("rejected")
class Rejected(Event):
    """The run cannot be made; nothing was measured. `error` has type and message."""

    error: Any  # of a process of this version, which has just written it


@event_of("started")
class Started(Event):
    """Training has begun."""


@event_of("spans")
class SpansMeasured(Event):
    """What some spans of steps took."""

    spans: tuple[Span, ...]


@event_of("epoch")
class EpochEnded(Event):
    """An epoch is over, validation included."""

    epoch: EpochRecord


@event_of("trained")
class Trained(Event):
    """Training is over; what it used of the machine."""

    usage: Usage


@event_of("profile_round")
class RoundProfiled(Event):
    """One round of a profile."""

    round: ProfileRound


@event_of("finished")
class Finished(Event):
    """The measuring process has done all it was asked for."""


@event_of("failed")
class Failed(Event):
    """The measuring process ends in an error."""

    error: WorkerError


@event_of("exit")
class Exited(Event):
    """How the run ended, as the process says that tracked it."""

    status: Status
    reason: str
    worker_seconds: float | None = None


@event_of(UNREADABLE)
class Unreadable(Event):
    """Stands for a line that is no record."""


@event_of("")
class Unknown(Event):
    """A record of a kind that is passed over: nothing comes of it."""


# Kinds that only add to the result: their fields, by type.
_FACTS: dict[str, dict[str, Any]] = {
    "replica_check": {"replica_check": ReplicaCheck},
    "spread": {"spread": Spread},
    "exchange_check": {"exchange_check": ExchangeCheck},
    "energy_sources": {"energy": EnergySources},
    "energy": {"reading": EnergyReading},
    "machine": {"state": MachineState},
    "checkpoint": {"epoch": NaturalNumber},
    "stopped": {"reason": str},
    "evaluation": {"evaluation": Evaluation},
    "predictions": {"predictions": Predictions},
    "input_check": {"input_check": InputCheck},
    "peak_check": {"peak_check": PeakCheck},
    "breakdown": {"breakdown": BreakdownRecord},
    "note": {"text": str},
    "profile_layers": {"layers": tuple[ProfiledLayer, ...], "problem": str},
    "profile_bandwidth": {"bandwidth": BandwidthCheck},
    "profile_operations": {
        "operations": tuple[ProfiledOperation, ...],
        "num_steps": NaturalNumber,
        "step_seconds": float | None,
    },
}
for _kind, _fields in _FACTS.items():
    event_of(_kind)(type(_kind, (Event,), {"__annotations__": _fields}))


def class_of(record: Record) -> type[Event]:
    """Returns what a record is, whether or not its fields are what they should be."""
    return _CLASSES.get(record["kind"], Unknown)


def read_event(record: Record) -> Event:
    """Returns what a record tells.

    Raises:
        RecipeError: Naming every field that is not of its type.
    """
    return build(class_of(record), record, record["kind"])
