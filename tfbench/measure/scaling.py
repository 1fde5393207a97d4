"""How training scales with the number of replicas: measured beside what would be ideal, and what is lost on the way."""

import dataclasses
import statistics
from typing import Literal, NamedTuple

from tfbench.measure.comparison import Comparison, Entry, shares_cores
from tfbench.measure.judging import Judgement
from tfbench.measure.step_model import BYTES_PER_PARAMETER

Kind = Literal["strong", "weak"]


class Estimate(NamedTuple):
    """A figure with its 95 % interval, which one run of each arm does not give."""

    value: float
    low: float | None
    high: float | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ScalingPoint:
    """One number of replicas beside one replica; times in seconds, at the median speed of the processes."""

    num_replicas: int
    entry: Entry  # of the comparison
    global_batch_size: int
    step_seconds: float  # mean time of a step
    same_work_seconds: float  # that one replica takes for as many samples
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
    def speedup(self) -> Estimate:
        """Samples per second, over those of one replica."""
        found = self.entry.speedup
        return Estimate(found.ratio, found.low, found.high) if found else Estimate(1.0, None, None)

    @property
    def efficiency(self) -> Estimate:
        """Share of the ideal speed-up, which is the number of replicas, that was reached."""
        value, low, high = self.speedup
        ends = [None if end is None else end / self.num_replicas for end in (low, high)]
        return Estimate(value / self.num_replicas, *ends)

    @property
    def ideal_step_seconds(self) -> float:
        """What a step would take if every replica had the hardware of the one, and nothing was lost."""
        return self.same_work_seconds / self.num_replicas

    @property
    def lost_seconds(self) -> float:
        """What a step takes beyond the ideal; negative where it takes less."""
        return self.step_seconds - self.ideal_step_seconds


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
        arms have different kinds of devices or hardware, as many replicas as another, or batches that are neither as
        large in every arm nor in every replica; or they were compared although they differ in what must be equal.
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
    if any(entry.speedup and entry.unequal for entry in entries.values()):
        return None
    missing = {counts[arm]: entry for arm, entry in entries.items() if entry is not base and not entry.speedup}
    found = [_make_point(entry, base, counts[arm]) for arm, entry in entries.items() if entry is base or entry.speedup]
    points = [point for point in found if point]
    is_weak = "global_batch_size" in comparison.compared
    batches = {point.per_replica_batch_size if is_weak else point.global_batch_size for point in points}
    if len(points) < max(2, len(found)) or len(batches) > 1:
        return None
    return Scaling(
        kind="weak" if is_weak else "strong",
        points=tuple(sorted(points, key=lambda point: point.num_replicas)),
        missing=missing,
        shares_cores=any(shares_cores(run) for point in points for run in point.entry.runs),
    )


def _devices(entry: Entry) -> list[str]:
    """Returns the devices of an arm; of one without a run, those that its label names: "mirrored gpu:0,gpu:1"."""
    return list(entry.runs[0].devices) if entry.runs else entry.arm.partition(" ")[2].split(",")


def _make_point(entry: Entry, base: Entry, num_replicas: int) -> ScalingPoint | None:
    batch = entry.global_batch_size
    if not batch or not entry.median or not base.median:
        return None
    trained = entry.runs[0].metrics.get("num_trainable_parameters")
    exchanged = None if trained is None else BYTES_PER_PARAMETER * trained
    headrooms = [headroom for run in entry.runs if (headroom := run.metrics.get("input_headroom"))]
    return ScalingPoint(
        num_replicas=num_replicas,
        entry=entry,
        global_batch_size=batch,
        step_seconds=batch / entry.median,
        same_work_seconds=batch / base.median,
        exchanged_bytes=0.0 if num_replicas == 1 else exchanged,
        input_share=1 / statistics.median(headrooms) if headrooms else None,
    )
