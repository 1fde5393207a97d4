"""From the readings of a profile to where a step's time goes: phases, layers, what limits them, and the bottleneck.

A phase is the difference of two functions of which one does all that the other does, and more: dispatch, forward,
forward and backward, the whole step. That way their sum is the step whatever the cost of a call. What runs at the same
time as an earlier phase costs no time of its own, and is in none.

Layers come from a trace of the same functions. A trace makes a call longer, so that its times are scaled to those of
the calls without it, round by round. A moment in which no operation runs is host overhead.
"""

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from tfbench.measure.work import find_peak
from tfbench.profile_records import CALLS, COPY_CALL, EpochCheck, Profile, ProfiledLayer, ProfileRound
from tfbench.results import RunResult

Direction = Literal["forward", "backward"]
DIRECTIONS: tuple[Direction, Direction] = ("forward", "backward")
LOSS = "loss"
HOST_OVERHEAD = "host overhead"
KERAS_LOOP = "keras loop"
UPDATE_AND_LOOP = "update+loop"  # where they were not told apart
PIPELINE = "input pipeline"  # what a full step takes beyond its phases: it waits for a batch, or shares the processor


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Phase:
    """A part of a step. "measured": timed by itself; "difference": of two functions that were timed."""

    name: str  # "input", "copy", "dispatch", "forward", "backward", "update", "keras loop" or "update+loop"
    seconds: float  # median over the rounds
    best_seconds: float  # from the fastest round of each function
    how: Literal["measured", "difference"]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What one direction of a layer took in a step, what it had to do, and what keeps it from being faster.

    `bound` is what would take longer at the machine's peaks, its arithmetic or moving its bytes; `roof_share` is that
    time over the time that it took. None: not known.

    Source: Williams, Waterman and Patterson, "Roofline" (Communications of the ACM 2009).
    """

    seconds: float
    flops: int | None
    num_bytes: int | None
    bound: Literal["arithmetic", "memory"] | None = None
    roof_share: float | None = None

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
    """What a trace found in a phase, beside the phase's own time; operations are those of layers and the loss."""

    phase: Literal["forward", "backward", "update"]
    operations_seconds: float
    overhead_seconds: float
    phase_seconds: float

    @property
    def sum_seconds(self) -> float:
        """Operations and host overhead."""
        return self.operations_seconds + self.overhead_seconds

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

    num_rounds: int
    phases: tuple[Phase, ...]
    full_seconds: float  # Keras's own step with its input pipeline
    full_best_seconds: float
    pipeline_seconds: float | None  # that the input pipeline alone needs for a batch
    layers: tuple[LayerTime, ...]  # empty: cannot be told apart
    loss_seconds: dict[Direction, float]
    optimizer_seconds: float | None
    checks: tuple[PhaseCheck, ...]
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


def summarize_profile(result: RunResult) -> StepProfile | None:
    """Reduces the readings of a step's profile; None where not one round was recorded."""
    profile = result.profile
    if profile is None or not profile.rounds:
        return None
    rounds = profile.rounds
    phases = tuple(_find_phases(rounds))
    full = [one.seconds["full"] for one in rounds]
    parts = _typical_parts(rounds) if profile.layers else {}
    peak = find_peak(result.peak_checks)
    bandwidth = profile.bandwidth.bytes_per_second if profile.bandwidth else None
    batch = result.placement.global_batch_size if result.placement else None
    full_seconds = statistics.median(full)
    layers = tuple(_time_layers(profile, parts, full_seconds, batch, peak, bandwidth)) if parts else ()
    checks = tuple(_check_phases(rounds, phases, parts)) if parts else ()
    loss_seconds = {direction: parts.get(f"{direction}/{LOSS}", 0.0) for direction in DIRECTIONS} if parts else {}
    pipeline = [one.seconds["pipeline"] for one in rounds if "pipeline" in one.seconds]
    pipeline_seconds = statistics.median(pipeline) if pipeline else None
    slowdowns = [call.seconds / one.seconds[name] for one in rounds for name, call in list(one.traced.items())[-1:]]
    optimizer = parts.get("update") if parts else None
    return StepProfile(
        num_rounds=len(rounds),
        phases=phases,
        full_seconds=full_seconds,
        full_best_seconds=min(full),
        pipeline_seconds=pipeline_seconds,
        layers=layers,
        loss_seconds=loss_seconds,
        optimizer_seconds=optimizer,
        checks=checks,
        tracing_slowdown=statistics.median(slowdowns) if slowdowns else None,
        peak_flops_per_second=peak,
        bytes_per_second=bandwidth,
        epoch=profile.epoch,
        steps_per_epoch=result.steps_per_epoch,
        bottleneck=_find_bottleneck(phases, layers, checks, loss_seconds, optimizer, full_seconds, pipeline_seconds),
    )


