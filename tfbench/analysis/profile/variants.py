"""From the readings of a step's variants to a verdict: which pay, what each does to the loss, and which layers change.

All variants and the step without changes are built several times. The members of a build take turns within one process,
so that what the machine does in between slows all of them alike. Each build is reduced to one figure, the mean of the
logarithms of its rounds' ratios; these are the sample. Rounds of one build say nothing of the next, which may lie
otherwise in memory, and of a single build of each, however many rounds it has, nothing is judged.

A variant is faster or slower where Student's t says so of its builds' ratios with all variants of the profile as one
family, by Holm's adjustment: of variants that change nothing, a profile calls any faster or slower in one of 20 cases.
`benchmarks/variants.py` simulates it.
"""

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import Any, Literal

from tfbench.analysis.comparison.holm import holm, mean_p_value
from tfbench.analysis.comparison.intervals import CONFIDENCE, ArmComparison, compare_paired, log_ratios
from tfbench.analysis.profile.variant_layers import LayerDifference, LayerKey, find_changed_layers, read_layers
from tfbench.analysis.profile.variant_losses import LossEffect, LossWindow, compare_losses, find_window
from tfbench.records.profile import Profile, ProfileRequest, Variant, VariantRound, VariantSetup
from tfbench.records.run import RunResult
from tfbench.records.variants import BASE, CONTROL

