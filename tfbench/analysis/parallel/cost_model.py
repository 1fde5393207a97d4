"""What spreading a network over more devices than there are would give: a prediction from counts, a link and a step.

Taken for true are: each device keeps the batch that was measured on one, so that the global batch grows with their
number; its work takes time in proportion to its operations; exchanges lie on a ring of links as the measured one, one
after the other, the gradients together in one; and nothing overlaps. Real steps overlap exchange and work, which makes
them faster, and wait for the slowest device, which makes them slower.
"""

import dataclasses
from collections.abc import Sequence

from tfbench.analysis.parallel.link import Link
from tfbench.analysis.parallel.modes import ModeName, list_modes
from tfbench.analysis.parallel.traffic import Traffic, count_traffic
from tfbench.recipe.mesh import Mesh
from tfbench.recipe.sections import DistributionConfig
from tfbench.records.model_table import LayerRow

NUMS_OF_DEVICES = (8, 64, 512)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """Of a mode on so many devices; speed-ups are of samples per second, from the bounds of the link alone."""

    mode: ModeName
    num_devices: int
    work_seconds: float
    exchange_seconds: float
    speedup: float
    speedup_low: float
    speedup_high: float


def predict_modes(
    rows: Sequence[LayerRow],
    link: Link,
    *,
    step_seconds: float,
    batch_size: int,
    nums_of_devices: Sequence[int] = NUMS_OF_DEVICES,
) -> list[Prediction]:
    """Predicts each mode whose exchanges and operations are known.

    Args:
        rows: Of the network.
        link: As fitted.
        step_seconds: Of one device, measured.
        batch_size: Samples of that step.
        nums_of_devices: For which to predict.
    """
    one = count_traffic(rows, {}, Mesh(1), batch_size).flops_per_device
    predictions = []
    for num in nums_of_devices:
        for mode in list_modes(rows, DistributionConfig(), num, num * batch_size):
            traffic = mode.traffic
            if mode.name == "one device" or traffic is None or traffic.unknown or not one:
                continue
            work = step_seconds * (traffic.flops_per_device or 0) / one
            speedups = {
                end: num * step_seconds / (work + exchange_seconds(traffic, link, num, end=end))
                for end in ("center", "low", "high")
            }
            predictions.append(
                Prediction(
                    mode=mode.name,
                    num_devices=num,
                    work_seconds=work,
                    exchange_seconds=exchange_seconds(traffic, link, num),
                    speedup=speedups["center"],
                    speedup_low=speedups["high"],  # of the higher costs
                    speedup_high=speedups["low"],
                )
            )
    return predictions


def exchange_seconds(traffic: Traffic, link: Link, num_devices: int, *, end: str = "center") -> float:
    """Returns what the exchanges of a step take, all devices on one ring, where all of them are known."""
    gradients = sum(one.num_bytes for one in traffic.exchanges if one.kind == "gradients")
    seconds = link.add_up_seconds(gradients, num_devices, end=end) if gradients else 0.0
    for one in traffic.exchanges:
        if one.kind == "partial_sums":
            seconds += link.add_up_seconds(one.num_bytes, num_devices, end=end)
        elif one.kind == "activations":
            seconds += link.gather_seconds(one.num_bytes, num_devices, end=end)
    return seconds