def _find_phases(rounds: Sequence[ProfileRound]) -> Iterator[Phase]:
    dispatch, forward, backward, update = CALLS
    has_copy = all(COPY_CALL in one.seconds for one in rounds)

    def copy(seconds: dict[str, float]) -> float:
        return seconds[COPY_CALL] if has_copy else 0.0

    yield _phase("input", rounds, lambda s: s["take"] - s[dispatch], "difference")
    if has_copy:
        yield _phase("copy", rounds, copy, "measured")
    yield _phase(dispatch, rounds, lambda s: s[dispatch], "measured")
    yield _phase(forward, rounds, lambda s: s[forward] - s[dispatch], "difference")
    yield _phase(backward, rounds, lambda s: s[backward] - s[forward], "difference")
    if all(update in one.seconds for one in rounds):
        yield _phase(update, rounds, lambda s: s[update] - s[backward], "difference")
        yield _phase(KERAS_LOOP, rounds, lambda s: s["keras"] - s[update] - copy(s), "difference")
    else:
        yield _phase(UPDATE_AND_LOOP, rounds, lambda s: s["keras"] - s[backward] - copy(s), "difference")


def _phase(
    name: str,
    rounds: Sequence[ProfileRound],
    read: Callable[[dict[str, float]], float],
    how: Literal["measured", "difference"],
) -> Phase:
    seconds = [read(one.seconds) for one in rounds]
    # The least of differences would be that of a round in which the shorter function was held up.
    fastest = {call: min(one.seconds[call] for one in rounds) for call in rounds[0].seconds}
    return Phase(name=name, seconds=statistics.median(seconds), best_seconds=read(fastest), how=how)


def _typical_parts(rounds: Sequence[ProfileRound]) -> dict[str, float]:
    """Returns for each part of a step how long its operations run, the median over the rounds."""
    by_round = [_scaled_parts(one) for one in rounds if one.traced]
    names = dict.fromkeys(name for parts in by_round for name in parts)
    return {name: statistics.median(parts.get(name, 0.0) for parts in by_round) for name in names}


def _scaled_parts(one: ProfileRound) -> dict[str, float]:
    """Returns one round's parts, scaled to calls without a trace: the mean of all functions that a part is in."""
    found: dict[str, list[float]] = {}
    for call, traced in one.traced.items():
        scale = one.seconds[call] / traced.seconds
        for name, seconds in traced.parts.items():
            found.setdefault(name, []).append(seconds * scale)
    return {name: statistics.fmean(values) for name, values in found.items()}


