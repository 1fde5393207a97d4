"""From the readings of a step's variants to a verdict: which pay, what each does to the loss, and which layers change.

All variants are timed in turns within one process, and the unchanged step twice: as it stands and the same again. What
those two differ by is noise. A variant is faster or slower where its interval leaves out 1, and its ratio lies farther
from 1 than either end of the interval of that pair.
"""

import dataclasses
import statistics
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from tfbench.measure.intervals import ArmComparison, compare_paired
from tfbench.measure.profile import DIRECTIONS, Direction
from tfbench.profile_records import Profile, ProfiledLayer, Variant, VariantRound, VariantSetup
from tfbench.profile_variants import BASE, CONTROL
from tfbench.results import RunResult

Verdict = Literal["pays", "costs", "no measurable difference", "not judged", "failed"]
LayerKey = tuple[Direction, str]  # "backward", "pool"
OTHER_WEIGHTS = "begins with other weights"
OTHER_HEAD = "its head makes another loss"
TRACED_STEP = "{}/step"  # the call that was traced, without a trace
_SAME_LOSS = 1e-6  # relative difference up to which losses are the same
_LAYER_CHANGE = 0.2  # of a layer's own time, and
_STEP_CHANGE = 0.02  # of the step, above which a layer's time has changed


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LossEffect:
    """Where the loss is after the steps that base and variant both made, as a mean of the last quarter of them.

    None: not finite, or there is no loss. `not_comparable`: why the two cannot be held against each other.
    """

    num_steps: int
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
    base_seconds = _median_seconds(rounds, BASE)
    layer_seconds = {name: _time_layers(profile, setup) for name, setup in setups.items() if setup.layers}
    return VariantComparison(
        num_rounds=sum(BASE in one.seconds for one in rounds),
        base_seconds=base_seconds,
        base_refusal=base.refusal if base else "",
        control=control,
        control_loss=_compare_losses(base, setups.get(CONTROL)),
        outcomes=tuple(
            _judge_variant(variant, setups, rounds, control, layer_seconds, base_seconds)
            for variant in request.variants
        ),
        layer_seconds={name: seconds for name, seconds in layer_seconds.items() if seconds},
    )


def _judge_variant(
    variant: Variant,
    setups: dict[str, VariantSetup],
    rounds: Sequence[VariantRound],
    control: ArmComparison | None,
    layer_seconds: dict[str, dict[LayerKey, float]],
    base_seconds: float | None,
) -> VariantOutcome:
    setup = setups.get(variant.name)
    ratio = _compare_speed(rounds, variant.name)
    refusal = setup.refusal if setup else ""
    times = [layer_seconds.get(name, {}) for name in (BASE, variant.name)]
    return VariantOutcome(
        name=variant.name,
        values=variant.values,
        verdict="failed" if refusal else _judge(ratio, control),
        refusal=refusal,
        seconds=_median_seconds(rounds, variant.name),
        ratio=ratio,
        loss=_compare_losses(setups.get(BASE), setup, changes_head="training.head" in variant.values),
        layers=tuple(_find_changed_layers(times[0], times[1], base_seconds)) if base_seconds and all(times) else (),
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


def _compare_losses(
    base: VariantSetup | None, setup: VariantSetup | None, *, changes_head: bool = False
) -> LossEffect | None:
    """Returns None where one of the two has no loss."""
    num_steps = min(len(base.losses), len(setup.losses)) if base and setup else 0
    if not base or not setup or not num_steps:
        return None
    has_other_weights = not (base.has_same_weights and setup.has_same_weights)
    return LossEffect(
        num_steps=num_steps,
        base=_last_quarter(base.losses[:num_steps]),
        loss=_last_quarter(setup.losses[:num_steps]),
        not_comparable=OTHER_WEIGHTS if has_other_weights else OTHER_HEAD if changes_head else "",
    )


def _last_quarter(losses: Sequence[float | None]) -> float | None:
    last = losses[-max(1, len(losses) // 4) :]
    finite = [loss for loss in last if loss is not None]
    return statistics.fmean(finite) if len(finite) == len(last) else None


def _time_layers(profile: Profile, setup: VariantSetup) -> dict[LayerKey, float]:
    """Returns how long each direction of a layer takes, the median over the rounds; nothing without a trace.

    A trace makes a call longer: its times are scaled to those of the call without it, where that was timed.
    """
    untraced = TRACED_STEP.format(setup.name)
    by_round = [
        {part: seconds * one.seconds.get(untraced, traced.seconds) / traced.seconds for part, seconds in parts.items()}
        for one in profile.variant_rounds
        if (traced := one.traced.get(setup.name)) and (parts := traced.parts)
    ]
    names = _name_uses(setup.layers)
    return {
        (direction, name): statistics.median(parts.get(f"{direction}/{layer.index}", 0.0) for parts in by_round)
        for layer, name in zip(setup.layers, names, strict=True)
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
    base: dict[LayerKey, float], other: dict[LayerKey, float], base_seconds: float
) -> Iterator[LayerDifference]:
    """Yields layers whose time changes by much of itself, and by enough of the step to matter."""
    for key, before in base.items():
        after = other.get(key)
        if after is None:
            continue
        change = abs(after - before)
        if change > _LAYER_CHANGE * before and change > _STEP_CHANGE * base_seconds:
            direction, layer = key
            yield LayerDifference(layer=layer, direction=direction, base_seconds=before, seconds=after)
