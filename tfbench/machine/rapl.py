"""Energy of processor packages and of the memory beside them, as the kernel counts it (RAPL, of Intel and of AMD).

The kernel lists zones within zones: a package, and in it its cores, its graphics and on servers its memory. A package's
counter holds its cores and its graphics but not its memory, so that packages and memory are read, and nothing else:
what is within a package would be counted twice, and so would "psys", the whole platform. Zones called intel-rapl-mmio
are the same packages by another way.
"""

import contextlib
from pathlib import Path

from tfbench.records.energy import EnergySource, Part

ROOT = Path("/")
_FOLDER = "sys/class/powercap"
_RESOLUTION_SECONDS = 0.001  # the counters move about once in a millisecond (Intel SDM 3B, 15.10)
_MICRO = 1e-6


class RaplZone:
    """One counter: of a package, or of its memory."""

    def __init__(self, source: EnergySource, path: Path) -> None:
        self.source = source
        self._path = path

    def read(self) -> float | None:
        """Returns joules; None if it cannot be read any more."""
        try:
            return int(self._path.read_text(encoding="ascii")) * _MICRO
        except (OSError, ValueError):
            return None


def open_zones(root: Path = ROOT) -> tuple[list[RaplZone], str]:
    """Returns all counters, or none and why one cannot be read: a figure of one of two would be told as that of both.

    Args:
        root: Where /sys lies.
    """
    zones = list[RaplZone]()
    for folder in sorted((root / _FOLDER).glob("intel-rapl:*"), key=lambda path: _numbers(path.name)):
        found = _describe(folder)
        if found is None:
            continue
        counter = folder / "energy_uj"
        try:
            counter.read_text(encoding="ascii")
        except PermissionError:
            pattern = root / _FOLDER / "intel-rapl:*" / "energy_uj"
            return [], (
                f"processors: {counter}: permission denied: only root may read it (CVE-2020-8694). `sudo chmod a+r "
                f"{pattern}` allows it to all until the machine starts again"
            )
        except OSError as error:
            return [], f"processors: {counter}: {error.strerror}"
        zones.append(RaplZone(_source(*found, folder), counter))
    if not zones:
        return [], (
            f"processors: {root / _FOLDER} has no counters of energy (RAPL): a virtual machine, a container that hides "
            "them, or a processor or kernel without"
        )
    return zones, ""


def _source(name: str, part: Part, folder: Path) -> EnergySource:
    range_joules = None
    with contextlib.suppress(OSError, ValueError):
        range_joules = int((folder / "max_energy_range_uj").read_text(encoding="ascii")) * _MICRO
    return EnergySource(name=name, part=part, resolution_seconds=_RESOLUTION_SECONDS, range_joules=range_joules)


def _describe(folder: Path) -> tuple[str, Part] | None:
    """Returns what a zone is called, and what of the machine it is; None for one that another holds."""
    name = _read_name(folder)
    if name.startswith("package"):  # "package-0", or "package-0-die-1"
        return name, "package"
    if name == "dram":
        parent = folder.name.rpartition(":")[0]
        return f"{_read_name(folder.with_name(parent)) or parent} dram", "dram"
    return None


def _read_name(folder: Path) -> str:
    try:
        return (folder / "name").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _numbers(name: str) -> list[int]:
    """Returns [10, 2] of "intel-rapl:10:2", by which zones are in the order of their numbers."""
    return [int(part) for part in name.split(":")[1:] if part.isdecimal()]
