"""Measured links in the store, one file a measurement."""

from pathlib import Path

from tfbench.records.link import LinkMeasurement
from tfbench.store.kept import read_kept, save_kept
from tfbench.store.store import Store

_FOLDER = "links"


def save_link(store: Store, measured: LinkMeasurement) -> Path:
    """Writes a measurement into the store, whole or not at all; returns its file.

    Raises:
        TrackingError: The store cannot be written to.
    """
    return save_kept(store, _FOLDER, f"{measured.created:.6f}", measured)


def list_links(store: Store) -> list[LinkMeasurement]:
    """Returns the links of a store, newest first; damaged files are left out."""
    found = [link for link in read_kept(store, _FOLDER, LinkMeasurement).values() if link]
    return sorted(found, key=lambda link: link.created, reverse=True)
