"""What is recorded of energy, and of the state of the GPUs while a run trains."""

import dataclasses
from typing import Literal

from tfbench.schema import Bits, NaturalNumber, schema

# When the measuring process reads: as the steady part begins, and as the training ends.
Moment = Literal["steady", "end"]


@schema
class EnergySource:
    """A counter of energy that only grows.

    What it shows is up to `resolution_seconds` old.
    """

    name: str  # a GPU's address on the bus
    # Older records have processors and their memory, too, whose counters came to an end.
    part: Literal["gpu", "package", "dram"] = "gpu"
    resolution_seconds: float
    range_joules: float | None = None


@schema
class EnergySources:
    """What can be read on the machine of a measuring process, and why anything else cannot."""

    sources: tuple[EnergySource, ...] = ()
    problems: tuple[str, ...] = ()


@schema
class EnergyReading:
    """What the counters showed at a moment: joules by the name of the source.

    A source is missing that could not be read. `seconds` are of the machine's monotonic clock,
    before the reading.
    """

    moment: Moment
    seconds: float
    joules: dict[str, float]


@schema
class GpuState:
    """What the driver reports of a GPU at a moment; None: not reported."""

    clock_mhz: float | None = None  # of the multiprocessors
    temperature_celsius: float | None = None
    clock_reasons: Bits | None = None  # bits, as of `CLOCK_REASONS`
    num_other_processes: NaturalNumber | None = None  # that compute on it


@schema
class MachineState:
    """What the parent saw beside the training: the GPUs in use, by address.

    `seconds` are of the machine's monotonic clock, before the reading. A GPU is missing that did
    not answer.
    """

    seconds: float
    gpus: dict[str, GpuState]
    joules: dict[str, float] = dataclasses.field(default_factory=dict)  # in older records
