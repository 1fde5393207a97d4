"""Measurements that the store keeps beside its runs, one file each: noise floors, links."""

import json
from pathlib import Path
from typing import TypeVar

from tfbench.errors import RecipeError, TrackingError
from tfbench.records.plain_files import require_plain
from tfbench.records.whole_files import write_whole
from tfbench.schema import build, read_json, to_plain
from tfbench.store.store import Store

T = TypeVar("T")


def save_kept(store: Store, folder: str, name: str, measured: object) -> Path:
    """Writes a measurement into a folder of the store, whole or not at all; returns its file.

    Raises:
        TrackingError: The store cannot be written to.
    """
    path = require_plain(store.folder(folder), f"{name}.json")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(to_plain(measured), indent=2))
    except OSError as error:
        raise TrackingError(f"{path}: cannot be written: {error.strerror}.") from error
    return path


def read_kept(store: Store, folder: str, kind: type[T]) -> dict[Path, T | None]:
    """Returns what the files of a folder of the store hold, by path; None: a file is damaged, or is a link."""
    return {path: _read(path, kind) for path in sorted(store.folder(folder).glob("*.json"))}


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return build(kind, read_json(path.read_bytes()), path.name)
    except (OSError, ValueError, RecipeError):
        return None
