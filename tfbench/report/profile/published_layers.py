"""Published times of a recipe's layers beside ours, as lines of plain text and as JSON."""

from collections.abc import Iterator
from typing import Any

from tfbench.analysis.comparison.references import find_published_layers
from tfbench.analysis.profile.step_profile import DIRECTIONS
from tfbench.analysis.profile.variant_layers import LayerKey
from tfbench.analysis.profile.variants import VariantComparison
from tfbench.recipe import tables
from tfbench.recipe.sections import Recipe, Reference
from tfbench.records.sweep import format_value
from tfbench.records.variants import BASE
from tfbench.report.comparison.speeds import milliseconds_text
from tfbench.report.formats import wrap

_GAP = "  "


def published_lines(recipe: Recipe, found: VariantComparison, width: int) -> list[str]:
    """Returns published times of layers beside ours, and why they cannot be held against each other."""
    beside = list(_published_beside(recipe, found))
    if not beside:
        return []
    labels = _label_setups(recipe, found)
    lines = ["", "Layers beside published figures, a step"]
    for key, published in beside:
        direction, layer = key
        ours = ", ".join(
            f"{label} {milliseconds_text(found.layer_seconds[name][key])} ms"
            for name, label in labels.items()
            if key in found.layer_seconds.get(name, {})
        )
        theirs = [seconds for _, seconds in published]
        text = f"{layer} {direction}: {ours}; published {' -> '.join(f'{milliseconds_text(s)} ms' for s in theirs)}"
        lines += wrap(text + (f" ({theirs[0] / theirs[-1]:.3g} times)" if len(theirs) > 1 else ""), width, first=_GAP)
    hardware = dict.fromkeys(
        one.hardware + ("" if one.verified else " (unverified)") for _, published in beside for one, _ in published
    )
    lines += wrap(f"Published: {' -> '.join(hardware)}.", width, first=_GAP)
    for reason in _list_reasons(recipe, found):
        lines += wrap(f"Not comparable: {reason.rstrip('.')}.", width, first=_GAP)
    return lines


def _published_beside(
    recipe: Recipe, found: VariantComparison
) -> Iterator[tuple[LayerKey, list[tuple[Reference, float]]]]:
    """Yields the layers of which a time was published and is known of ours."""
    published = find_published_layers(recipe.reference)
    for layer in {layer: None for seconds in found.layer_seconds.values() for _, layer in seconds}:
        for direction in DIRECTIONS:
            if figures := published.get(f"{direction}/{layer}"):
                yield (direction, layer), figures


def _list_reasons(recipe: Recipe, found: VariantComparison) -> list[str]:
    reasons = [one.not_comparable for _, published in _published_beside(recipe, found) for one, _ in published]
    return [reason for reason in dict.fromkeys(reasons) if reason]


def _label_setups(recipe: Recipe, found: VariantComparison) -> dict[str, str]:
    """Returns a short name for the step as it stands and each variant: its value where one key alone is changed."""
    keys = {key for outcome in found.outcomes for key in outcome.values}
    names = {outcome.name: outcome.name for outcome in found.outcomes}
    own = _own_value(recipe, next(iter(keys))) if len(keys) == 1 else None
    if own is None:
        return {BASE: BASE} | names
    return {BASE: format_value(own)} | {
        outcome.name: format_value(next(iter(outcome.values.values()))) for outcome in found.outcomes
    }


def _own_value(recipe: Recipe, key: str) -> Any:
    value: Any = tables.to_tables(recipe)
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def published_json(recipe: Recipe, found: VariantComparison) -> dict[str, Any]:
    """Returns the published times of layers that were timed, and why they cannot be held against ours."""
    return {
        "published_layers": [
            {"layer": "/".join(key), "references": [{"hardware": one.hardware, "seconds": s} for one, s in published]}
            for key, published in _published_beside(recipe, found)
        ],
        "not_comparable": _list_reasons(recipe, found),
    }
