"""What a run's speed is held against, and where the time of its process went, as lines of plain text."""

from collections.abc import Iterator, Mapping

from tfbench.metrics import LEDGER_ENTRIES
from tfbench.report.formats import format_exchange, format_flops, format_pairs, format_speed, format_time
from tfbench.wording import format_share

_SHOWN_SHARE = 0.005  # of the wall time, from which an entry of the ledger is worth its place in the line


def limit_lines(metrics: Mapping[str, float | None], width: int) -> list[str]:
    """Returns the work done beside the devices' peak, the pipeline's own rate, what devices exchange, and the ledger.

    Args:
        metrics: A run's summary; what was not measured is left out.
        width: Characters of a line.
    """
    pairs = []
    if (reached := metrics.get("flops_per_second")) is not None:
        text = format_flops(reached)
        if (share := metrics.get("model_flops_utilization")) is not None:
            text += (
                f", {format_share(share)} of a matrix product's {format_flops(metrics['peak_flops_per_second'] or 0.0)}"
            )
        pairs.append(("work", text))
    if (rate := metrics.get("input_samples_per_second")) is not None:
        text = f"{format_speed(rate)} samples/s alone"
        if (headroom := metrics.get("input_headroom")) is not None:
            text += f", {headroom:.3g} times what the training took"
        pairs.append(("input", text))
    if parts := list(_describe_exchange(metrics)):
        pairs.append(("exchange", "; ".join(parts)))
    if (wall := metrics.get("ledger/wall_seconds")) is not None:
        pairs.append(("process", f"{_round(wall)}: {_describe_ledger(metrics, wall)}"))
    return format_pairs(pairs, width)


def ledger_shares(metrics: Mapping[str, float | None]) -> list[tuple[str, float]]:
    """Returns the entries of the ledger in seconds, in the order in which they come, "unaccounted" last."""
    return [(name, metrics.get(f"ledger/{name}_seconds") or 0.0) for name in (*LEDGER_ENTRIES, "unaccounted")]


def _describe_exchange(metrics: Mapping[str, float | None]) -> Iterator[str]:
    """Yields what devices exchange in the compiled step, and which share of a step that takes."""
    if (compiled := metrics.get("collective_bytes_per_step")) is not None:
        yield f"{format_exchange(compiled)} per compiled step"
    if (share := metrics.get("transfer_share")) is not None:
        yield f"{format_share(share)} of a traced step in collectives"
    if waiting := metrics.get("waiting_share"):
        yield f"{format_share(waiting)} waiting for the slowest worker"


def _round(seconds: float) -> str:
    """Returns a time in three significant digits."""
    return format_time(float(f"{seconds:.3g}"))


def _describe_ledger(metrics: Mapping[str, float | None], wall: float) -> str:
    shown = [
        f"{name.replace('_', ' ')} {_round(seconds)}"
        for name, seconds in ledger_shares(metrics)
        if name != "unaccounted" and seconds >= _SHOWN_SHARE * wall
    ]
    unaccounted = metrics.get("ledger/unaccounted_seconds") or 0.0
    return ", ".join([*shown, f"unaccounted {_round(abs(unaccounted))} ({format_share(abs(unaccounted) / wall)})"])
