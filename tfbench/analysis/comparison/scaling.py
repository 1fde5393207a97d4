"""How training scales with the number of replicas: measured, beside what would be ideal where they add hardware."""

import dataclasses
from typing import Literal, NamedTuple

from tfbench.analysis.comparison.causes import exchanged_bytes, input_share
from tfbench.analysis.comparison.comparison import Comparison, Entry, shares_cores
from tfbench.analysis.comparison.speedup import Finding, Judgement

Kind = Literal["strong", "weak"]


class Estimate(NamedTuple):
    """A figure with its 95 % interval, which one run of each arm does not give."""

    value: float
    low: float | None
    high: float | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ScalingPoint:
    """One number of replicas beside one replica; times in seconds, at the speeds that the table has.

    Efficiency and what is ideal exist where each replica has hardware of its own; else they would say nothing of it.
    """

    num_replicas: int
    entry: Entry  # of the comparison
    global_batch_size: int
    step_seconds: float  # mean time of a step
    same_work_seconds: float  # that one replica takes for as many samples
    adds_hardware: bool  # whether replicas have hardware of their own, and not the cores of one processor
    exchanged_bytes: float | None  # of gradients, in a step, by each replica; None: not known
    input_share: float | None  # of a step's time, that its input would take alone; None: not measured

    @property
    def per_replica_batch_size(self) -> int:
        """Samples of a step, for each replica."""
        return self.global_batch_size // self.num_replicas

    @property
    def judgement(self) -> Judgement | None:
        """Of the speed-up; None: this is the one replica."""
        return self.entry.speedup.judgement if self.entry.speedup else None

    @property
    def finding(self) -> Finding | None:
        """The judgement as people are told it."""
        return self.entry.speedup.finding if self.entry.speedup else None

    @property
    def speedup(self) -> Estimate:
        """Samples per second, over those of one replica."""
        found = self.entry.speedup
        return Estimate(found.ratio, found.low, found.high) if found else Estimate(1.0, None, None)

    @property
    def efficiency(self) -> Estimate | None:
        """Share of the ideal speed-up, which is the number of replicas, that was reached."""
        if not self.adds_hardware:
            return None
        value, low, high = self.speedup
        ends = [None if end is None else end / self.num_replicas for end in (low, high)]
        return Estimate(value / self.num_replicas, *ends)

    @property
    def ideal_step_seconds(self) -> float | None:
        """What a step would take if each replica did its part as fast as the one does, and nothing else was done."""
        return self.same_work_seconds / self.num_replicas if self.adds_hardware else None

    @property
    def lost_seconds(self) -> float | None:
        """What a step takes beyond the ideal; negative where it takes less."""
        return None if self.ideal_step_seconds is None else self.step_seconds - self.ideal_step_seconds


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Scaling:
    """One recipe by numbers of replicas.

    "strong": all train the same global batch, so that a replica has the less to do the more there are. "weak": each
    replica trains the same batch, so that the global batch grows with their number.
    """

    kind: Kind
    points: tuple[ScalingPoint, ...]  # by number of replicas, from one on
    missing: dict[int, Entry]  # numbers of replicas without a speed-up
    shares_cores: bool  # replicas are logical devices of one processor, so that no hardware is added

    @property
    def batch_size(self) -> int:
        """Samples of a step: of every arm, or where scaling is weak, of every replica."""
        return self.points[0].global_batch_size


def find_scaling(comparison: Comparison) -> Scaling | None:
    """Returns how training scales, for one setting under arms that differ in their number of replicas.

    Returns:
        None: there are several settings; the baseline is not one replica, or has no speed; no arm has a speed-up; or
        arms have different kinds of devices, hardware or back ends, values of their own, as many replicas as another,
        or batches that are neither as large in every arm nor in every replica; or they were compared although they
        differ in what must be equal.
    """
    if len(comparison.rows) != 1:
        return None
    entries = comparison.rows[0].entries
    base = entries[comparison.baseline]
    counts = {arm: len(_devices(entry)) for arm, entry in entries.items()}
    kinds = {device.partition(":")[0] for entry in entries.values() for device in _devices(entry)}
    hardware = {name for entry in entries.values() for run in entry.runs for name in run.hardware}
    if counts[base.arm] != 1 or len(set(counts.values())) < len(counts) or len(kinds) != 1 or len(hardware) > 1:
        return None
    backends = {run.backend for entry in entries.values() for run in entry.runs}
    own_values = set(comparison.compared) - {"global_batch_size", "backend"}
    if len(backends) > 1 or own_values or any(entry.speedup and entry.unequal for entry in entries.values()):
        return None
    missing = {counts[arm]: entry for arm, entry in entries.items() if entry is not base and not entry.speedup}
    adds_hardware = not any(shares_cores(run) for entry in entries.values() for run in entry.runs)
    found = [
        _make_point(entry, base, counts[arm], adds_hardware=adds_hardware)
        for arm, entry in entries.items()
        if entry is base or entry.speedup
    ]
    points = [point for point in found if point]
    is_weak = "global_batch_size" in comparison.compared
    batches = {point.per_replica_batch_size if is_weak else point.global_batch_size for point in points}
    if len(points) < max(2, len(found)) or len(batches) > 1:
        return None
    return Scaling(
        kind="weak" if is_weak else "strong",
        points=tuple(sorted(points, key=lambda point: point.num_replicas)),
        missing=missing,
        shares_cores=not adds_hardware,
    )


def _devices(entry: Entry) -> list[str]:
    """Returns the devices of an arm; of one without a run, those that its label names: "mirrored gpu:0,gpu:1"."""
    return list(entry.runs[0].devices) if entry.runs else entry.arm.partition(" ")[2].split(",")


def _make_point(entry: Entry, base: Entry, num_replicas: int, *, adds_hardware: bool) -> ScalingPoint | None:
    batch = entry.global_batch_size
    if not batch or not entry.speed or not base.speed:
        return None
    return ScalingPoint(
        num_replicas=num_replicas,
        entry=entry,
        global_batch_size=batch,
        step_seconds=batch / entry.speed,
        same_work_seconds=batch / base.speed,
        adds_hardware=adds_hardware,
        exchanged_bytes=exchanged_bytes(entry),
        input_share=input_share(entry),
    )