Verdict = Literal["pays", "costs", "no measurable difference", "not judged", "failed"]
_EXECUTION_KEY = "training.steps_per_execution"
_METHOD = "Student-t on the logarithms of the builds' ratios"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class VariantOutcome:
    """What came of a variant; times in seconds a step, `ratio` that of the speeds.

    `ratio` and its interval are of this variant alone; `adjusted_p_value` is of all variants together, and gives the
    verdict. Of a single build, the interval is over its rounds.
    """

    name: str
    values: dict[str, Any]
    verdict: Verdict
    refusal: str = ""
    seconds: float | None = None  # geometric mean of the builds, each that of its rounds
    ratio: ArmComparison | None = None
    p_value: float | None = None
    adjusted_p_value: float | None = None
    loss: LossEffect | None = None
    layers: tuple[LayerDifference, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class VariantComparison:
    """A step and its variants. `layer_seconds`: of each that was traced, by direction and layer."""

    num_builds: int
    num_rounds: int  # of all builds
    base_build_seconds: tuple[float, ...]  # geometric means of the rounds of each build
    base_refusal: str
    control_loss: LossEffect | None  # the same step again
    outcomes: tuple[VariantOutcome, ...]
    layer_seconds: dict[str, dict[LayerKey, float]]

    @property
    def base_seconds(self) -> float | None:
        """Of the step without changes: the geometric mean of its builds."""
        return statistics.geometric_mean(self.base_build_seconds) if self.base_build_seconds else None

    @property
    def build_spread(self) -> float | None:
        """By how much builds of the step without changes differ: the standard deviation of their logarithms.

        What the machine does from one build to the next is in it; in the ratios it is not.
        """
        logs = [math.log(seconds) for seconds in self.base_build_seconds]
        return statistics.stdev(logs) if len(logs) > 1 else None

    @property
    def num_compared(self) -> int:
        """Variants in the family that the verdicts are of."""
        return sum(outcome.p_value is not None for outcome in self.outcomes)


def compare_variants(result: RunResult) -> VariantComparison | None:
    """Says of each variant of a profile whether it pays; None where there is none."""
    profile, request = result.profile, result.request.profile
    if profile is None or request is None or not request.variants:
        return None
    setups = _first_setups(profile.setups)
    window = _find_window(setups, request, result.request.recipe.training.steps_per_execution)
    by_build = _group_builds(profile.variant_rounds, BASE)
    outcomes = [_describe_variant(variant, profile, setups, window) for variant in request.variants]
    found = VariantComparison(
        num_builds=len(by_build),
        num_rounds=sum(map(len, by_build)),
        base_build_seconds=tuple(map(statistics.geometric_mean, by_build)),
        base_refusal=setups[BASE].refusal if BASE in setups else "",
        control_loss=compare_losses(window, setups.get(BASE), setups.get(CONTROL)),
        outcomes=tuple(_judge_family(outcomes)),
        layer_seconds={},
    )
    return _add_layers(found, profile, setups)


def _first_setups(setups: Sequence[VariantSetup]) -> dict[str, VariantSetup]:
    """Returns each name's first build, a later one where that was refused, and the second base as `CONTROL`."""
    found: dict[str, VariantSetup] = {}
    for setup in setups:
        if setup.name not in found or setup.refusal:
            found[setup.name] = setup
        elif setup.name == BASE and setup.losses:
            found.setdefault(CONTROL, dataclasses.replace(setup, name=CONTROL))
    return found


def _find_window(
    setups: dict[str, VariantSetup], request: ProfileRequest, steps_per_execution: int
) -> LossWindow | None:
    sizes = {one.name: one.values.get(_EXECUTION_KEY, steps_per_execution) for one in request.variants}
    return find_window(setups, {BASE: steps_per_execution, CONTROL: steps_per_execution} | sizes)


def _describe_variant(
    variant: Variant, profile: Profile, setups: dict[str, VariantSetup], window: LossWindow | None
) -> VariantOutcome:
    """Returns all of an outcome but its verdict and its layers."""
    setup = setups.get(variant.name)
    refusal = setup.refusal if setup else ""
    by_build = _group_builds(profile.variant_rounds, variant.name)
    ratio, p_value = _compare_speed(profile.variant_rounds, variant.name)
    return VariantOutcome(
        name=variant.name,
        values=variant.values,
        verdict="failed" if refusal else "not judged",
        refusal=refusal,
        seconds=statistics.geometric_mean(map(statistics.geometric_mean, by_build)) if by_build else None,
        ratio=ratio,
        p_value=None if refusal else p_value,
        loss=compare_losses(window, setups.get(BASE), setup, changes_head="training.head" in variant.values),
    )


def _judge_family(outcomes: Sequence[VariantOutcome]) -> list[VariantOutcome]:
    """Returns the outcomes with the verdicts that all of them together allow."""
    adjusted = iter(holm([outcome.p_value for outcome in outcomes if outcome.p_value is not None]))
    judged = []
    for outcome in outcomes:
        if outcome.p_value is None or outcome.ratio is None:
            judged.append(outcome)
            continue
        p_value = next(adjusted)
        verdict: Verdict = "no measurable difference"
        if p_value <= 1 - CONFIDENCE and outcome.ratio.ratio != 1:
            verdict = "pays" if outcome.ratio.ratio > 1 else "costs"
        judged.append(dataclasses.replace(outcome, verdict=verdict, adjusted_p_value=p_value))
    return judged


def _compare_speed(rounds: Sequence[VariantRound], name: str) -> tuple[ArmComparison | None, float | None]:
    """Returns how many times as fast a variant is as the base, and how likely that is by chance.

    By the rounds in which both were timed. Of one build, there is an interval over its rounds, and no such probability.
    """
    both: dict[int, list[dict[str, float]]] = {}
    for one in rounds:
        if BASE in one.seconds and name in one.seconds:
            both.setdefault(one.build, []).append(one.seconds)
    own, base = (
        [statistics.geometric_mean(seconds[key] for seconds in build) for build in both.values()]
        for key in (name, BASE)
    )
    if len(both) == 1:
        (alone,) = both.values()
        return compare_paired([seconds[name] for seconds in alone], [seconds[BASE] for seconds in alone]), None
    found = compare_paired(own, base)
    return found and dataclasses.replace(found, method=_METHOD), mean_p_value(log_ratios(own, base))


def _group_builds(rounds: Sequence[VariantRound], name: str) -> list[list[float]]:
    """Returns the seconds of the rounds of each build."""
    found: dict[int, list[float]] = {}
    for one in rounds:
        if name in one.seconds:
            found.setdefault(one.build, []).append(one.seconds[name])
    return list(found.values())


def _add_layers(found: VariantComparison, profile: Profile, setups: dict[str, VariantSetup]) -> VariantComparison:
    """Returns the comparison with the times of layers, where they were traced."""
    readings = {name: read_layers(profile, setup) for name, setup in setups.items() if setup.layers}
    layer_seconds = {
        name: {key: statistics.median(seconds.values()) for key, seconds in by_layer.items()}
        for name, by_layer in readings.items()
        if by_layer
    }
    names = [outcome.name for outcome in found.outcomes if outcome.name in readings]
    changed: dict[str, list[LayerDifference]] = {}
    if found.base_seconds and BASE in readings:
        others = {name: readings[name] for name in names}
        changed = find_changed_layers(readings[BASE], others, found.base_seconds)
    outcomes = [dataclasses.replace(outcome, layers=tuple(changed.get(outcome.name, ()))) for outcome in found.outcomes]
    return dataclasses.replace(found, outcomes=tuple(outcomes), layer_seconds=layer_seconds)
