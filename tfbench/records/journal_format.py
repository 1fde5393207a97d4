"""What a journal's records hold: for each kind the types of its fields, and the bounds of their values."""

import typing
from collections.abc import Iterator, Mapping
from typing import Any

from tfbench.records.lines import MAX_TIME, Record
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
    Placement,
    Predictions,
    ReplicaCheck,
    RunRequest,
    Status,
)
from tfbench.schema import NaturalNumber, NonNegativeNumber, Number, build_fields, schema

MAX_INTEGER = 2**63 - 1  # that MLflow's database can hold
MAX_FLOAT = 1e150  # whose square is finite
MAX_TEXT = 1_000_000  # characters; a traceback has thousands

Span = tuple[NaturalNumber, NaturalNumber, NaturalNumber, NonNegativeNumber]  # epoch, first and last step, seconds


@schema
class Parent:
    """The process that tracks a run; times in seconds since 1970."""

    pid: NaturalNumber
    created: Number
    host: str
    boot: Number


@schema
class WorkerError:
    """What stopped the measuring process."""

    type: str
    message: str
    traceback: str


# A field that is not listed is passed over, and one that is missing is None; so is a record of another kind.
FIELDS: Mapping[str, Mapping[str, Any]] = {
    "request": {"request": dict[str, Any], "parent": Parent | None},
    "worker": {"pid": NaturalNumber, "created": Number},
    "stage": {"name": str},
    "ready": {
        "placement": Placement,
        "settings": EffectiveSettings,
        "environment": Environment,
        "dataset": DatasetSummary,
        "model": ModelSummary,
        "steps_per_epoch": NaturalNumber | None,
    },
    "replica_check": {"replica_check": ReplicaCheck},
    "started": {},
    "spans": {"spans": tuple[Span, ...]},
    "epoch": {"epoch": EpochRecord},
    "snapshot": {"epoch": NaturalNumber},
    "stopped": {"reason": str},
    "evaluation": {"evaluation": Evaluation},
    "predictions": {"predictions": Predictions},
    "trained": {"usage": Usage},
    "input_check": {"input_check": InputCheck},
    "peak_check": {"peak_check": PeakCheck},
    "ledger": {"ledger": LedgerRecord},
    "note": {"text": str},
    "profile_layers": {"layers": tuple[ProfiledLayer, ...], "problem": str},
    "profile_round": {"round": ProfileRound},
    "profile_bandwidth": {"bandwidth": BandwidthCheck},
    "profile_epoch": {"epoch": EpochCheck},
    "profile_operations": {
        "operations": tuple[ProfiledOperation, ...],
        "host_waits": tuple[ProfiledOperation, ...] | None,
        "num_steps": NaturalNumber,
        "step_seconds": float | None,
    },
    "profile_setup": {"setup": VariantSetup},
    "profile_variant_round": {"round": VariantRound},
    "finished": {},
    "failed": {"error": WorkerError},
    "exit": {"status": Status, "reason": str, "worker_seconds": float | None},
}
_REQUEST = {name: hint for name, hint in typing.get_type_hints(RunRequest).items() if name != "recipe"}


def read_fields(record: Record) -> dict[str, Any]:
    """Returns the fields of a record, each of its type; none of a kind that this version does not know.

    Raises:
        RecipeError: Naming every field that is not.
    """
    return build_fields(FIELDS.get(record["kind"], {}), record, record["kind"])


def check(record: Record) -> None:
    """Raises if a record that may be anybody's is not one that tfbench writes.

    Beyond `read_fields`, a text does not stand for a number, and all values lie where something can be made of them.

    Raises:
        RecipeError: Naming every field.
        ValueError: Naming the first value that lies beyond all bounds.
    """
    kind = record["kind"]
    for problem in _find_unbounded(record, kind):
        raise ValueError(problem)
    build_fields(FIELDS.get(kind, {}), record, kind, strict=True)
    if kind == "request":
        types = {name: hint for name, hint in _REQUEST.items() if name in record["request"]}
        build_fields(types, record["request"], kind, strict=True)


def _find_unbounded(value: object, where: str) -> Iterator[str]:
    match value:
        case dict():
            for key, inner in value.items():
                yield from _find_unbounded(inner, f"{where}.{key:.80}")
        case list():
            for inner in value:
                yield from _find_unbounded(inner, where)
        case str() if len(value) > MAX_TEXT:
            yield f"{where}: must have at most {MAX_TEXT:,} characters. Received: {len(value):,}."
        case bool():
            pass
        case int() if abs(value) > MAX_INTEGER:
            yield f"{where}: must be at most {MAX_INTEGER}. Received: an integer of {value.bit_length()} bits."
        case int() | float():
            low, high = _bounds(where.rpartition(".")[2])
            if not low <= value <= high:
                yield f"{where}: must be from {low:g} to {high:g}. Received: {value!r}."


def _bounds(name: str) -> tuple[float, float]:
    """Returns where the values of fields of a name lie, by the names that fields have throughout."""
    if name in ("time", "created", "boot") or name.endswith("_at"):
        return 0.0, MAX_TIME
    if name.startswith("num_") or name.endswith(("seconds", "_bytes")):
        return 0.0, MAX_INTEGER
    return -MAX_FLOAT, MAX_FLOAT
