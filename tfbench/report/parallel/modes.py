"""What each way to spread a network costs a device in a step, as lines of plain text and as JSON."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from tfbench.analysis.parallel.modes import Advice, Mode, advise
from tfbench.analysis.parallel.shares import GROUPS, Share, find_group, find_shares
from tfbench.recipe.sections import Recipe, Reference
from tfbench.records.model_table import ModelTable
from tfbench.report.formats import format_exchange, format_pairs, wrap
from tfbench.report.run.layer_table import format_flops
from tfbench.report.text_table import table_lines
from tfbench.schema import to_plain
from tfbench.wording import count

FORMAT_VERSION = 1
_MAX_ROWS = 16  # layers of the table; more stand in groups
_EXCHANGED = (
    "Exchanged in a step: bytes of the results on each device, of which a ring moves those that are added up nearly "
    "twice, and those that are gathered nearly once"
)
_MODES = ("data", "model", "hybrid")


def describe_modes(recipe: Recipe, table: ModelTable, modes: Sequence[Mode], width: int) -> list[str]:
    """Returns shares of work and weights, bytes by layer and by mode, and what they say.

    Args:
        recipe: As resolved.
        table: Its network.
        modes: For its global batch.
        width: Characters of a line.
    """
    num_devices, batch = modes[1].mesh.num_devices, recipe.training.global_batch_size
    lines = [
        f"{recipe.recipe.title} ({recipe.name}): {batch:,} samples a step, on {count(num_devices, 'device')}",
        "",
        *_format_shares(find_shares(table.layers), recipe.reference, width),
        "",
        *_format_layers(table, modes, width),
        *_format_modes(modes),
        "",
    ]
    for sentence in list_sentences(recipe, table, modes):
        lines += wrap(sentence, width, first="- ")
    return lines


def modes_json(recipe: Recipe, table: ModelTable, modes: Sequence[Mode]) -> dict[str, Any]:
    """Returns all of it: every exchange of every mode, and the published shares."""
    return {
        "format_version": FORMAT_VERSION,
        "name": recipe.name,
        "num_devices": modes[1].mesh.num_devices,
        "global_batch_size": recipe.training.global_batch_size,
        "shares": [dataclasses.asdict(share) for share in find_shares(table.layers)],
        "published_shares": [to_plain(reference) for reference in _published(recipe.reference)],
        "modes": [_mode_json(mode) for mode in modes],
        "sentences": list_sentences(recipe, table, modes),
    }


def list_sentences(recipe: Recipe, table: ModelTable, modes: Sequence[Mode]) -> list[str]:
    """Returns where data parallelism costs most, what the others save, and which mode to try first by counts alone."""
    advice = advise(table.layers, modes, recipe.training.global_batch_size)
    by_name = {mode.name: mode for mode in modes}
    sentences = [f"{mode.name}: {mode.reason}." for mode in modes if mode.reason]
    sentences += [f"{mode.name}: {text}." for mode in modes if mode.traffic for text in mode.traffic.unknown]
    sentences += [
        *_say_where_data_costs(table, by_name["data"]),
        *_say_what_hybrid_saves(by_name["data"], by_name["hybrid"], advice),
        *_say_what_model_computes(by_name["data"], by_name["model"]),
        *_say_what_to_try(advice, recipe, modes[1].mesh.num_devices),
    ]
    if recipe.training.precision != "float32":
        sentences.append(f"Bytes are of float32; activations of {recipe.training.precision} have half of them.")
    return sentences


def _format_shares(shares: Sequence[Share], references: Sequence[Reference], width: int) -> list[str]:
    published = _published(references)
    head = ("share of", "work", "weights", *(["published"] if published else []))
    rows = [
        (
            share.group,
            _percent(share.flops),
            _percent(share.weights),
            *(_quote(share.group, one) for one in published[:1]),
        )
        for share in shares
    ]
    lines = table_lines(head, rows, left=("share of", "published"))
    for reference in published:
        mark = "" if reference.verified else ", not checked at the source"
        lines += format_pairs([("published", f"{reference.source}{mark}: {reference.notes}")], width)
    return lines


def _published(references: Sequence[Reference]) -> list[Reference]:
    return [one for one in references if "convolutions_weights" in one.figures]


def _quote(group: str, reference: Reference) -> str:
    """Returns "90 to 95 % of the work, 5 % of the weights"; "" for a group of which nothing was published."""
    figures = reference.figures
    if f"{group}_weights" not in figures:
        return ""
    least, most = (100 * figures[f"{group}_flops_at_{end}"] for end in ("least", "most"))
    return f"{least:.0f} to {most:.0f} %, {100 * figures[f'{group}_weights']:.0f} %"


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{100 * share:.1f} %"


def _format_layers(table: ModelTable, modes: Sequence[Mode], width: int) -> list[str]:
    """Returns bytes a layer, or a group of layers where there are many, in each mode; "?" where they are not known."""
    shown = [mode for mode in modes if mode.name in _MODES and mode.traffic]
    if not shown:
        return []
    groups = {row.name: str(find_group(row)) for row in table.layers} | {"probs": "loss"}
    layers = list(dict.fromkeys(one.layer for mode in shown if mode.traffic for one in mode.traffic.exchanges))
    ordered = [row.name for row in table.layers if row.name in layers]
    is_grouped = len(ordered) > _MAX_ROWS
    names = [*GROUPS, "loss"] if is_grouped else ordered
    rows = []
    for name in names:
        sums = [_sum(mode, name, groups if is_grouped else {}) for mode in shown]
        if any(sums):
            rows.append((name, *(format_exchange(num_bytes) if num_bytes else "" for num_bytes in sums)))
    rows.append(("sum", *("?" if mode.num_bytes is None else format_exchange(mode.num_bytes) for mode in shown)))
    head = ("layers" if is_grouped else "layer", *(mode.name for mode in shown))
    return [*wrap(_EXCHANGED, width), *table_lines(head, rows, left=head[:1]), ""]


def _sum(mode: Mode, name: str, groups: dict[str, str]) -> int:
    exchanges = mode.traffic.exchanges if mode.traffic else ()
    return sum(one.num_bytes for one in exchanges if groups.get(one.layer, one.layer) == name)


def _format_modes(modes: Sequence[Mode]) -> list[str]:
    head = ("mode", "mesh", "work a device", "weights", "exchanged", "bytes a MFLOP")
    rows = []
    for mode in modes:
        traffic = mode.traffic
        mesh = " x ".join(str(size) for size in (mode.mesh.data, mode.mesh.model))
        if traffic is None:
            rows.append((mode.name, mesh, "-", "-", "-", "-"))
            continue
        work, num_bytes = traffic.flops_per_device, traffic.num_bytes
        rows.append(
            (
                mode.name,
                mesh,
                "?" if work is None else format_flops(work),
                format_exchange(traffic.weight_bytes_per_device),
                "?" if num_bytes is None else format_exchange(num_bytes),
                _format_ratio(num_bytes / work * 1e6) if work and num_bytes is not None else "?",
            )
        )
    return table_lines(head, rows, left=("mode",))


def _format_ratio(value: float) -> str:
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.3g}"


def _say_where_data_costs(table: ModelTable, data: Mode) -> Iterator[str]:
    if not data.num_bytes or not data.traffic:
        return
    groups = {row.name: find_group(row) for row in table.layers}
    sums = {group: _sum(data, group, dict(groups)) for group in GROUPS}
    group = max(GROUPS, key=lambda name: sums[name])
    worst = max(data.traffic.exchanges, key=lambda one: one.num_bytes)
    yield (
        f"Data parallelism exchanges the gradients of all weights, {format_exchange(data.num_bytes)} a step whatever "
        f"the batch: {100 * sums[group] / data.num_bytes:.0f} % for {_name_group(group)}, most for {worst.layer} "
        f"({format_exchange(worst.num_bytes)})."
    )


def _name_group(group: str) -> str:
    return {"convolutions": "convolutions", "dense": "dense layers"}.get(group, "other layers")


def _say_what_hybrid_saves(data: Mode, hybrid: Mode, advice: Advice) -> Iterator[str]:
    before, after = data.num_bytes, hybrid.num_bytes
    if not before or not after:
        return
    what = "Hybrid exchanges inputs of the layers that are cut, and no gradients of their weights"
    change = (
        f"{format_exchange(after)} a step, {100 * (1 - after / before):.0f} % less than data parallelism"
        if after < before
        else f"{format_exchange(after)} a step, {after / before:.1f} times the bytes of data parallelism"
    )
    until = f"; both exchange as much at {count(advice.equal_batch, 'sample')} a step" if advice.equal_batch else ""
    yield f"{what}: {change}. This grows with the batch{until}."


def _say_what_model_computes(data: Mode, model: Mode) -> Iterator[str]:
    if not data.traffic or not model.traffic:
        return
    less, more = data.traffic.flops_per_device, model.traffic.flops_per_device
    if less and more and more > less:
        yield (
            "Model parallelism splits the weights and no samples: each device computes every layer that lies whole for "
            f"the whole batch, {more / less:.1f} times the work of data parallelism."
        )


def _say_what_to_try(advice: Advice, recipe: Recipe, num_devices: int) -> Iterator[str]:
    if advice.first is None:
        yield "By counts alone nothing is to be said of which mode to try first."
        return
    options = f"--replicas {num_devices}"
    if advice.first != "data":
        options += f" --modes data,{advice.first}"
        options += " --backend jax" if recipe.training.backend != "jax" else ""  # others split no weights
    why = "of the modes that share the work evenly it exchanges the fewest bytes"
    if advice.is_only_one:
        why = "it is the only mode that is possible and counted here"
    elif advice.fewer_bytes:
        why += f" ({advice.fewer_bytes} exchanges fewer bytes, and computes more)"
    yield (
        f"By counts alone, try {advice.first} first: {why}. Counts are no times: `tfbench scale {recipe.name} "
        f"{options}` measures."
    )


def _mode_json(mode: Mode) -> dict[str, Any]:
    traffic = mode.traffic
    return {
        "name": mode.name,
        "mesh": mode.mesh.sizes,
        "reason": mode.reason or None,
        "layout": {name: list(axes) for name, axes in mode.layout.items()},
        "flops_per_device": traffic.flops_per_device if traffic else None,
        "weight_bytes_per_device": traffic.weight_bytes_per_device if traffic else None,
        "num_bytes": mode.num_bytes,
        "exchanges": [to_plain(exchange) for exchange in traffic.exchanges] if traffic else [],
        "unknown": list(traffic.unknown) if traffic else [],
    }
