"""How training scales with the number of devices.

Measured, beside what would be ideal where they add hardware.

Devices share the work in one of several modes: each has a replica of the network and a part of the
batch ("data"), a part of its weights ("model"), or both ("hybrid"); under "workers" a replica, and
a process of its own.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tfbench.comparisons.comparison import Comparison
from tfbench.comparisons.entries import Entry
from tfbench.comparisons.speeds import (
    round_cells,
    round_columns,
    speed_text,
    speedup_text,
)
from tfbench.recipe.sections import CUTTING_STRATEGIES
from tfbench.show.document import to_document
from tfbench.show.formats import format_percent
from tfbench.show.table import Column, Section, Table
from tfbench.sweeps.plan import MODE_STRATEGIES, WORKERS_KEY, Mode

_MODES = {strategy: mode for mode, strategy in MODE_STRATEGIES.items()}
_BYTES_PER_PARAMETER = 4  # replicas exchange gradients of 32 bits
# in which setups may differ on purpose
_COMPARED = {"global_batch_size", "backend", WORKERS_KEY.partition(".")[2]}


class FigureWithInterval(NamedTuple):
    """A figure with its 95 % interval, which one run of each setup does not give."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ScalingPoint:
    """One number of devices in one mode beside one device.

    Times in seconds, at the speeds that the table has.

    Efficiency exists where each device is hardware of its own; else it would say nothing of it.
    """

    entry: Entry  # of the comparison
    num_devices: int  # of all workers
    mode: Mode | None  # how they share the work; None: this is the one device
    num_replicas: int  # parts of the batch; in mode "model" one, which all devices compute
    global_batch_size: int
    adds_hardware: bool  # whether devices are hardware of their own, not cores of one processor

    @property
    def exchanged_bytes(self) -> float | None:
        """What devices exchange in a step; None: not known.

        By the compiled collectives, or where those were not read back, by the gradients.
        """
        run = self.entry.runs[0]
        compiled = run.metrics.get("collective_bytes_per_step")
        if compiled is not None:
            return compiled
        if self.num_devices == 1:
            return 0.0
        num_parameters = run.metrics.get("num_trainable_parameters")
        if num_parameters is None or run.strategy in CUTTING_STRATEGIES:
            return None
        return _BYTES_PER_PARAMETER * num_parameters

    @property
    def state_bytes(self) -> float | None:
        """Weights and the optimizer's variables, on a device; None: not known."""
        return self.entry.runs[0].metrics.get("state_bytes_per_device")

    @property
    def per_replica_batch_size(self) -> int:
        """Samples of a step, for each replica.

        In mode "hybrid", a device computes all of them in the layers whose weights are cut.
        """
        return self.global_batch_size // self.num_replicas

    @property
    def speedup(self) -> FigureWithInterval:
        """Samples per second, over those of one device."""
        speedup = self.entry.speedup
        if speedup is None:
            return FigureWithInterval(1.0, None, None)
        return FigureWithInterval(speedup.ratio, speedup.low, speedup.high)

    @property
    def efficiency(self) -> FigureWithInterval | None:
        """Share of the ideal speed-up, which is the number of devices, that was reached."""
        if not self.adds_hardware:
            return None
        value, low, high = self.speedup
        if low is not None and high is not None:
            low /= self.num_devices
            high /= self.num_devices
        return FigureWithInterval(value / self.num_devices, low, high)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scaling:
    """One recipe by numbers of devices and modes.

    "strong": all train the same global batch, so that a device has the less to do the more there
    are. "weak": the global batch grows with the number of devices, as many samples for each.
    """

    kind: Literal["strong", "weak"]
    points: tuple[ScalingPoint, ...]  # by number of devices, from one on, and by mode
    shares_cores: bool  # devices are logical ones of one processor, so that no hardware is added

    @property
    def batch_size(self) -> int:
        """Samples of a step: of every setup, or where scaling is weak, of every device."""
        return self.points[0].global_batch_size

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Those that were measured."""
        measured = {point.mode for point in self.points}
        return tuple(mode for mode in MODE_STRATEGIES if mode in measured)

    @property
    def has_replicas(self) -> bool:
        """Whether each device has a replica of the network, under every setup."""
        return self.modes == ("data",)

    def describe_efficiency(self, setup: str) -> str:
        """Returns " (75 % efficiency)" of a setup.

        "" of one without a speed, or where devices add no hardware.
        """
        for point in self.points:
            if point.entry.setup == setup and point.efficiency:
                return f" ({100 * point.efficiency.value:.0f} % efficiency)"
        return ""

    def line(self, mode: Mode) -> list[ScalingPoint]:
        """Returns the points of a mode by number of devices, from the one device on."""
        return [point for point in self.points if point.mode in (None, mode)]


def find_scaling(comparison: Comparison) -> Scaling | None:
    """Returns how training scales with the number of devices, or with the mode.

    Setups without a speed are left out.

    Returns:
        None: there are several configurations; the baseline is not one device, or only one setup
            has a speed; or setups have different kinds of devices, hardware or backends, values of
            their own, a strategy that is no mode, as many devices in the same mode as another, or
            batches that are neither as large in every setup nor for every device; or they differ
            in what must be equal.
    """
    if len(comparison.rows) != 1 or not _COMPARED.issuperset(comparison.compared):
        return None
    entries = comparison.measured_entries()
    if not _differ_in_devices_alone(entries):
        return None
    points = _list_points(entries)
    is_weak = "global_batch_size" in comparison.compared
    sizes = set()
    for point in points:
        num_sharing = point.num_devices if is_weak else 1
        sizes.add(point.global_batch_size // num_sharing)
    if len(sizes) > 1 or 0 in sizes or not _start_at_one_device(points, comparison.baseline):
        return None
    return Scaling(
        kind="weak" if is_weak else "strong",
        points=tuple(points),
        shares_cores=not points[0].adds_hardware,
    )


def _differ_in_devices_alone(entries: Sequence[Entry]) -> bool:
    kinds = set()
    hardware = set()
    backends = set()
    for entry in entries:
        for run in entry.runs:
            kinds |= {device.partition(":")[0] for device in run.devices}
            hardware.update(run.hardware)
            backends.add(run.backend)
    if len(kinds) != 1 or len(hardware) > 1 or len(backends) > 1:
        return False
    return not any(entry.unequal for entry in entries)


def _list_points(entries: Sequence[Entry]) -> list[ScalingPoint]:
    """Returns a point for each setup, by number of devices and by mode."""
    points = []
    shares_cores = False
    for entry in entries:
        shares_cores |= any(run.shares_cores for run in entry.runs)
    for entry in entries:
        run = entry.runs[0]
        point = ScalingPoint(
            entry=entry,
            num_devices=run.num_devices,
            mode=None if run.num_devices == 1 else _MODES.get(run.strategy),
            num_replicas=run.num_replicas,
            global_batch_size=entry.global_batch_size or 0,
            adds_hardware=not shares_cores,
        )
        points.append(point)
    modes = [None, *MODE_STRATEGIES]
    return sorted(points, key=lambda point: (point.num_devices, modes.index(point.mode)))


def _start_at_one_device(points: Sequence[ScalingPoint], baseline: str) -> bool:
    """Says whether the baseline alone is one device, and all others are several in some mode."""
    single, *several = points
    if single.num_devices != 1 or single.entry.setup != baseline or not several:
        return False
    # Another one of one device has no mode.
    places = {(point.num_devices, point.mode) for point in several if point.mode}
    return len(places) == len(several)


_LIVE_RANKS = {"efficiency": 2, "speed": 1}
_OF_ENTRY = ("step_seconds", "transfer_share", "input_share")


def scaling_title(kind: Literal["strong", "weak"], batch_size: int) -> str:
    """Returns which kind of scaling it is, and the batch of all devices.

    In weak scaling it is the batch of each device.
    """
    where = "on each device" if kind == "weak" else "in total"
    return f"{kind.title()} scaling: {batch_size:,} samples per step {where}"


def scaling_section(
    scaling: Scaling, comparison: Comparison, notes: Sequence[str] = (), *, is_live: bool = False
) -> Section:
    """Returns a row for each number of devices and mode; what is known of none has no column.

    Args:
        scaling: What is shown.
        comparison: That it is of.
        notes: Stand below the table.
        is_live: As of `comparison_table`; details come in the end.
    """
    columns = [
        Column("num_devices", "replicas" if scaling.has_replicas else "devices"),
        Column("mode", "mode", align="left"),
        Column("per_replica_batch_size", "batch/replica", "{:,}".format, rank=4),
        Column("speed", "samples/s"),
        Column("speedup", "speed-up"),
        Column("efficiency", "efficiency", lambda efficiency: format_percent(efficiency.value)),
        Column("step_seconds", "step", lambda seconds: f"{1e3 * seconds:.3g} ms", rank=2),
        Column("exchanged_bytes", "exchanged", _mebibytes, rank=1, meaning="data sent per step"),
        Column(
            "state_bytes",
            "state",
            _mebibytes,
            rank=6,
            meaning="weights and optimizer variables per device",
        ),
        Column(
            "transfer_share", "communication", format_percent, rank=5, meaning="share of a step"
        ),
        Column("input_share", "input", format_percent, rank=7, meaning="share of a step"),
    ]
    if is_live:
        kept = [column for column in columns if not column.rank]
        columns = []
        for column in kept:
            columns.append(dataclasses.replace(column, rank=_LIVE_RANKS.get(column.key, 0)))
    columns += round_columns(comparison, is_live=is_live)
    (configuration,) = comparison.rows
    rows = []
    for point in scaling.points:
        row = {column.key: getattr(point, column.key, None) for column in columns}
        row |= _figures_of_entry(point)
        of_setup = []
        for pair, speedup in configuration.speedups.items():
            if point.entry.setup in pair:
                of_setup.append(speedup)
        row |= round_cells([point.entry], of_setup)
        row |= {
            "mode": None if scaling.has_replicas else point.mode,
            "speed": speed_text(point.entry),
            "speedup": speedup_text(point.entry) or None,
            "exchanged_bytes": point.exchanged_bytes or None,
        }
        rows.append(row)
    shown = [column for column in columns if any(row[column.key] is not None for row in rows)]
    title = scaling_title(scaling.kind, scaling.batch_size)
    table = Table("speed by number of devices", tuple(shown), rows, (f"{title}.", *notes))
    return Section("Scaling", tables=(table,))


def _figures_of_entry(point: ScalingPoint) -> dict[str, float | None]:
    return {name: getattr(point.entry, name) for name in _OF_ENTRY}


def scaling_document(scaling: Scaling) -> dict[str, Any]:
    """Returns it as plain values; times in seconds; None: not known, or says nothing."""
    points = []
    for point in scaling.points:
        values = to_document(point, without=("entry", "adds_hardware"))
        values["setup"] = point.entry.setup
        values |= _figures_of_entry(point)
        values["samples_per_second"] = point.entry.speed
        points.append(values)
    return {**to_document(scaling, without=("has_replicas",)), "points": points}


def _mebibytes(num_bytes: float) -> str:
    return f"{num_bytes / 2**20:.3g} MiB"
