"""Published speed-ups by number of devices, from the times that a recipe's references have of one and of several."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tfbench.analysis.comparison.references import published_epoch_seconds


class PublishedSpeedup(NamedTuple):
    """How many times as fast several devices were as one, by the same source."""

    num_devices: int
    speedup: float
    reference: dict[str, Any]  # of several devices, as it stands in the recipe


def find_published_speedups(references: Sequence[dict[str, Any]]) -> tuple[PublishedSpeedup, ...]:
    """Returns what was published of several GPUs beside one, by number of GPUs; what has no time of one has none."""
    alone: dict[tuple[str, str], float] = {}
    for reference in references:
        if _count_gpus(reference) == 1:
            for what, seconds in _list_times(reference["figures"]):
                alone.setdefault((reference["source"], what), seconds)
    found = [
        PublishedSpeedup(number, one / seconds, reference)
        for reference in references
        if (number := _count_gpus(reference)) > 1
        for what, seconds in _list_times(reference["figures"])
        if (one := alone.get((reference["source"], what)))
    ]
    return tuple(sorted(found, key=lambda one: one.num_devices))


def _count_gpus(reference: Mapping[str, Any]) -> int:
    match = re.fullmatch(r"(\d{1,4}) gpus?", reference["devices"])
    return int(match[1]) if match else 0


def _list_times(figures: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Yields the one time that tells most of speed, with what it is of: an epoch, a whole training or a sample."""
    if (epoch := published_epoch_seconds(figures)) is not None:
        yield "epoch", epoch
    elif elapsed := figures.get("elapsed_seconds"):
        yield "training", elapsed
    elif speed := figures.get("samples_per_second"):
        yield "sample", 1 / speed
