"""What a run took of energy, as lines of plain text and as a JSON object."""

from collections.abc import Mapping
from typing import Any

from tfbench.analysis.run.energy import describe_parts, find_energy, name_parts
from tfbench.records.run import RunResult
from tfbench.report.formats import format_number, format_pairs, format_time
from tfbench.schema import to_plain


def energy_pairs(result: RunResult, metrics: Mapping[str, float | None]) -> list[tuple[str, str]]:
    """Returns the measured figures with what they are of, and the estimated ones as such; none where there are none."""
    pairs = []
    energy = find_energy(result)
    if energy and (text := _describe(metrics, "")):
        pairs.append(("energy", f"{text} ({name_parts(energy.parts)})"))
    if text := _describe(metrics, "estimate/"):
        watts = format_number(result.request.recipe.cost.estimated_watts)
        pairs.append(("energy", f"ESTIMATE, at {watts} W as given, not measured: {text}"))
    return pairs


def _describe(metrics: Mapping[str, float | None], prefix: str) -> str:
    """Returns joules, watts and what a joule trains, as far as there are figures."""
    texts = []
    for name, form in (
        ("samples_per_joule", "{} samples/J"),
        ("energy_joules_per_epoch", "{} J an epoch"),
        ("energy_to_accuracy_joules", "{} J to the accuracy"),
        ("mean_watts", "{} W"),
    ):
        if (value := metrics.get(prefix + name)) is not None:
            texts.append(form.format(format_number(value)))
    return ", ".join(texts)


def source_lines(result: RunResult, width: int) -> list[str]:
    """Returns which counters of energy a run had, and why others could not be read."""
    found = result.energy
    if found is None:
        return []
    pairs = [
        (source.name, f"{source.part}, renewed every {format_time(source.resolution_seconds)}")
        for source in found.sources
    ]
    pairs += [("not read", problem) for problem in found.problems]
    energy = find_energy(result)
    reasons = [problem for problem in energy.problems if problem not in found.problems] if energy else []
    return ["Energy", *format_pairs(pairs + [("no figure", reason) for reason in reasons], width)]


def energy_json(result: RunResult) -> dict[str, Any] | None:
    """Returns what was measured of energy in joules, of what, and why there is no more; None: it was not looked for."""
    energy, found = find_energy(result), result.energy
    if energy is None or found is None:
        return None
    return {
        "parts": list(energy.parts),
        "included": describe_parts(energy.parts),
        "sources": [to_plain(source) for source in found.sources],
        "joules": energy.joules,
        "joules_by_part": dict(energy.joules_by_part),
        "seconds": energy.seconds,
        "samples": energy.samples,
        "joules_per_epoch": energy.per_epoch,
        "problems": list(energy.problems),
        "estimated_watts": result.request.recipe.cost.estimated_watts,
    }
