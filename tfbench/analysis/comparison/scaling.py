"""How training scales with the number of devices: measured, beside what would be ideal where they add hardware.

Devices share the work in one of several modes: each has a replica of the network and a part of the batch ("data"), a
part of its weights ("model"), or both ("hybrid"); under "workers" a replica, and a process of its own.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from tfbench.analysis.comparison.comparison import Comparison, Entry
from tfbench.analysis.comparison.fastest import Standing, find_standings
from tfbench.analysis.comparison.intervals import geometric_mean
from tfbench.analysis.comparison.judging import Finding, Judgement
from tfbench.recipe.sections import CUTTING_STRATEGIES
from tfbench.records.scaling import MODE_STRATEGIES, Mode, mode_of
from tfbench.records.sweep import WORKERS_KEY
from tfbench.wording import join_words

Kind = Literal["strong", "weak"]

_BYTES_PER_PARAMETER = 4  # replicas exchange gradients of 32 bits


class Place(NamedTuple):
    """How many devices there are, and how they share the work; one device has nothing to share."""

    num_devices: int
    mode: Mode | None

    @property
    def order(self) -> tuple[int, int]:
        """By numbers of devices, then as modes are listed."""
        return self.num_devices, [None, *MODE_STRATEGIES].index(self.mode)


class Estimate(NamedTuple):
    """A figure with its 95 % interval, which one run of each setup does not give."""

    value: float
    low: float | None
    high: float | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ScalingPoint:
    """One number of devices in one mode beside one device; times in seconds, at the speeds that the table has.

    Efficiency exists where each device is hardware of its own; else it would say nothing of it.
    """

    place: Place
    num_replicas: int  # parts of the batch; in mode "model" one, which all devices compute
    entry: Entry  # of the comparison
    global_batch_size: int
    step_seconds: float  # mean time of a step
    adds_hardware: bool  # whether devices are hardware of their own, and not the cores of one processor
    exchanged_bytes: float | None  # in a step: compiled collectives, or the replicas' gradients; None: not known
    state_bytes: float | None  # weights and the optimizer's variables, on a device; None: not known
    transfer_share: float | None  # of a traced step, in collectives, waiting for each other in a process included
    waiting_share: float | None  # of a traced step: waiting for the slowest worker
    input_share: float | None  # of a step's time, that its input would take alone; None: not measured

    @property
    def num_devices(self) -> int:
        """Of all workers."""
        return self.place.num_devices

    @property
    def mode(self) -> Mode | None:
        """How they share the work; None: this is the one device."""
        return self.place.mode

    @property
    def per_replica_batch_size(self) -> int:
        """Samples of a step, for each device; of layers whose weights are cut in mode "hybrid", it computes all."""
        return self.global_batch_size // self.num_replicas

    @property
    def judgement(self) -> Judgement | None:
        """Of the speed-up; None: this is the one device."""
        return self.entry.speedup.judgement if self.entry.speedup else None

    @property
    def finding(self) -> Finding | None:
        """The judgement as people are told it."""
        return self.entry.speedup.finding if self.entry.speedup else None

    @property
    def speedup(self) -> Estimate:
        """Samples per second, over those of one device."""
        found = self.entry.speedup
        return Estimate(found.ratio, found.low, found.high) if found else Estimate(1.0, None, None)

    @property
    def efficiency(self) -> Estimate | None:
        """Share of the ideal speed-up, which is the number of devices, that was reached."""
        if not self.adds_hardware:
            return None
        value, low, high = self.speedup
        ends = [None if end is None else end / self.num_devices for end in (low, high)]
        return Estimate(value / self.num_devices, *ends)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Scaling:
    """One recipe by numbers of devices and modes.

    "strong": all train the same global batch, so that a device has the less to do the more there are. "weak": the
    global batch grows with the number of devices, as many samples for each.
    """

    kind: Kind
    points: tuple[ScalingPoint, ...]  # by number of devices, from one on, and by mode
    missing: dict[Place, Entry]  # without a speed-up
    shares_cores: bool  # devices are logical ones of one processor, so that no hardware is added
    standing: Standing  # which is faster than which

    @property
    def batch_size(self) -> int:
        """Samples of a step: of every setup, or where scaling is weak, of every device."""
        return self.points[0].global_batch_size

    def lead(self, points: Sequence[ScalingPoint]) -> list[ScalingPoint]:
        """Returns those of some points than which none of them is measurably faster."""
        setups = self.standing.lead([point.entry.setup for point in points])
        return [point for point in points if point.entry.setup in setups]

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Those that were to be measured."""
        there = {place.mode for place in (*(point.place for point in self.points), *self.missing)}
        return tuple(mode for mode in MODE_STRATEGIES if mode in there)

    @property
    def has_replicas(self) -> bool:
        """Whether each device has a replica of the network, and no other mode was to be measured."""
        return self.modes == ("data",)

    def describe_efficiency(self, setup: str) -> str:
        """Returns " (75 % efficiency)" of a setup; "" of the one device, or where devices add no hardware."""
        found = next((point.efficiency for point in self.points if point.entry.setup == setup), None)
        return f" ({100 * found.value:.0f} % efficiency)" if found else ""

    def between_modes(self) -> Iterator[str]:
        """Yields for each number of devices which mode is the fastest, or between which the runs do not decide."""
        for number in dict.fromkeys(point.num_devices for point in self.points[1:]):
            points = [point for point in self.points if point.num_devices == number]
            if len(points) > 1 and all(point.speedup.low is not None for point in points):
                modes = [str(point.mode) for point in self.lead(points)]
                is_one = len(modes) == 1
                what = f"{modes[0]} is the fastest mode" if is_one else f"{join_words(modes)} are too close to call"
                yield f"On {number} devices {what}."

    def line(self, mode: Mode) -> list[ScalingPoint]:
        """Returns the points of a mode by number of devices, from the one device on."""
        return [point for point in self.points if point.mode in (None, mode)]


