"""GPU timings against independent clocks and the maker's published figures."""

from typing import NamedTuple

import pytest

from gpu_machine import DEVICE, NAME, REHEARSAL, of_a_gpu_alone, probe, show
from tfbench.machine import gpus

pytestmark = pytest.mark.gpu

TOLERANCE = 0.01
TERA = 1e12
# Of what is published, for backends that were not yet seen on these cards.
LEAST = 0.1
MOST = 1.05


class Published(NamedTuple):
    """What a maker says of dense matrix products: TFLOP/s by precision, at a clock in MHz; `least`.

    Share to reach.

    Cards of 70 W lower their clock under a long product by more than half.
    """

    name: str  # begins the driver's name of it, longer ones first
    clock_mhz: int
    float32: float
    tf32: float | None
    half: float | None  # float16 and bfloat16, sums in float32
    bfloat16: bool = True
    least: float = 0.5


# Without sparsity, of the maker's datasheets (H200, H100, L40S, L4, T4) and architecture
# whitepapers (V100, A100, Ada for the RTX 4090). The H100's matrix units are rated at 1,830 MHz,
# all else at the boost clock, beyond which a card may go: the bound goes with the highest that its
# driver allows.
PUBLISHED = (
    Published("NVIDIA H100 PCIe", 1755, 51.2, 378, 756),
    Published("NVIDIA H100", 1830, 66.9, 494.7, 989.4),
    Published("NVIDIA H200", 1830, 66.9, 494.7, 989.4),
    Published("NVIDIA A100", 1410, 19.5, 156, 312),
    Published("NVIDIA L40S", 2520, 91.6, 183, 362),
    Published("NVIDIA L4", 2040, 30.3, 60, 121, least=0.25),
    Published("Tesla T4", 1590, 8.1, None, 65, bfloat16=False, least=0.25),
    Published("Tesla V100-SXM2", 1530, 15.7, None, 125, bfloat16=False),
    Published("NVIDIA GeForce RTX 4090", 2520, 82.6, 82.6, 165.2),
)


@of_a_gpu_alone
def test_spans_agree_with_the_gpu_s_own_events() -> None:
    """Records CUDA's events while the device is idle, at both ends of a span.

    The GPU's clock in place of ours.

    A span that ended before its work was done would be shorter than the time between events.
    """
    found = probe("clock", device=DEVICE, size=4096, num_steps=120)
    spans = found["span_seconds"]
    events = found["event_seconds"]
    show("steps of ten products of 4096 rows", *found.items())
    assert len(spans) == len(events) >= 5
    assert sum(spans) == pytest.approx(sum(events), rel=TOLERANCE)


def test_the_measured_peak_is_no_more_than_published_and_no_less_than_half() -> None:
    gpu = None if REHEARSAL else gpus.read_gpus()[0]
    published = next((one for one in PUBLISHED if gpu and gpu.name.startswith(one.name)), None)
    precisions = ["float32"]
    if not REHEARSAL:
        precisions += ["tf32", "mixed_float16", "mixed_bfloat16"]
    found = probe("peaks", device=DEVICE, precisions=precisions)
    show(f"peak of {gpu or 'the processor'}; published: {published}", *found.items())
    assert all(speed > 0 for speed in found["peak"].values())
    if gpu is None or published is None:
        return
    above = max(1.0, (gpu.clock_mhz or 0) / published.clock_mhz)
    least, above = (published.least, above) if NAME == "tensorflow" else (LEAST, MOST * above)
    limits = {
        "float32": published.float32,
        "tf32": published.tf32 or published.float32,
        "mixed_float16": published.half,
        "mixed_bfloat16": published.half if published.bfloat16 else None,
    }
    for name, limit in limits.items():
        if limit:
            share = found["peak"][name] / TERA / limit
            show(f"{name}: {share:.1%} of what is published")
            assert least <= share <= above
