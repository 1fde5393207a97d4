"""How the variants of a step compare, as lines of plain text and as JSON; nothing here prints."""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tfbench.analysis.comparison.intervals import CONFIDENCE, ArmComparison
from tfbench.analysis.profile.variant_layers import LAYER_CHANGE, STEP_CHANGE
from tfbench.analysis.profile.variant_losses import LossEffect
from tfbench.analysis.profile.variants import VariantComparison, VariantOutcome, Verdict, compare_variants
from tfbench.records.run import RunResult
from tfbench.records.variants import BASE
from tfbench.report.commands import vary_command
from tfbench.report.comparison.references import format_ratio
from tfbench.report.comparison.speeds import milliseconds_text
from tfbench.report.formats import format_number, wrap
from tfbench.report.profile.published_layers import published_json, published_lines
from tfbench.report.text_table import table_lines
from tfbench.wording import DEFAULT_STORE, count, format_share

_GAP = "  "
_NEAR_ONE = 0.05  # a difference from 1 below which a ratio needs a third decimal
_FEW = 1e-3  # a share below which per cent need more than two decimals
_LAYERS_HEADING = (
    f"Layers whose time changes, by more than {100 * LAYER_CHANGE:g} %, {100 * STEP_CHANGE:g} % of the step, and chance"
)
_HEADINGS: dict[Verdict, str] = {
    "pays": "Pays",
    "costs": "Costs",
    "no measurable difference": "No measurable difference",
    "not judged": "Not judged, for lack of builds",
    "failed": "Failed",
}


def variant_lines(result: RunResult, width: int, store: Path | str = DEFAULT_STORE) -> list[str]:
    """Returns which variants of a step pay and which cost, by how much, and what they do to the loss and the layers.

    Args:
        result: Of a profile whose request has variants; of any other, nothing is returned.
        width: Characters of a line.
        store: For what is to be measured next.
    """
    found = compare_variants(result)
    if found is None:
        return []
    rounds, builds = count(found.num_rounds, "round"), count(found.num_builds, "build")
    lines = [
        f"Variants of a step, timed in turns: {builds} of each, {rounds}",
        *_table(found, width),
        "",
    ]
    for text in _verdict_texts(found):
        lines += wrap(text, width)
    for text in (*_family_texts(found), _spread_text(found), *_loss_texts(found)):
        lines += wrap(text, width)
    lines += _layer_lines(found, width)
    lines += published_lines(result.request.recipe, found, width)
    return [*lines, *_command_lines(result, found, width, store)]


def variants_to_json(result: RunResult) -> dict[str, Any]:
    """Returns the same as a JSON object; an empty one where there is nothing to compare."""
    found = compare_variants(result)
    if found is None:
        return {}
    return {
        "num_builds": found.num_builds,
        "num_rounds": found.num_rounds,
        "num_compared": found.num_compared,
        "base": {
            "name": BASE,
            "seconds": found.base_seconds,
            "build_seconds": list(found.base_build_seconds),
            "build_spread": found.build_spread,
            "refusal": found.base_refusal,
        },
        "control": {"loss": _loss_json(found.control_loss)},
        "variants": [_outcome_json(result, outcome) for outcome in found.outcomes],
        "layer_seconds": {
            name: {"/".join(key): value for key, value in seconds.items()}
            for name, seconds in found.layer_seconds.items()
        },
    } | published_json(result.request.recipe, found)


