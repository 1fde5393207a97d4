"""Measured links, and what is predicted from them, as lines of plain text and as JSON."""

import dataclasses
import datetime
import statistics
from collections.abc import Sequence
from typing import Any

from tfbench.analysis.parallel.cost_model import Prediction
from tfbench.analysis.parallel.link import Link, Range, fit_link, moved_bytes
from tfbench.records.link import LinkMeasurement
from tfbench.report.formats import format_exchange, format_time, wrap
from tfbench.report.text_table import table_lines
from tfbench.schema import to_plain

LOGICAL = "These are logical devices of one processor: the figures are no statement about hardware."
LOGICAL_LINKS = "Links of cpu lie between logical devices of one processor, and are no statement about hardware."
_LARGE_ERROR = 0.3  # of a fitted time; beyond it, two costs do not describe the link
_PREDICTED = (
    "Each device keeps its batch, its work takes as long an operation as on one, exchanges take turns on one ring of "
    "such links, nothing overlaps; ranges are of the link alone."
)


def link_lines(measured: LinkMeasurement, width: int) -> list[str]:
    """Returns what was measured, by size, and what it comes to."""
    link = fit_link(measured)
    num_devices = len(measured.devices)
    rows = []
    for place, size in enumerate(measured.sizes):
        seconds = statistics.median(row[place] for row in measured.seconds)
        fitted = link.add_up_seconds(size, num_devices)
        moved = format_exchange(moved_bytes(size, num_devices) / seconds) + "/s"
        rows.append((format_exchange(size), format_time(seconds, 3), moved, format_time(fitted, 3)))
    lines = wrap(f"Adding up over {', '.join(measured.devices)} ({measured.hardware}), JAX", width)
    lines += table_lines(("array", "time", "through a device", "fitted"), rows)
    lines += wrap(f"{describe_link(link)}, over {len(measured.seconds)} processes.", width)
    if link.largest_error > _LARGE_ERROR:
        lines += wrap(
            f"Latency and bandwidth do not describe it well: fitted times are off by up to "
            f"{100 * link.largest_error:.0f} %. Sizes in between are not to be read off them.",
            width,
        )
    return [*lines, *(wrap(LOGICAL, width) if measured.is_of_logical_devices else [])]


def describe_link(link: Link) -> str:
    """Returns latency and bandwidth, each with its interval."""
    latency = f"{format_time(link.latency.center, 3)} {_ends(link.latency, lambda value: format_time(value, 3))}"
    slow, fast = _rate(link.seconds_per_byte.high), _rate(link.seconds_per_byte.low)
    bandwidth = f"{_rate(link.seconds_per_byte.center)} [{slow}, {fast}]"
    return (
        f"latency {latency}, bandwidth {bandwidth}, as on a ring, within {100 * link.largest_error:.0f} % of each size"
    )


def links_table(links: Sequence[LinkMeasurement]) -> list[str]:
    """Returns stored links as a table, one row each."""
    rows = []
    for measured in links:
        link = fit_link(measured)
        created = datetime.datetime.fromtimestamp(measured.created, datetime.UTC)
        rows.append(
            (
                created.strftime("%Y-%m-%d %H:%M"),
                f"{len(measured.devices)} x {measured.devices[0].partition(':')[0]}",
                format_time(link.latency.center, 3),
                _rate(link.seconds_per_byte.center),
                measured.hostname,
            )
        )
    head = ("created, UTC", "link", "latency", "bandwidth", "host")
    return table_lines(head, rows, left=("created, UTC", "link", "host"))


def link_to_json(measured: LinkMeasurement) -> dict[str, Any]:
    """Returns what was measured, and what it comes to."""
    plain: dict[str, Any] = to_plain(measured)
    return plain | {
        "fit": dataclasses.asdict(fit_link(measured)),
        "is_statement_about_hardware": not measured.is_of_logical_devices,
    }


def prediction_lines(predictions: Sequence[Prediction], source: str, width: int) -> list[str]:
    """Returns predicted speed-ups, a row a number of devices; nothing without any.

    Args:
        predictions: Of one network and link.
        source: The measured step and link that they rest on.
        width: Characters of a line.
    """
    modes = list(dict.fromkeys(one.mode for one in predictions))
    rows = []
    for num in dict.fromkeys(one.num_devices for one in predictions):
        by_mode = {one.mode: one for one in predictions if one.num_devices == num}
        rows.append((str(num), *(_speedup(by_mode.get(mode)) for mode in modes)))
    lines = [*wrap(f"Predicted speed-up, not measured: from {source}", width)]
    lines += table_lines(("devices", *modes), rows)
    return [*lines, *wrap(_PREDICTED, width)]


def _speedup(one: Prediction | None) -> str:
    return f"{one.speedup:.3g} [{one.speedup_low:.3g}, {one.speedup_high:.3g}]" if one else "-"


def _ends(one: Range, form: Any) -> str:
    return f"[{form(one.low)}, {form(one.high)}]"


def _rate(seconds_per_byte: float) -> str:
    return f"{format_exchange(1 / seconds_per_byte)}/s" if seconds_per_byte else "unlimited"
