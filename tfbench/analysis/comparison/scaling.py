"""How training scales with the number of devices.

Measured, beside what would be ideal where they add hardware.

Devices share the work in one of several modes: each has a replica of the network and a part of the
batch ("data"), a part of its weights ("model"), or both ("hybrid"); under "workers" a replica, and
a process of its own.
"""

import dataclasses
from typing import Literal, NamedTuple

from tfbench.analysis.comparison.comparison import Comparison, Entry
from tfbench.recipe.sections import CUTTING_STRATEGIES
from tfbench.records.sweep import MODE_STRATEGIES, WORKERS_KEY, Mode

_MODES = {strategy: mode for mode, strategy in MODE_STRATEGIES.items()}
_BYTES_PER_PARAMETER = 4  # replicas exchange gradients of 32 bits
_COMPARED = {
    "global_batch_size",
    "backend",
    WORKERS_KEY.partition(".")[2],
}  # in which setups may differ on purpose


class FigureWithInterval(NamedTuple):
    """A figure with its 95 % interval, which one run of each setup does not give."""

    value: float
    low: float | None
    high: float | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
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
    adds_hardware: (
        bool  # whether devices are hardware of their own, and not the cores of one processor
    )

    @property
    def exchanged_bytes(self) -> float | None:
        """In a step: compiled collectives, or the gradients where those were not read back; None.

        Not known.
        """
        run = self.entry.runs[0]
        if (found := run.metrics.get("collective_bytes_per_step")) is not None:
            return found
        trained = run.metrics.get("num_trainable_parameters")
        if self.num_devices == 1:
            return 0.0
        return (
            None
            if trained is None or run.strategy in CUTTING_STRATEGIES
            else _BYTES_PER_PARAMETER * trained
        )

    @property
    def state_bytes(self) -> float | None:
        """Weights and the optimizer's variables, on a device; None: not known."""
        return self.entry.runs[0].metrics.get("state_bytes_per_device")

    @property
    def per_replica_batch_size(self) -> int:
        """Samples of a step, for each device.

        Of layers whose weights are cut in mode "hybrid", it computes all.
        """
        return self.global_batch_size // self.num_replicas

    @property
    def speedup(self) -> FigureWithInterval:
        """Samples per second, over those of one device."""
        found = self.entry.speedup
        return (
            FigureWithInterval(found.ratio, found.low, found.high)
            if found
            else FigureWithInterval(1.0, None, None)
        )

    @property
    def efficiency(self) -> FigureWithInterval | None:
        """Share of the ideal speed-up, which is the number of devices, that was reached."""
        if not self.adds_hardware:
            return None
        value, low, high = self.speedup
        ends = [None if end is None else end / self.num_devices for end in (low, high)]
        return FigureWithInterval(value / self.num_devices, *ends)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
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
        there = {point.mode for point in self.points}
        return tuple(mode for mode in MODE_STRATEGIES if mode in there)

    @property
    def has_replicas(self) -> bool:
        """Whether each device has a replica of the network, under every setup."""
        return self.modes == ("data",)

    def describe_efficiency(self, setup: str) -> str:
        """Returns " (75 % efficiency)" of a setup.

        "" of one without a speed, or where devices add no hardware.
        """
        found = next(
            (point.efficiency for point in self.points if point.entry.setup == setup), None
        )
        return f" ({100 * found.value:.0f} % efficiency)" if found else ""

    def line(self, mode: Mode) -> list[ScalingPoint]:
        """Returns the points of a mode by number of devices, from the one device on."""
        return [point for point in self.points if point.mode in (None, mode)]


def find_scaling(comparison: Comparison) -> Scaling | None:
    """Returns how training scales with the number of devices, or with the mode.

    The comparison has one configuration.

    Setups without a speed are left out.

    Returns:
        None: there are several configurations; the baseline is not one device, or only one setup
            has a speed; or setups have
        different kinds of devices, hardware or backends, values of their own, a strategy that is no
        mode, as many devices in the same mode as another, or batches that are neither as large in
        every setup nor for every device; or they differ in what must be equal.
    """
    if len(comparison.rows) != 1:
        return None
    entries = comparison.rows[0].entries
    measured = [entry for entry in entries.values() if entry.runs]
    runs = [run for entry in measured for run in entry.runs]
    kinds = {device.partition(":")[0] for run in runs for device in run.devices}
    hardware = {name for run in runs for name in run.hardware}
    if len(kinds) != 1 or len(hardware) > 1 or len({run.backend for run in runs}) > 1:
        return None
    if set(comparison.compared) - _COMPARED or any(entry.unequal for entry in measured):
        return None
    adds_hardware = not any(run.shares_cores for run in runs)
    points = [
        ScalingPoint(
            entry=entry,
            num_devices=entry.runs[0].num_devices,
            mode=None if entry.runs[0].num_devices == 1 else _MODES.get(entry.runs[0].strategy),
            num_replicas=entry.runs[0].num_replicas,
            global_batch_size=entry.global_batch_size or 0,
            adds_hardware=adds_hardware,
        )
        for entry in measured
    ]
    points.sort(key=lambda point: (point.num_devices, [None, *MODE_STRATEGIES].index(point.mode)))
    places = {(point.num_devices, point.mode) for point in points}
    alone = [point for point in points if point.num_devices == 1]
    has_modes = [point for point in points if point.mode] == points[1:]
    if [point.entry.setup for point in alone] != [comparison.baseline] or not has_modes:
        return None
    is_weak = "global_batch_size" in comparison.compared
    batches = {point.global_batch_size // (point.num_devices if is_weak else 1) for point in points}
    if not 2 <= len(points) == len(places) or len(batches) > 1 or 0 in batches:
        return None
    kind: Literal["strong", "weak"] = "weak" if is_weak else "strong"
    return Scaling(kind=kind, points=tuple(points), shares_cores=not adds_hardware)
