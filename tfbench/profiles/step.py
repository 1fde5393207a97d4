"""Where a step's time goes, in seconds: phases, layers, what limits them, and the bottleneck."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Direction = Literal["forward", "backward"]
DIRECTIONS: tuple[Direction, Direction] = ("forward", "backward")
LOSS = "loss"
HOST_OVERHEAD = "host overhead"  # nothing is at work
UNNAMED = "not named"  # something is at work that the trace names no operation of
KERAS_LOOP = "keras loop"
LEAST_ROOF_SHARE = 0.25  # of a peak, that a layer must reach to be called bound by it


@dataclass(frozen=True, kw_only=True, slots=True)
class Phase:
    """A part of a step, with its 95 % interval."""

    name: str  # "input", "dispatch", "forward", "backward", "update" or "keras loop"
    seconds: float  # mean over the rounds
    share: float  # of the full step
    low: float | None = None  # None: of a single round
    high: float | None = None

    @property
    def half_width(self) -> float | None:
        """Half of the interval."""
        return None if self.high is None else self.high - self.seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """Time and work of one direction of a layer in a step, and what limits it.

    `bound` is what would take longer at the machine's peaks, and `roof_share` that time over the
    one that it took; None: not known, or below `LEAST_ROOF_SHARE`, where something that was not
    measured limits it. What took less time than at the peak has no share of it: it `exceeds_peak`.

    Source: Williams, Waterman and Patterson, "Roofline" (Communications of the ACM 2009).
    """

    seconds: float
    flops: int | None
    num_bytes: int | None
    bound: Literal["arithmetic", "memory"] | None = None
    roof_share: float | None = None
    exceeds_peak: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerTime:
    """One use of a layer in both directions; `share` is of the full step."""

    name: str
    kind: str
    is_trained: bool
    forward: Work
    backward: Work
    share: float

    @property
    def seconds(self) -> float:
        """Both directions."""
        return self.forward.seconds + self.backward.seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseCheck:
    """What a trace found in a phase: named operations, work without a name, and nothing at work.

    These add up to the call, whatever the trace holds: that their sum is the phase says that calls
    are alike, and `named_share` whether the trace is whole.
    """

    phase: Literal["forward", "backward", "update"]
    operations_seconds: float
    overhead_seconds: float
    phase_seconds: float
    unnamed_seconds: float | None = None  # None: the trace does not tell it from overhead
    # by which operations of the passes take longer beside those of the update
    slowdown_seconds: float = 0.0

    @property
    def named_seconds(self) -> float:
        """What operations of the trace explain."""
        return self.operations_seconds + self.slowdown_seconds

    @property
    def sum_seconds(self) -> float:
        """What they explain, what is not named, and host overhead."""
        return self.named_seconds + (self.unnamed_seconds or 0.0) + self.overhead_seconds

    @property
    def named_share(self) -> float | None:
        """How much of the phase is named; None: of a phase that takes no time."""
        return self.named_seconds / self.phase_seconds if self.phase_seconds > 0 else None


class StepPart(NamedTuple):
    """A part of a step; the rest where it is a layer's."""

    name: str
    seconds: float
    share: float
    layer: str | None = None
    kind: str | None = None
    half_width: float | None = None  # of its 95 % interval; None: not known

    @property
    def is_clear(self) -> bool:
        """Whether it is longer than the measurement's error."""
        return self.half_width is None or self.seconds > self.half_width


@dataclass(frozen=True, kw_only=True, slots=True)
class StepProfile:
    """Where a step's time goes."""

    num_rounds: int  # that the figures rest on
    num_slow_rounds: int  # left out
    phases: tuple[Phase, ...]
    full_seconds: float  # Keras's own step with its input pipeline
    full_half_width: float | None  # of its 95 % interval
    difference_half_width: float | None  # of that of the phases' sum less the full step
    pipeline_seconds: float | None  # that the input pipeline alone needs for a batch
    layers: tuple[LayerTime, ...]  # empty: cannot be told apart
    loss_seconds: dict[Direction, float]
    optimizer_seconds: float | None
    checks: tuple[PhaseCheck, ...]
    on_device: bool  # operations of the traces ran on a GPU
    peak_flops_per_second: float | None
    bytes_per_second: float | None  # that memory can move
    steps_per_epoch: int | None

    @property
    def sum_seconds(self) -> float:
        """All phases."""
        return sum(phase.seconds for phase in self.phases)

    @property
    def difference_seconds(self) -> float:
        """The phases' sum less the full step."""
        return self.sum_seconds - self.full_seconds

    @property
    def relative_difference(self) -> float:
        """That as a share of the full step."""
        return self.difference_seconds / self.full_seconds

    @property
    def extrapolated_epoch_seconds(self) -> float | None:
        """The phases' sum times the steps of an epoch."""
        return self.sum_seconds * self.steps_per_epoch if self.steps_per_epoch else None

    @property
    def bottleneck(self) -> StepPart:
        """The largest single part of a step."""
        return max(self._list_parts(), key=lambda part: part.seconds)

    def _list_parts(self) -> Iterator[StepPart]:
        def part(name: str, seconds: float, **fields: Any) -> StepPart:
            return StepPart(name, seconds, seconds / self.full_seconds, **fields)

        checked = [check.phase for check in self.checks]
        for phase in self.phases:
            if phase.name not in checked:
                yield part(phase.name, phase.seconds, half_width=phase.half_width)
        # It holds a step up for no longer than it takes for a batch with all cores to itself.
        lacking = -self.difference_seconds
        waiting = min(lacking, self.pipeline_seconds or 0.0)
        half_width = self.difference_half_width if waiting == lacking else None
        yield part("input pipeline", waiting, half_width=half_width)
        for check in self.checks:
            yield part(f"{HOST_OVERHEAD} of {check.phase}", check.overhead_seconds)
            yield part(f"{UNNAMED} of {check.phase}", check.unnamed_seconds or 0.0)
        for direction, seconds in self.loss_seconds.items():
            yield part(f"{direction} of the {LOSS}", seconds)
        yield part("optimizer", self.optimizer_seconds or 0.0)
        for layer in self.layers:
            for name, work in (("forward", layer.forward), ("backward", layer.backward)):
                whole_name = f"{name} of {layer.name}"
                yield part(whole_name, work.seconds, layer=layer.name, kind=layer.kind)