def _time_layers(
    profile: Profile,
    parts: dict[str, float],
    full_seconds: float,
    batch: int | None,
    peak: float | None,
    bytes_per_second: float | None,
) -> Iterator[LayerTime]:
    for layer in profile.layers:
        forward_flops = layer.flops_per_sample * batch if layer.flops_per_sample is not None and batch else None
        # For each product of the forward pass: the gradients of the weights and of the input.
        products = 0 if not layer.is_trained else 2 if layer.has_input_gradient else 1
        work = {
            "forward": _judge(
                parts.get(f"forward/{layer.index}", 0.0), forward_flops, layer.forward_bytes, peak, bytes_per_second
            ),
            "backward": _judge(
                parts.get(f"backward/{layer.index}", 0.0),
                None if forward_flops is None else products * forward_flops,
                layer.backward_bytes,
                peak,
                bytes_per_second,
            ),
        }
        seconds = work["forward"].seconds + work["backward"].seconds
        yield LayerTime(layer=layer, **work, share=seconds / full_seconds)


def _judge(
    seconds: float, flops: int | None, num_bytes: int | None, peak: float | None, bytes_per_second: float | None
) -> Work:
    work = Work(seconds=seconds, flops=flops, num_bytes=num_bytes)
    if flops is None or not num_bytes or not peak or not bytes_per_second or seconds <= 0:
        return work
    arithmetic, memory = flops / peak, num_bytes / bytes_per_second
    return dataclasses.replace(
        work, bound="arithmetic" if arithmetic >= memory else "memory", roof_share=max(arithmetic, memory) / seconds
    )


def _check_phases(
    rounds: Sequence[ProfileRound], phases: Sequence[Phase], parts: dict[str, float]
) -> Iterator[PhaseCheck]:
    """Yields operations and host overhead of each phase, the latter less that of the call before."""
    idle = [_idle_seconds(one) for one in rounds if one.traced]
    before = CALLS[0]
    for phase in phases:
        if phase.name not in CALLS[1:]:
            continue
        name: Literal["forward", "backward", "update"] = phase.name  # type: ignore[assignment]
        operations = sum(seconds for part, seconds in parts.items() if part.partition("/")[0] == name)
        if name == "update":
            operations += parts.get("other", 0.0)
        yield PhaseCheck(
            phase=name,
            operations_seconds=operations,
            overhead_seconds=statistics.median(one[name] - one[before] for one in idle),
            phase_seconds=phase.seconds,
        )
        before = name


def _idle_seconds(one: ProfileRound) -> dict[str, float]:
    """Returns for how long no operation runs in each function, in calls without a trace."""
    idle = {CALLS[0]: one.seconds[CALLS[0]]}
    for call, traced in one.traced.items():
        busy = sum(traced.parts.values()) / traced.seconds
        idle[call] = one.seconds[call] * (1 - busy)
    return idle


def _find_bottleneck(
    phases: Sequence[Phase],
    layers: Sequence[LayerTime],
    checks: Sequence[PhaseCheck],
    loss_seconds: dict[Direction, float],
    optimizer_seconds: float | None,
    full_seconds: float,
    pipeline_seconds: float | None,
) -> Bottleneck:
    found: list[Bottleneck] = []

    def add(name: str, seconds: float, layer: LayerTime | None = None, direction: Direction | None = None) -> None:
        share = seconds / full_seconds
        found.append(Bottleneck(name=name, seconds=seconds, share=share, layer=layer, direction=direction))

    told_apart = [check.phase for check in checks]
    for phase in phases:
        if phase.name not in told_apart:
            add(phase.name, phase.seconds)
    # It holds a step up for no longer than it takes for a batch with all cores to itself.
    add(PIPELINE, min(full_seconds - sum(phase.seconds for phase in phases), pipeline_seconds or 0.0))
    for check in checks:
        add(f"{HOST_OVERHEAD} of {check.phase}", check.overhead_seconds)
    for direction, seconds in loss_seconds.items():
        add(f"{direction} of the {LOSS}", seconds)
    if optimizer_seconds is not None:
        add("optimizer", optimizer_seconds)
    for layer in layers:
        add(f"forward of {layer.layer.name}", layer.forward.seconds, layer, "forward")
        add(f"backward of {layer.layer.name}", layer.backward.seconds, layer, "backward")
    return max(found, key=lambda one: one.seconds)
