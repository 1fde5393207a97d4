"""Measured links in the store, one file a measurement, beside the noise floors."""

import json
from pathlib import Path

from tfbench.errors import RecipeError, TrackingError
from tfbench.records.link import LinkMeasurement
from tfbench.records.plain_files import require_plain
from tfbench.records.whole_files import write_whole
from tfbench.schema import build, read_json, to_plain
from tfbench.store.store import Store

_FOLDER = "links"


def save_link(store: Store, measured: LinkMeasurement) -> Path:
    """Writes a measurement into the store, whole or not at all; returns its file.

    Raises:
        TrackingError: The store cannot be written to.
    """
    path = require_plain(store.root, _FOLDER, f"{measured.created:.6f}.json")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(to_plain(measured), indent=2))
    except OSError as error:
        raise TrackingError(f"{path}: cannot be written: {error.strerror}.") from error
    return path


def list_links(store: Store) -> list[LinkMeasurement]:
    """Returns the links of a store, newest first; damaged files are left out."""
    found = [link for path in (store.root / _FOLDER).glob("*.json") if (link := _read(path))]
    return sorted(found, key=lambda link: link.created, reverse=True)


def _read(path: Path) -> LinkMeasurement | None:
    try:
        require_plain(path.parent.parent, path.parent.name, path.name)
        return build(LinkMeasurement, read_json(path.read_bytes()), path.name)
    except (OSError, ValueError, RecipeError, TrackingError):
        return None
