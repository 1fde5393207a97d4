"""What a step's profile comes to: phases, layers, what limits them, and the bottleneck."""

import dataclasses
from typing import Literal

from tfbench.records.profile import EpochCheck, ProfiledLayer

Direction = Literal["forward", "backward"]
DIRECTIONS: tuple[Direction, Direction] = ("forward", "backward")
LOSS = "loss"
HOST_OVERHEAD = "host overhead"  # nothing is at work
UNNAMED = "not named"  # something is at work that the trace names no operation of
KERAS_LOOP = "keras loop"
LEAST_ROOF_SHARE = 0.25  # of a peak, that a layer must reach to be called bound by it
UPDATE_AND_LOOP = "update+loop"  # where they were not told apart
PIPELINE = "input pipeline"  # what a full step takes beyond its phases: it waits for a batch, or shares the processor


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Phase:
    """A part of a step. "measured": timed by itself; "difference": of two functions that were timed.

    `low` and `high`: the 95 % interval of `seconds`, over the rounds of one process; None for a single round.
    """

    name: str  # "input", "copy", "dispatch", "forward", "backward", "update", "keras loop" or "update+loop"
    seconds: float  # mean over the rounds
    best_seconds: float  # from the fastest round of each function
    low: float | None = None
    high: float | None = None
    how: Literal["measured", "difference"]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What one direction of a layer took in a step, what it had to do, and what keeps it from being faster.

    `bound` is what would take longer at the machine's peaks, its arithmetic or moving its bytes; `roof_share` is that
    time over the time that it took. None: not known. Where that share is below `LEAST_ROOF_SHARE`, neither peak bounds
    it: something that was not measured does. What took less time than that shows that the peak is none for it,
    so that it has no share of it: it `exceeds_peak`.

    Source: Williams, Waterman and Patterson, "Roofline" (Communications of the ACM 2009).
    """

    seconds: float
    flops: int | None
    num_bytes: int | None
    bound: Literal["arithmetic", "memory"] | None = None
    roof_share: float | None = None
    exceeds_peak: bool = False

    @property
    def flops_per_second(self) -> float | None:
        """What was achieved."""
        return self.flops / self.seconds if self.flops and self.seconds > 0 else None

    @property
    def intensity(self) -> float | None:
        """Operations for each byte that must move."""
        return self.flops / self.num_bytes if self.flops is not None and self.num_bytes else None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LayerTime:
    """A layer's two directions; `share` is of the full step."""

    layer: ProfiledLayer
    forward: Work
    backward: Work
    share: float

    @property
    def seconds(self) -> float:
        """Both directions."""
        return self.forward.seconds + self.backward.seconds


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PhaseCheck:
    """What a trace found in a phase, beside the phase's own time; operations are those of layers, loss and optimizer.

    `unnamed_seconds`: something was at work that the trace names no operation of; None: the trace does not tell that
    from overhead. `overhead_seconds`: nothing was at work. `slowdown_seconds`: operations of the passes take longer
    beside those of the update, by so much.

    What is named, unnamed and idle adds up to the call, whatever the trace holds: that the sum is the phase says that
    calls are alike, and nothing of whether the trace is whole. `named_share` does.
    """

    phase: Literal["forward", "backward", "update"]
    operations_seconds: float
    overhead_seconds: float
    phase_seconds: float
    unnamed_seconds: float | None = None
    slowdown_seconds: float = 0.0

    @property
    def sum_seconds(self) -> float:
        """Operations, by how much others became slower, what is not named, and host overhead."""
        return self.named_seconds + (self.unnamed_seconds or 0.0) + self.overhead_seconds

    @property
    def named_seconds(self) -> float:
        """What operations of the trace explain."""
        return self.operations_seconds + self.slowdown_seconds

    @property
    def named_share(self) -> float:
        """How much of the phase that is."""
        return self.named_seconds / self.phase_seconds if self.phase_seconds > 0 else float("nan")

    @property
    def relative_difference(self) -> float:
        """By how much the sum is more than the phase, as a share of it."""
        return self.sum_seconds / self.phase_seconds - 1 if self.phase_seconds > 0 else float("nan")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Bottleneck:
    """The largest single part of a step; `layer` and `direction` where it is a layer's."""

    name: str
    seconds: float
    share: float
    layer: LayerTime | None = None
    direction: Direction | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class StepProfile:
    """Where a step's time goes; times in seconds a step."""

    num_rounds: int  # that the figures rest on
    num_slow_rounds: int  # left out
    phases: tuple[Phase, ...]
    full_seconds: float  # Keras's own step with its input pipeline
    full_half_width: float | None  # of its 95 % interval
    full_best_seconds: float
    difference_half_width: float | None  # of that of the phases' sum less the full step
    pipeline_seconds: float | None  # that the input pipeline alone needs for a batch
    layers: tuple[LayerTime, ...]  # empty: cannot be told apart
    loss_seconds: dict[Direction, float]
    optimizer_seconds: float | None
    checks: tuple[PhaseCheck, ...]
    on_device: bool  # operations of the traces ran on a GPU
    tracing_slowdown: float | None  # a traced call of the most that was traced, over one without a trace
    peak_flops_per_second: float | None
    bytes_per_second: float | None  # that memory can move
    epoch: EpochCheck | None
    steps_per_epoch: int | None
    bottleneck: Bottleneck

    @property
    def sum_seconds(self) -> float:
        """All phases."""
        return sum(phase.seconds for phase in self.phases)

    @property
    def extrapolated_epoch_seconds(self) -> float | None:
        """The phases' sum times the steps of an epoch."""
        return self.sum_seconds * self.steps_per_epoch if self.steps_per_epoch else None

    @property
    def measured_epoch_seconds(self) -> float | None:
        """What an epoch took, or as many steps of one as were measured, times what is left of it."""
        epoch = self.epoch
        return epoch.seconds / epoch.num_steps * epoch.steps_per_epoch if epoch else None