def find_scaling(comparison: Comparison) -> Scaling | None:
    """Returns how training scales, for one setting under setups that differ in their number of devices, or their mode.

    Returns:
        None: there are several settings; the baseline is not one device, or has no speed; no setup has a speed-up; or
        setups have different kinds of devices, hardware or backends, values of their own, a strategy that is no mode,
        as many devices in the same mode as another, or batches that are neither as large in every setup nor for every
        device; or they were compared although they differ in what must be equal.
    """
    if len(comparison.rows) != 1:
        return None
    entries = comparison.rows[0].entries
    base = entries[comparison.baseline]
    devices = {setup: _devices(entry) for setup, entry in entries.items()}
    places = {setup: _find_place(entry, devices[setup]) for setup, entry in entries.items()}
    kinds = {device.partition(":")[0] for named in devices.values() for device in named}
    hardware = {name for entry in entries.values() for run in entry.runs for name in run.hardware}
    is_one_each = len(set(places.values())) == len(places) and None not in places.values()
    if places[base.setup] != Place(1, None) or not is_one_each or len(kinds) != 1 or len(hardware) > 1:
        return None
    backends = {run.backend for entry in entries.values() for run in entry.runs}
    own_values = set(comparison.compared) - {"global_batch_size", "backend", WORKERS_KEY.partition(".")[2]}
    if len(backends) > 1 or own_values or any(entry.speedup and entry.unequal for entry in entries.values()):
        return None
    adds_hardware = not any(run.shares_cores for entry in entries.values() for run in entry.runs)
    there = {
        setup: place for setup, place in places.items() if place and (entries[setup] is base or entries[setup].speedup)
    }
    found = [_make_point(entries[setup], base, place, adds_hardware=adds_hardware) for setup, place in there.items()]
    points = [point for point in found if point]
    is_weak = "global_batch_size" in comparison.compared
    batches = {point.global_batch_size // (point.num_devices if is_weak else 1) for point in points}
    if len(points) < max(2, len(found)) or len(batches) > 1:
        return None
    return Scaling(
        kind="weak" if is_weak else "strong",
        points=tuple(sorted(points, key=lambda point: point.place.order)),
        missing={place: entries[setup] for setup, place in places.items() if place and setup not in there},
        shares_cores=not adds_hardware,
        standing=find_standings(comparison)[0],
    )


def input_share(entry: Entry) -> float | None:
    """Returns the share of a step's time that its input would take alone; None: not measured."""
    headrooms = [headroom for run in entry.runs if (headroom := run.metrics.get("input_headroom"))]
    return 1 / geometric_mean(headrooms) if headrooms else None


def traced_share(entry: Entry, name: str) -> float | None:
    """Returns a share of a step, of those that its runs traced after the training: their mean; None: none did."""
    shares = [share for run in entry.runs if (share := run.metrics.get(name)) is not None]
    return sum(shares) / len(shares) if shares else None


def _exchanged_bytes(entry: Entry) -> float | None:
    """Returns the bytes of a step's collectives, or of the gradients where they were not read back; None: not known."""
    run = entry.runs[0]
    if (found := run.metrics.get("collective_bytes_per_step")) is not None:
        return found
    trained = run.metrics.get("num_trainable_parameters")
    if run.num_devices == 1:
        return 0.0
    return None if trained is None or run.strategy in CUTTING_STRATEGIES else _BYTES_PER_PARAMETER * trained


def _devices(entry: Entry) -> list[str]:
    """Returns the devices of a setup; of one without a run, those that its label names: "mirrored gpu:0,gpu:1"."""
    return entry.runs[0].devices if entry.runs else entry.setup.partition(" ")[2].partition(" ")[0].split(",")


def _find_place(entry: Entry, devices: list[str]) -> Place | None:
    workers = re.search(r"num_workers=(\d+)", entry.setup)  # of a setup without a run its label tells
    number = entry.runs[0].num_devices if entry.runs else len(devices) * int(workers[1] if workers else 1)
    mode = mode_of(entry.runs[0].strategy if entry.runs else entry.setup.partition(" ")[0])
    return Place(1, None) if number == 1 else Place(number, mode) if mode else None


def _make_point(entry: Entry, base: Entry, place: Place, *, adds_hardware: bool) -> ScalingPoint | None:
    batch = entry.global_batch_size
    if not batch or not entry.speed or not base.speed:
        return None
    run = entry.runs[0]
    return ScalingPoint(
        place=place,
        num_replicas=run.num_replicas,
        entry=entry,
        global_batch_size=batch,
        step_seconds=batch / entry.speed,
        adds_hardware=adds_hardware,
        exchanged_bytes=_exchanged_bytes(entry),
        state_bytes=run.metrics.get("state_bytes_per_device"),
        transfer_share=traced_share(entry, "transfer_share"),
        waiting_share=traced_share(entry, "waiting_share"),
        input_share=input_share(entry),
    )