def _table(found: VariantComparison, width: int) -> Iterator[str]:
    """Yields a row for each variant; where these are too long, name and loss stand on lines of their own."""
    num_steps = next((loss.num_steps for loss in _losses(found)), 0)
    after = f"loss after {count(num_steps, 'step')}"
    names, rows = ["variant", BASE], [["ms a step", "times as fast", "", after, ""]]
    base_loss = next((loss.base for loss in _losses(found)), None)
    rows.append([milliseconds_text(found.base_seconds), "1", "", format_number(base_loss), ""])
    for outcome in found.outcomes:
        names.append(outcome.name)
        cells = [milliseconds_text(outcome.seconds), _ratio_cell(outcome.ratio), outcome.verdict]
        rows.append([*cells, *_loss_cells(outcome.loss)])
    texts = _align(rows if num_steps else [row[:3] for row in rows])
    name_width = max(map(len, names))
    if len(_GAP) * 2 + name_width + max(map(len, texts)) <= width:
        yield from (f"{_GAP}{name:{name_width}}{_GAP}{text}".rstrip() for name, text in zip(names, texts, strict=True))
        return
    head, *texts = _align([row[:3] for row in rows])
    yield f"{_GAP * 2}{head}"
    for name, text, row in zip(names[1:], texts, rows[1:], strict=True):
        yield from (f"{_GAP}{name}", f"{_GAP * 2}{text}")
        if num_steps:
            yield f"{_GAP * 2}{after}: {', '.join(cell for cell in row[3:] if cell)}"


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *others = rows
    return table_lines(head, others, left=head[1:])


def _losses(found: VariantComparison) -> list[LossEffect]:
    return [loss for loss in (found.control_loss, *(outcome.loss for outcome in found.outcomes)) if loss]


def _loss_cells(loss: LossEffect | None) -> list[str]:
    return ["-", ""] if loss is None else [format_number(loss.loss), _describe_loss(loss)]


def _describe_loss(loss: LossEffect) -> str:
    if loss.not_comparable:
        return "not comparable"
    if loss.loss is None:
        return "not finite" if loss.base is not None else "not finite either"
    if loss.base is None:
        return "finite, unlike the recipe's"
    change = loss.relative_change
    if change is None:
        return "from 0"
    if loss.is_same:
        return "the same"
    share = abs(change)
    text = format_share(share) if share >= _FEW else f"{100 * share:.1g} %"
    return f"{text} {'higher' if change > 0 else 'lower'}"


def _verdict_texts(found: VariantComparison) -> Iterator[str]:
    """Yields a sentence for each verdict that some variant has."""
    for verdict, heading in _HEADINGS.items():
        texts = [_describe_outcome(outcome) for outcome in found.outcomes if outcome.verdict == verdict]
        if texts:
            yield f"{heading}: {'; '.join(texts)}."


def _describe_outcome(outcome: VariantOutcome) -> str:
    if outcome.refusal:
        return f"{outcome.name}: {outcome.refusal.rstrip('.')}"
    if outcome.ratio is None or outcome.verdict == "not judged":
        return outcome.name
    ratio, low, high = _ratio_texts(outcome.ratio)
    return f"{outcome.name} ({ratio} times as fast, {low} to {high})"


def _family_texts(found: VariantComparison) -> Iterator[str]:
    """Yields which variants would pass alone, but not among all that were compared."""
    alone = [
        outcome.name
        for outcome in found.outcomes
        if outcome.verdict == "no measurable difference" and outcome.ratio and outcome.ratio.excludes_one
    ]
    if alone:
        yield (
            f"Of {count(found.num_compared, 'variant')} some seem to differ by chance: the interval of "
            f"{', '.join(alone)} leaves out 1, but not by enough for one of so many."
        )


def _spread_text(found: VariantComparison) -> str:
    if found.build_spread is None:
        return (
            "The step was built once: how much two builds of the same step differ is not known, and nothing is judged."
        )
    return (
        f"From build to build, the unchanged step's time varied by {format_share(found.build_spread)} (standard "
        "deviation); what the machine did to all variants alike is in that, and not in the intervals."
    )


def _loss_texts(found: VariantComparison) -> Iterator[str]:
    """Yields what must be known of the losses before they are read."""
    for outcome in found.outcomes:
        if outcome.loss and outcome.loss.not_comparable:
            yield f"The loss of {outcome.name} is not comparable: {outcome.loss.not_comparable}."
    losses = _losses(found)
    if losses:
        num_steps, last = losses[0].num_steps, losses[0].num_last
        which = f"means of the last {last:,}" if last > 1 else "those of the last"
        yield (
            f"Losses are {which} of {count(num_steps, 'step')} on the same batches, from the same weights. So few "
            "steps show what goes wrong, not what a whole training ends with."
        )
    if found.control_loss and found.control_loss.relative_change and not found.control_loss.is_same:
        share = _describe_loss(found.control_loss)
        yield f"The unchanged step, built again, does not repeat its own loss ({share}): smaller changes are noise."


