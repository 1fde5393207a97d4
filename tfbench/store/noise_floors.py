"""Noise floors in the store, one file a calibration."""

import json
from pathlib import Path

from tfbench.analysis.comparison.noise import NoiseFloor, NoiseKey, noise_key
from tfbench.errors import RecipeError, TrackingError
from tfbench.records.plain_files import require_plain
from tfbench.records.run import RunResult
from tfbench.records.whole_files import write_whole
from tfbench.schema import build, read_json, to_plain
from tfbench.store.store import Store


def save_noise_floor(store: Store, floor: NoiseFloor) -> Path:
    """Writes a noise floor into the store, whole or not at all; returns its file.

    Raises:
        TrackingError: The store cannot be written to.
    """
    path = require_plain(store.root, _folder(store).name, f"{floor.group}.json")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(to_plain(floor), indent=2))
    except OSError as error:
        raise TrackingError(f"{path}: cannot be written: {error.strerror}.") from error
    return path


def list_noise_floors(store: Store) -> list[NoiseFloor]:
    """Returns the noise floors of a store, newest first; damaged files are left out."""
    found = [floor for path in _folder(store).glob("*.json") if (floor := _read(path))]
    return sorted(found, key=lambda floor: floor.created, reverse=True)


def list_damaged_floors(store: Store) -> list[Path]:
    """Returns the files of a store that should be noise floors, and cannot be read as such."""
    return [path for path in sorted(_folder(store).glob("*.json")) if _read(path) is None]


def find_noise_floor(store: Store, result: RunResult) -> NoiseFloor | None:
    """Returns the newest noise floor of runs like one, if there is one."""
    key = noise_key(result)
    return None if key is None else newest_noise_floors(store).get(key)


def newest_noise_floors(store: Store) -> dict[NoiseKey, NoiseFloor]:
    """Returns the newest noise floor of each key."""
    return {floor.key: floor for floor in reversed(list_noise_floors(store))}


def _folder(store: Store) -> Path:
    return store.root / "noise"


def _read(path: Path) -> NoiseFloor | None:
    try:
        require_plain(path.parent.parent, path.parent.name, path.name)
        return build(NoiseFloor, read_json(path.read_bytes()), path.name)
    except (OSError, ValueError, RecipeError, TrackingError):
        return None
