"""From the readings of a step's variants to a verdict: which pay, what each does to the loss, and which layers change.

All variants are timed in turns within one process, and the unchanged step twice: as it stands and the same again. What
those two differ by is noise. A variant is faster or slower where its interval leaves out 1, and its ratio lies farther
from 1 than either end of the interval of that pair.
"""

import dataclasses
import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from tfbench.measure.intervals import ArmComparison, compare_paired, compare_unpaired
from tfbench.measure.step_profile import DIRECTIONS, Direction
from tfbench.profile_records import Profile, ProfiledLayer, Variant, VariantRound, VariantSetup
from tfbench.profile_variants import BASE, CONTROL
from tfbench.results import RunResult

Verdict = Literal["pays", "costs", "no measurable difference", "not judged", "failed"]
LayerKey = tuple[Direction, str]  # "backward", "pool"
LayerReadings = dict[LayerKey, tuple[float, ...]]  # seconds, one a round
OTHER_WEIGHTS = "begins with other weights"
OTHER_HEAD = "its head makes another loss"
OTHER_STEPS = "its loss is known of executions of other steps"
_EXECUTION_KEY = "training.steps_per_execution"
TRACED_STEP = "{}/step"  # the call that was traced, without a trace
_SAME_LOSS = 1e-6  # relative difference up to which losses are the same
_LAYER_CHANGE = 0.2  # of a layer's own time, and
_STEP_CHANGE = 0.02  # of the step, above which a layer's time has changed


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LossEffect:
    """Where the loss is after steps that all setups made, as a mean of the last ones: a quarter, or an execution.

    None: not finite, or not known. `not_comparable`: why the two cannot be held against each other.
    """

    num_steps: int
    num_last: int  # of them are in the mean
    base: float | None
    loss: float | None
    not_comparable: str = ""

    @property
    def relative_change(self) -> float | None:
        """By how much the variant's loss is above the base's, as a share of it; None: cannot be told."""
        if self.not_comparable or self.base is None or self.loss is None:
            return None
        if self.base == 0:
            return 0.0 if self.loss == 0 else None
        return (self.loss - self.base) / abs(self.base)

    @property
    def is_same(self) -> bool:
        """Whether the losses are equal but for rounding."""
        change = self.relative_change
        return change is not None and abs(change) <= _SAME_LOSS


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LayerDifference:
    """One direction of a layer that a variant makes faster or slower; 0 seconds: no operation of it was seen."""

    layer: str
    direction: Direction
    base_seconds: float
    seconds: float

    @property
    def ratio(self) -> float | None:
        """How many times as fast the variant is."""
        return self.base_seconds / self.seconds if self.seconds > 0 else None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class VariantOutcome:
    """What came of a variant; times in seconds a step, `ratio` that of the speeds."""

    name: str
    values: dict[str, Any]
    verdict: Verdict
    refusal: str = ""
    seconds: float | None = None  # median over the rounds
    ratio: ArmComparison | None = None
    loss: LossEffect | None = None
    layers: tuple[LayerDifference, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class VariantComparison:
    """A step and its variants. `layer_seconds`: of each that was traced, by direction and layer."""

    num_rounds: int
    base_seconds: float | None
    base_refusal: str
    control: ArmComparison | None  # the same step again: what noise does in these rounds
    control_seconds: float | None
    control_loss: LossEffect | None
    outcomes: tuple[VariantOutcome, ...]
    layer_seconds: dict[str, dict[LayerKey, float]]

    @property
    def noise_limit(self) -> float | None:
        """The relative difference that noise hides."""
        return None if self.control is None else max(self.control.high, 1 / self.control.low) - 1


def compare_variants(result: RunResult) -> VariantComparison | None:
    """Says of each variant of a profile whether it pays; None where there is none."""
    profile, request = result.profile, result.request.profile
    if profile is None or request is None or not request.variants:
        return None
    rounds, setups = profile.variant_rounds, {setup.name: setup for setup in profile.setups}
    control = _compare_speed(rounds, CONTROL)
    base = setups.get(BASE)
    size = result.request.recipe.training.steps_per_execution
    sizes = {one.name: one.values.get(_EXECUTION_KEY, size) for one in request.variants}
    window = _find_window(setups, {BASE: size, CONTROL: size} | sizes)
    base_seconds = _median_seconds(rounds, BASE)
    readings = {name: _read_layers(profile, setup) for name, setup in setups.items() if setup.layers}
    return VariantComparison(
        num_rounds=sum(BASE in one.seconds for one in rounds),
        base_seconds=base_seconds,
        base_refusal=base.refusal if base else "",
        control=control,
        control_seconds=_median_seconds(rounds, CONTROL),
        control_loss=_compare_losses(window, base, setups.get(CONTROL)),
        outcomes=tuple(
            _judge_variant(variant, setups, window, rounds, control, readings, base_seconds)
            for variant in request.variants
        ),
        layer_seconds={
            name: {key: statistics.median(seconds) for key, seconds in by_layer.items()}
            for name, by_layer in readings.items()
            if by_layer
        },
    )


def _judge_variant(
    variant: Variant,
    setups: dict[str, VariantSetup],
    window: "_Window | None",
    rounds: Sequence[VariantRound],
    control: ArmComparison | None,
    readings: dict[str, LayerReadings],
    base_seconds: float | None,
) -> VariantOutcome:
    setup = setups.get(variant.name)
    ratio = _compare_speed(rounds, variant.name)
    refusal = setup.refusal if setup else ""
    own, before, again = (readings.get(name, {}) for name in (variant.name, BASE, CONTROL))
    return VariantOutcome(
        name=variant.name,
        values=variant.values,
        verdict="failed" if refusal else _judge(ratio, control),
        refusal=refusal,
        seconds=_median_seconds(rounds, variant.name),
        ratio=ratio,
        loss=_compare_losses(window, setups.get(BASE), setup, changes_head="training.head" in variant.values),
        layers=tuple(_find_changed_layers(before, own, again, base_seconds)) if base_seconds else (),
    )


def _judge(ratio: ArmComparison | None, control: ArmComparison | None) -> Verdict:
    if ratio is None or control is None:
        return "not judged"
    limit = max(control.high, 1 / control.low)
    if not ratio.excludes_one or 1 / limit <= ratio.ratio <= limit:
        return "no measurable difference"
    return "pays" if ratio.ratio > 1 else "costs"


def _compare_speed(rounds: Sequence[VariantRound], name: str) -> ArmComparison | None:
    """Returns how many times as fast a variant is as the base, by the rounds in which both were timed."""
    both = [one.seconds for one in rounds if BASE in one.seconds and name in one.seconds]
    return compare_paired([seconds[name] for seconds in both], [seconds[BASE] for seconds in both])


def _median_seconds(rounds: Sequence[VariantRound], name: str) -> float | None:
    seconds = [one.seconds[name] for one in rounds if name in one.seconds]
    return statistics.median(seconds) if seconds else None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Window:
    """The last steps of training of which the mean loss of all `sizes`, steps an execution by setup, is known."""

    num_steps: int
    num_last: int
    sizes: dict[str, int]

    def mean(self, setup: VariantSetup) -> float | None:
        """Returns the mean loss, None if one is not finite."""
        size = self.sizes[setup.name]
        last = setup.losses[(self.num_steps - self.num_last) // size : self.num_steps // size]
        finite = [loss for loss in last if loss is not None]
        return statistics.fmean(finite) if len(finite) == len(last) else None


def _find_window(setups: dict[str, VariantSetup], sizes: dict[str, int]) -> _Window | None:
    """Returns the steps over which losses are held against each other; None where the base has none.

    Losses are means over the steps of an execution. Where those of some have no common end, only setups whose
    executions are as long as the base's are in it.
    """
    known = {name: size for name, size in sizes.items() if name in setups and setups[name].losses}
    if BASE not in known:
        return None
    alike = {name: size for name, size in known.items() if size == known[BASE]}
    for members in (known, alike):
        unit = math.lcm(*members.values())
        num_steps = min(len(setups[name].losses) * size for name, size in members.items()) // unit * unit
        if num_steps:
            num_last = max(unit, num_steps // 4 // unit * unit)
            return _Window(num_steps=num_steps, num_last=num_last, sizes=members)
    return None


def _compare_losses(
    window: _Window | None, base: VariantSetup | None, setup: VariantSetup | None, *, changes_head: bool = False
) -> LossEffect | None:
    """Returns None where one of the two has no loss."""
    if window is None or base is None or setup is None or not setup.losses:
        return None
    is_known = setup.name in window.sizes
    has_same_weights = base.has_same_weights and setup.has_same_weights
    reasons = {OTHER_STEPS: not is_known, OTHER_WEIGHTS: not has_same_weights, OTHER_HEAD: changes_head}
    return LossEffect(
        num_steps=window.num_steps,
        num_last=window.num_last,
        base=window.mean(base),
        loss=window.mean(setup) if is_known else None,
        not_comparable=next((reason for reason, holds in reasons.items() if holds), ""),
    )


def _read_layers(profile: Profile, setup: VariantSetup) -> LayerReadings:
    """Returns how long each direction of a layer takes in each round; nothing without a trace.

    A trace makes a call longer: its times are scaled to those of the call without it, where that was timed.
    """
    untraced = TRACED_STEP.format(setup.name)
    by_round = [
        {part: seconds * one.seconds.get(untraced, traced.seconds) / traced.seconds for part, seconds in parts.items()}
        for one in profile.variant_rounds
        if (traced := one.traced.get(setup.name)) and (parts := traced.parts)
    ]
    return {
        (direction, name): tuple(parts.get(f"{direction}/{layer.index}", 0.0) for parts in by_round)
        for layer, name in zip(setup.layers, _name_uses(setup.layers), strict=True)
        for direction in DIRECTIONS
        if by_round
    }


def _name_uses(layers: Sequence[ProfiledLayer]) -> Iterator[str]:
    """Yields a name for each use of a layer: that of the layer, with a number from its second use on."""
    seen: dict[tuple[str, str], int] = {}
    for layer in layers:
        use = seen[layer.name, layer.kind] = seen.get((layer.name, layer.kind), 0) + 1
        yield layer.name if use == 1 else f"{layer.name} ({use})"


def _find_changed_layers(
    base: LayerReadings, other: LayerReadings, control: LayerReadings, base_seconds: float
) -> Iterator[LayerDifference]:
    """Yields layers whose time changes by much of itself, by enough of the step to matter, and by more than chance."""
    for key in (key for key in base if key in other):
        before, after = statistics.median(base[key]), statistics.median(other[key])
        noise = abs(statistics.median(control[key]) - before) if key in control else 0.0
        is_large = abs(after - before) > max(_LAYER_CHANGE * before, _STEP_CHANGE * base_seconds, noise)
        if is_large and _is_told_apart(base[key], other[key]):
            direction, layer = key
            yield LayerDifference(layer=layer, direction=direction, base_seconds=before, seconds=after)


def _is_told_apart(base: Sequence[float], other: Sequence[float]) -> bool:
    """Says whether the interval of the rounds' ratios leaves out 1; what is nothing in some round has no ratio."""
    if min(*base, *other) <= 0:
        return True
    found = compare_paired(base, other) if len(base) == len(other) else compare_unpaired(base, other)
    return found is not None and found.excludes_one
