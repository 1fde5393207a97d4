"""In which series, round and arm a run was made, as its tags say."""

from collections.abc import Mapping

SWEEP_TAG, GROUP_TAG, ROUND_TAG, ARM_TAG = "tfbench.sweep", "tfbench.group", "tfbench.round", "tfbench.arm"


def round_of(tags: Mapping[str, str]) -> tuple[str, str] | None:
    """Returns in which sweep, or other series, and in which of its rounds a run took its turn; None: in none."""
    series, number = tags.get(SWEEP_TAG) or tags.get(GROUP_TAG), tags.get(ROUND_TAG)
    return None if series is None or number is None else (series, number)
