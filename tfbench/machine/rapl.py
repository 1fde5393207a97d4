"""Energy of processor packages and of the memory beside them, as the kernel counts it (RAPL, of Intel and of AMD).

The kernel lists zones within zones: a package, and in it its cores, its graphics and on servers its memory. A package's
counter holds its cores and its graphics but not its memory, so that packages and memory are read, and nothing else:
what is within a package would be counted twice, and so would "psys", the whole platform. Zones called intel-rapl-mmio
are the same packages by another way.
"""

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
    for folder in sorted((root / _FOLDER).glob("intel-rapl:*")):
        if (source := _describe(folder)) is None:
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
        zones.append(RaplZone(source, counter))
    if not zones:
        return [], (
            f"processors: {root / _FOLDER} has no counters of energy (RAPL): a virtual machine, a container that hides "
            "them, or a processor or kernel without"
        )
    return zones, ""


def _describe(folder: Path) -> EnergySource | None:
    """Returns what a zone counts; None for one that another holds."""
    name = _read(folder, "name")
    part: Part = "dram" if name == "dram" else "package"
    if part == "dram":
        parent = folder.name.rpartition(":")[0]
        name = f"{_read(folder.with_name(parent), 'name') or parent} dram"
    elif not name.startswith("package"):  # "package-0", or "package-0-die-1"
        return None
    found = _read(folder, "max_energy_range_uj")
    range_joules = int(found) * _MICRO if found.isdecimal() else None
    return EnergySource(name=name, part=part, resolution_seconds=_RESOLUTION_SECONDS, range_joules=range_joules)


def _read(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
