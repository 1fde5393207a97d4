"""Noise floors as lines of plain text and as JSON."""

import datetime
from collections.abc import Sequence
from typing import Any

from tfbench.analysis.comparison.intervals import CONFIDENCE
from tfbench.analysis.comparison.noise import NoiseFloor
from tfbench.recipe.abilities import title_of
from tfbench.report.formats import wrap
from tfbench.report.text_table import fitting_lines
from tfbench.schema import to_plain
from tfbench.wording import format_share

FORMAT_VERSION = 1

_COLUMNS = ("created, UTC", "recipe", "devices", "batch", "rounds", "single runs", "pairs", "host", "group")
_LESS_IMPORTANT = ("host", "created, UTC", "rounds", "group")


def noise_lines(floor: NoiseFloor, num_failed: int, width: int) -> list[str]:
    """Returns what a calibration found, and what it is good for.

    Args:
        floor: What it found.
        num_failed: Runs that failed, and whose rounds are left out.
        width: Characters of a line.
    """
    key, rounds = floor.key, floor.num_rounds
    where = f"{_describe_place(floor)}, batch {key.global_batch_size:,}"
    limits = (
        ("two single runs", floor.unpaired_limit()),
        (f"the means of {rounds} and {rounds} runs", floor.unpaired_limit(rounds)),
        (f"two arms that take turns for {rounds} rounds", floor.paired_limit(rounds)),
    )
    lines = wrap(f"Noise floor of {key.recipe}: {where}; {rounds} rounds of two runs {_describe_length(floor)}", width)
    lines += [f"  {format_share(limit):>7}  between {what}" for what, limit in limits]
    remark = (
        "Both arms were the same, so all of it is noise: by this alone, speeds that differ by less show no measurable "
        f"difference ({100 * CONFIDENCE:g} %). It counts beside the runs' own scatter, for runs with the same "
        "settings, batch size, devices and length. What differs from one hour or day to the next is not in it."
    )
    if num_failed:
        remark += f" Runs that failed: {num_failed}; their rounds are left out."
    return [*lines, *wrap(remark, width, first="  ")]


def floor_table(floors: Sequence[NoiseFloor], width: int) -> list[str]:
    """Returns stored noise floors as a table, one row each; columns for which there is no room are left out."""
    return fitting_lines(_COLUMNS, [_row(floor) for floor in floors], width, left=_COLUMNS, drop=_LESS_IMPORTANT)


def floor_to_json(floor: NoiseFloor) -> dict[str, Any]:
    """Returns a noise floor with its limits as a JSON object; `pairs` are of as many rounds as it rests on."""
    limits = {
        "single_runs": floor.unpaired_limit(),
        "means": floor.unpaired_limit(floor.num_rounds),
        "pairs": floor.paired_limit(floor.num_rounds),
    }
    values: dict[str, Any] = to_plain(floor)
    return values | {"num_rounds": floor.num_rounds, "limits": limits, "confidence": CONFIDENCE}


def to_json(
    floor: NoiseFloor, num_failed: int, cautions: Sequence[str], documents: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Returns a calibration as one JSON object.

    Args:
        floor: What it found.
        num_failed: Runs that failed.
        cautions: What of the machine disturbed the runs.
        documents: Of each run that is in the store, as `run_json.to_json` makes it.
    """
    return {
        "format_version": FORMAT_VERSION,
        "group": floor.group,
        "noise_floor": floor_to_json(floor),
        "num_failed": num_failed,
        "cautions": list(cautions),
        "runs": list(documents),
    }


def _describe_length(floor: NoiseFloor) -> str:
    values = dict(part.split("=") for part in floor.key.length)
    limits = [f"{int(values['steps']):,} steps"] if "steps" in values else []
    limits += [f"{float(values['seconds']):g} s"] if "seconds" in values else []
    return f"of {' or '.join(limits)}" if limits else f"of {values.get('epochs', '')} epochs"


def _describe_place(floor: NoiseFloor) -> str:
    key = floor.key
    by = "" if key.backend == "tensorflow" else f" by {title_of(key.backend)}"
    return f"{key.strategy} on {', '.join(key.devices)}{by}"


def _row(floor: NoiseFloor) -> tuple[str, ...]:
    created = datetime.datetime.fromtimestamp(floor.created, datetime.UTC)
    key = floor.key
    return (
        f"{created:%Y-%m-%d %H:%M}",
        key.recipe,
        _describe_place(floor),
        str(key.global_batch_size),
        str(floor.num_rounds),
        format_share(floor.unpaired_limit()),
        format_share(floor.paired_limit(floor.num_rounds)),
        key.hostname,
        floor.group,
    )
