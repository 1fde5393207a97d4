"""Which layers a variant of a step makes faster or slower, over several builds of both."""

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence

from tfbench.analysis.comparison.holm import holm, mean_p_value
from tfbench.analysis.comparison.intervals import CONFIDENCE, log_ratios
from tfbench.analysis.profile.step_profile import DIRECTIONS, Direction
from tfbench.records.profile import Profile, ProfiledLayer, TracedCall, VariantSetup

LayerKey = tuple[Direction, str]  # "backward", "pool"
LayerReadings = dict[LayerKey, dict[int, float]]  # mean seconds over the rounds, by build
TRACED_STEP = "{}/step"  # the call that was traced, without a trace
LAYER_CHANGE = 0.2  # of a layer's own time, and
STEP_CHANGE = 0.02  # of the step, above which a layer's time has changed


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


def read_layers(profile: Profile, setup: VariantSetup) -> LayerReadings:
    """Returns how long each direction of a layer takes in each build; nothing without a trace.

    A trace makes a call longer on the host: its times are scaled to those of the call without it, where that was timed.
    What ran on a GPU took its own time.
    """
    by_build: dict[int, list[dict[str, float]]] = {}
    for one in profile.variant_rounds:
        traced = one.traced.get(setup.name)
        if traced and traced.parts:
            untraced = one.seconds.get(TRACED_STEP.format(setup.name), traced.seconds)
            by_build.setdefault(one.build, []).append(_scale(traced, untraced))
    return {
        (direction, name): {
            build: statistics.fmean(parts.get(f"{direction}/{layer.index}", 0.0) for parts in rounds)
            for build, rounds in by_build.items()
        }
        for layer, name in zip(setup.layers, _name_uses(setup.layers), strict=True)
        for direction in DIRECTIONS
        if by_build
    }


def find_changed_layers(
    base: LayerReadings, others: Mapping[str, LayerReadings], base_seconds: float
) -> dict[str, list[LayerDifference]]:
    """Returns by variant the layers whose time changes by much of itself, by enough of the step, and beyond chance.

    All layers of all variants are one family of comparisons, of which Holm's adjustment calls none different by chance
    in 95 of 100 profiles.

    Args:
        base: Of the step without changes.
        others: Of the variants, by name.
        base_seconds: Of the step without changes.
    """
    possible = ((name, key) for name, readings in others.items() for key in base if key in readings)
    p_values = {test: _p_value(base[test[1]], others[test[0]][test[1]]) for test in possible}
    tests = {test: p_value for test, p_value in p_values.items() if p_value is not None}
    adjusted = holm(list(tests.values()))
    found: dict[str, list[LayerDifference]] = {name: [] for name in others}
    for (name, key), p_value in zip(tests, adjusted, strict=True):
        before, after = (statistics.median(one[key].values()) for one in (base, others[name]))
        is_large = abs(after - before) > max(LAYER_CHANGE * before, STEP_CHANGE * base_seconds)
        if is_large and p_value <= 1 - CONFIDENCE:
            direction, layer = key
            found[name].append(LayerDifference(layer=layer, direction=direction, base_seconds=before, seconds=after))
    return found


def _p_value(base: Mapping[int, float], other: Mapping[int, float]) -> float | None:
    """Returns how likely the builds are to differ so by chance; None where there is nothing to compare."""
    pairs = [(base[build], other[build]) for build in base if build in other]
    before, after = ([pair[place] for pair in pairs] for place in (0, 1))
    if len(pairs) < 2 or not any((*before, *after)):
        return None
    if min(*before, *after) > 0:
        return mean_p_value(log_ratios(before, after))
    # What is nothing has no ratio: it counts where no operation was seen in any build of one of the two.
    return 0.0 if (not any(before) and all(after)) or (all(before) and not any(after)) else 1.0


def _scale(traced: TracedCall, untraced_seconds: float) -> dict[str, float]:
    """Returns how long the parts of a traced call take in one without a trace."""
    factor = 1.0 if traced.on_device else untraced_seconds / traced.seconds
    return {part: seconds * factor for part, seconds in traced.parts.items()}


def _name_uses(layers: Sequence[ProfiledLayer]) -> Iterator[str]:
    """Yields a name for each use of a layer: that of the layer, with a number from its second use on."""
    seen: dict[tuple[str, str], int] = {}
    for layer in layers:
        use = seen[layer.name, layer.kind] = seen.get((layer.name, layer.kind), 0) + 1
        yield layer.name if use == 1 else f"{layer.name} ({use})"
