"""Noise floors for tests."""

import functools
import math
from typing import Any

from builders import build_result
from tfbench.analysis.comparison.noise import NoiseFloor, NoiseKey, noise_key


@functools.cache
def build_key() -> NoiseKey:
    """Returns the key of the runs that the builders make."""
    key = noise_key(build_result())
    assert key is not None
    return key


def build_floor(**fields: Any) -> NoiseFloor:
    """Builds a floor of three rounds, whose ratios are 2, 1/2 and 2."""
    return NoiseFloor(
        **{
            "group": "0123456789ab",
            "created": 1_700_000_000.0,
            "tfbench": "0.1.0",
            "key": build_key(),
            "first": (100.0, 200.0, 100.0),
            "second": (200.0, 100.0, 200.0),
        }
        | fields
    )


def no_floor(run: object) -> None:
    """Knows no noise floor."""


def floor_of_spread(spread: float, num_rounds: int = 6) -> NoiseFloor:
    """Builds a floor of runs whose logarithms are all so far, in either direction, from their mean."""
    up, down = 100.0 * math.exp(spread), 100.0 * math.exp(-spread)
    return build_floor(first=(up,) * num_rounds, second=(down,) * num_rounds)
