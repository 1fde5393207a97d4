"""Measured links for tests."""

import platform
from collections.abc import Sequence
from typing import Any

from tfbench.records.link import LinkMeasurement

SIZES = (4096, 65_536, 1_048_576, 16_777_216)


def ring_seconds(num_bytes: float, num_devices: int, *, hop: float, per_byte: float) -> float:
    """Plays a ring, step by step: each device passes one part on, first to add them all up, then to hand them out."""
    clock = 0.0
    for _ in range(2):
        for _ in range(num_devices - 1):
            clock += hop + num_bytes / num_devices * per_byte
    return clock


def build_link(
    num_devices: int = 4,
    *,
    hop: float = 5e-6,
    per_byte: float = 1e-10,
    factors: Sequence[float] = (1.0,),
    **fields: Any,
) -> LinkMeasurement:
    """Builds what processes measure on such a ring, each slower by a factor of its own."""
    times = [ring_seconds(size, num_devices, hop=hop, per_byte=per_byte) for size in SIZES]
    return LinkMeasurement(
        **{
            "created": 1_700_000_000.0,
            "tfbench": "0.1.0",
            "backend": "jax",
            "hostname": platform.node(),
            "hardware": "NVIDIA H100",
            "devices": tuple(f"gpu:{index}" for index in range(num_devices)),
            "sizes": SIZES,
            "seconds": tuple(tuple(factor * time for time in times) for factor in factors),
        }
        | fields
    )
