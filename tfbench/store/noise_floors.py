"""Noise floors in the store, one file a calibration."""

from pathlib import Path

from tfbench.analysis.comparison.noise import NoiseFloor, NoiseKey, noise_key
from tfbench.records.run import RunResult
from tfbench.store.kept import read_kept, save_kept
from tfbench.store.store import Store

_FOLDER = "noise"


def save_noise_floor(store: Store, floor: NoiseFloor) -> Path:
    """Writes a noise floor into the store, whole or not at all; returns its file.

    Raises:
        TrackingError: The store cannot be written to.
    """
    return save_kept(store, _FOLDER, floor.group, floor)


def list_noise_floors(store: Store) -> list[NoiseFloor]:
    """Returns the noise floors of a store, newest first; damaged files are left out."""
    found = [floor for floor in read_kept(store, _FOLDER, NoiseFloor).values() if floor]
    return sorted(found, key=lambda floor: floor.created, reverse=True)


def list_damaged_floors(store: Store) -> list[Path]:
    """Returns the files of a store that should be noise floors, and cannot be read as such."""
    return [path for path, floor in read_kept(store, _FOLDER, NoiseFloor).items() if floor is None]


def find_noise_floor(store: Store, result: RunResult) -> NoiseFloor | None:
    """Returns the newest noise floor of runs like one, if there is one."""
    key = noise_key(result)
    return None if key is None else newest_noise_floors(store).get(key)


def newest_noise_floors(store: Store) -> dict[NoiseKey, NoiseFloor]:
    """Returns the newest noise floor of each key."""
    return {floor.key: floor for floor in reversed(list_noise_floors(store))}
