"""Energy that a run took, from counters read as its steady part begins and as training ends."""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

from tfbench.machine.energy_readings import (
    PARTS,
    EnergyPart,
    EnergyReading,
    EnergySource,
    MachineState,
)
from tfbench.runs.record import RunResult
from tfbench.runs.spans import find_warmup_end, steady_spans
from tfbench.wording import join_words

# A counter is up to its resolution old when it is read, so that a difference is off by as much at
# either end.
MAX_RESOLUTION_SHARE = 0.05
# More than any package of processors draws; how often a counter came to its end between two
# readings is known below.
_MOST_WATTS = 1000.0
# Two processes that read a counter at once, in the other order than their clocks say: what a GPU
# takes meanwhile.
_MOST_BACKWARDS_JOULES = 100.0

_NAMES: Mapping[EnergyPart, str] = {
    "gpu": "GPUs",
    "package": "processor packages",
    "dram": "their memory",
}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Energy:
    """The energy that was measured, in joules; None: `problems` say why there is no such figure.

    All is from the beginning of the steady part to the end of the training, in `seconds`, with
    validation and whatever else lies between epochs; `samples` were trained meanwhile.
    """

    parts: tuple[EnergyPart, ...] = ()  # that the figures are of
    joules: float | None = None
    seconds: float = 0.0
    samples: float = 0
    problems: tuple[str, ...] = ()

    def metrics(self) -> dict[str, float]:
        """Returns the figures that exist under their names in `METRICS`."""
        if self.joules is None:
            return {}
        values = {"energy_joules": self.joules}
        if self.joules:
            values["samples_per_joule"] = self.samples / self.joules
            if self.seconds:
                values["mean_watts"] = self.joules / self.seconds
        return values


def name_parts(parts: Sequence[EnergyPart]) -> str:
    """Returns what figures of energy are of, in words: "GPUs and processor packages alone"."""
    if not parts:
        return "nothing is measured"
    names = [_NAMES[part] for part in parts]
    return f"{join_words(names)} alone"


def find_energy(result: RunResult) -> Energy | None:
    """Returns what is known of a run's energy, in whatever state it is.

    None if its counters were not looked for.
    """
    counters = result.energy
    if counters is None:
        return None
    problems = list(counters.problems)
    times = {reading.moment: reading.seconds for reading in result.energy_readings}
    if len(times) < 2:  # under way, or stopped
        return Energy(problems=tuple(problems))
    begin = times["steady"]
    end = times["end"]
    seconds = end - begin
    resolution = max((source.resolution_seconds for source in counters.sources), default=0.0)
    least = resolution / MAX_RESOLUTION_SHARE
    counted = {source: _count(source, result, begin, end) for source in counters.sources}
    if seconds >= least:
        # Virtual machines and processors without counters show some that are always 0.
        for source in [source for source, joules in counted.items() if joules == 0]:
            problems.append(f"{source.name}: its counter stood still, so that it counts nothing")
            del counted[source]
    if reason := _why_no_figure(result, counted):
        return Energy(problems=(*problems, reason))
    total = None
    lost = [source.name for source, joules in counted.items() if math.isnan(joules)]
    if seconds < least:
        problems.append(f"{seconds:.3g} s is too short for the counters: {least:.3g} s are needed")
    elif lost:
        problems += [
            f"{name}: the counter could not be read throughout, or began anew" for name in lost
        ]
    elif counted:
        total = math.fsum(counted.values())
    kinds = {source.part for source in counted}
    warmup_end = find_warmup_end(result.spans, result.request.recipe.measurement)
    counted_spans = steady_spans(result.spans, warmup_end=warmup_end)
    return Energy(
        parts=tuple(part for part in PARTS if part in kinds),
        joules=total,
        seconds=seconds,
        samples=result.batch_sizes.count(counted_spans),
        problems=tuple(problems),
    )


def _count(source: EnergySource, result: RunResult, begin: float, end: float) -> float:
    """Returns the joules that a counter counted between two readings; nan: that is not known.

    What the parent saw of it in between shows how often it began anew.
    """
    readings: list[EnergyReading | MachineState] = [*result.energy_readings]
    readings += [state for state in result.machine_states if begin < state.seconds < end]
    points = sorted(
        (reading.seconds, reading.joules[source.name])
        for reading in readings
        if source.name in reading.joules
    )
    if not points or points[0][0] != begin or points[-1][0] != end:
        return math.nan
    growths = []
    for (before, joules_before), (after, joules_after) in itertools.pairwise(points):
        growths.append(_growth(after - before, joules_after - joules_before, source))
    return math.fsum(growths)


def _growth(seconds: float, joules: float, source: EnergySource) -> float:
    """Returns the joules between two readings, given their difference; nan: that is not known."""
    if -_MOST_BACKWARDS_JOULES <= joules < 0 and seconds < 1:
        return joules
    if source.range_joules is None:
        return joules if joules >= 0 else math.nan
    if seconds * _MOST_WATTS < source.range_joules:
        return joules % source.range_joules
    return math.nan


def _why_no_figure(result: RunResult, counted: Mapping[EnergySource, float]) -> str:
    """Says why no figure is made of readings that may be there; "" if one is."""
    placement = result.placement
    if placement is None:
        return ""
    if placement.num_workers > 1:
        return (
            "several workers: each one's journal has the readings of its own machine, which are not"
            " added up"
        )
    uses_gpus = any(device.startswith("gpu") for device in placement.devices)
    num_counted = sum(source.part == "gpu" for source in counted)
    if uses_gpus and num_counted < len(placement.devices):
        return "not all GPUs in use can be read, and the rest alone would say little"
    return ""
