"""The kinds of records in a journal, each with its fields and their types."""

import functools
import typing
from typing import Any

import pydantic

from tfbench.machine.energy_readings import EnergyReading, EnergySources, MachineState
from tfbench.machine.facts import BreakdownRecord, Environment, InputCheck, PeakCheck, Usage
from tfbench.profiles.readings import BandwidthCheck, ProfiledLayer, ProfiledOperation, ProfileRound
from tfbench.runs.placement_record import ExchangeCheck, ModelLayout, Placement, ReplicaCheck
from tfbench.runs.record import (
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
from tfbench.store.json_lines import Record

Fields = dict[str, Any]
# Epoch, first and last step, seconds.
Span = tuple[NaturalNumber, NaturalNumber, NaturalNumber, NonNegativeNumber]

KINDS: dict[str, Fields] = {
    "request": {"request": Fields},  # which `journal.read_request` reads; it stands twice
    "stage": {"name": str},  # something else is done from now on
    "placed": {"placement": Placement},  # the framework has started, and devices were chosen
    "ready": {  # to train
        "placement": Placement,
        "settings": EffectiveSettings,
        "environment": Environment,
        "dataset": DatasetSummary,
        "model": ModelSummary,
        "steps_per_epoch": NaturalNumber | None,
        "step_guess": float | None,
    },
    # Sizes of a network that its first step built; those of "ready" may lack some.
    "built": {"model": ModelSummary},
    # The run cannot be made; type and message, of a process of this version.
    "rejected": {"error": Any},
    "started": {},  # to train
    "spans": {"spans": tuple[Span, ...]},
    "epoch": {"epoch": EpochRecord},  # is over, validation included
    "trained": {"usage": Usage},
    "profile_round": {"round": ProfileRound},
    "finished": {},  # the run is measured; written again after the last check, which may crash
    "failed": {"error": WorkerError},
    # As the tracking process says.
    "exit": {"status": Status, "reason": str, "worker_seconds": float | None},
    "replica_check": {"replica_check": ReplicaCheck},
    "spread": {"spread": ModelLayout},
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


def read_fields(record: Record) -> Fields:
    """Returns the time of a record and the fields of its kind.

    A field or a kind that is not known is passed over.

    Raises:
        RecipeError: Naming every field that is not of its type.
    """
    return dict(build(_model_of(record["kind"]), record, record["kind"]))


@functools.cache
def _model_of(kind: str) -> type[pydantic.BaseModel]:
    """Returns the class that checks records of a kind; a field that may be None may be missing."""
    fields: Fields = {"time": (Timestamp, ...)}
    for name, annotation in KINDS.get(kind, {}).items():
        is_optional = type(None) in typing.get_args(annotation)
        fields[name] = (annotation, None if is_optional else ...)
    config = pydantic.ConfigDict(extra="ignore", allow_inf_nan=False)
    model: type[pydantic.BaseModel] = pydantic.create_model(kind, __config__=config, **fields)
    return model