def _layer_lines(found: VariantComparison, width: int) -> list[str]:
    """Returns which layers a variant makes faster or slower; nothing where no layers were timed."""
    timed = [outcome for outcome in found.outcomes if {BASE, outcome.name} <= found.layer_seconds.keys()]
    if not timed:
        return []
    if found.num_builds < 2:
        return ["", *wrap("Which layers change is not judged, for lack of builds.", width)]
    lines = ["", *wrap(_LAYERS_HEADING, width)]
    for outcome in timed:
        changes = [
            f"{one.layer} {one.direction} {milliseconds_text(one.base_seconds)} ms -> "
            f"{milliseconds_text(one.seconds)} ms"
            + (f" ({format_ratio(one.ratio)} times as fast)" if one.ratio else " (no operation of it was seen)")
            for one in outcome.layers
        ]
        lines += wrap(f"{outcome.name}: {'; '.join(changes) or 'none'}", width, first=_GAP)
    return lines


def _command_lines(result: RunResult, found: VariantComparison, width: int, store: Path | str) -> list[str]:
    """Returns what the intervals leave out, and the commands that decide."""
    timed = [outcome for outcome in found.outcomes if outcome.ratio]
    telling = [outcome for outcome in timed if outcome.verdict in ("pays", "costs")] or timed
    by_keys: dict[tuple[str, ...], list[VariantOutcome]] = {}
    for outcome in telling:
        # Values of one key make one sweep; those of several would be mixed.
        by_keys.setdefault(tuple(outcome.values) if len(outcome.values) == 1 else (outcome.name,), []).append(outcome)
    commands = [command for alike in by_keys.values() if (command := _command(result, alike, store))]
    over = "builds" if found.num_builds > 1 else "rounds of one build"
    family = f"; verdicts are of all {found.num_compared} together" if found.num_compared > 1 else ""
    text = (
        f"Intervals are {100 * CONFIDENCE:g} %, each of its variant alone, over the {over}{family}. What differs from "
        "one process to the next is not in them: runs in processes of their own decide"
    )
    return ["", *wrap(text + (":" if commands else "."), width), *(f"{_GAP}{command}" for command in commands)]


def _command(result: RunResult, outcomes: Sequence[VariantOutcome], store: Path | str = DEFAULT_STORE) -> str | None:
    values = {key: [outcome.values[key] for outcome in outcomes] for key in outcomes[0].values}
    return vary_command(result.request, values, store)


def _ratio_texts(comparison: ArmComparison) -> list[str]:
    values = (comparison.ratio, comparison.low, comparison.high)
    is_near = abs(comparison.ratio - 1) < _NEAR_ONE
    return [f"{value:.3f}" if is_near else format_ratio(value) for value in values]


def _ratio_cell(comparison: ArmComparison | None) -> str:
    if comparison is None:
        return "-"
    ratio, low, high = _ratio_texts(comparison)
    return f"{ratio} [{low}, {high}]"


def _ratio_json(comparison: ArmComparison | None) -> dict[str, Any] | None:
    return None if comparison is None else dataclasses.asdict(comparison)


def _loss_json(loss: LossEffect | None) -> dict[str, Any] | None:
    if loss is None:
        return None
    return dataclasses.asdict(loss) | {"relative_change": loss.relative_change, "is_same": loss.is_same}


def _outcome_json(result: RunResult, outcome: VariantOutcome) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "values": outcome.values,
        "verdict": outcome.verdict,
        "refusal": outcome.refusal,
        "seconds": outcome.seconds,
        "speed_ratio": _ratio_json(outcome.ratio),
        "p_value": outcome.p_value,
        "adjusted_p_value": outcome.adjusted_p_value,
        "loss": _loss_json(outcome.loss),
        "layers": [dataclasses.asdict(one) | {"speed_ratio": one.ratio} for one in outcome.layers],
        "command": _command(result, [outcome]),
    }
