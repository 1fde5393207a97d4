"""Energy that a run took, from counters read during its training.

They are read as the steady part begins and as training ends.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

from tfbench.analysis.run.spans import steady_spans
from tfbench.records.energy import PARTS, EnergyPart, EnergySource
from tfbench.records.run import RunResult
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
    """What was measured of energy, in joules; None.

    There is no such figure, and `problems` say why.

    All is from the beginning of the steady part to the end of the training, in `seconds`, with
    validation and whatever else lies between epochs; `samples` were trained meanwhile.
    """

    parts: tuple[EnergyPart, ...] = ()  # that the figures are of
    joules: float | None = None
    seconds: float = 0.0
    samples: int = 0
    problems: tuple[str, ...] = ()

    def metrics(self) -> dict[str, float]:
        """Returns the figures that exist under their names in `METRICS`."""
        values = {
            "energy_joules": self.joules,
            "samples_per_joule": self.samples / self.joules if self.joules else None,
            "mean_watts": self.joules / self.seconds if self.joules and self.seconds else None,
        }
        return {name: value for name, value in values.items() if value is not None}


def name_parts(parts: Sequence[EnergyPart]) -> str:
    """Returns what figures of energy are of, in words: "GPUs and processor packages alone"."""
    return (
        f"{join_words([_NAMES[part] for part in parts])} alone" if parts else "nothing is measured"
    )


def find_energy(result: RunResult) -> Energy | None:
    """Returns what is known of a run's energy, in whatever state it is.

    None if its counters were not looked for.
    """
    found = result.energy
    if found is None:
        return None
    problems = list(found.problems)
    times = {reading.moment: reading.seconds for reading in result.energy_readings}
    if len(times) < 2:  # under way, or stopped
        return Energy(problems=tuple(problems))
    begin = times["steady"]
    end = times["end"]
    least = (
        max((source.resolution_seconds for source in found.sources), default=0.0)
        / MAX_RESOLUTION_SHARE
    )
    counted = {source: _count(source, result, begin, end) for source in found.sources}
    if (
        end - begin >= least
    ):  # virtual machines and processors without it show some that are always 0
        still = [source for source, joules in counted.items() if joules == 0]
        problems += [
            f"{source.name}: its counter stood still, so that it counts nothing" for source in still
        ]
        counted = {source: joules for source, joules in counted.items() if source not in still}
    if reason := _why_no_figure(result, counted):
        return Energy(problems=(*problems, reason))
    joules: float | None = math.fsum(counted.values())
    if end - begin < least:
        joules = None
        problems.append(
            f"{end - begin:.3g} s is too short for the counters: {least:.3g} s are needed"
        )
    elif lost := [source.name for source, joules in counted.items() if math.isnan(joules)]:
        joules = None
        problems += [
            f"{name}: the counter could not be read throughout, or began anew" for name in lost
        ]
    steady = steady_spans(result.spans, warmup_steps=result.request.recipe.measurement.warmup_steps)
    num_steps = sum(span.num_steps for span in steady)
    return Energy(
        parts=tuple(part for part in PARTS if any(source.part == part for source in counted)),
        joules=joules if counted else None,
        seconds=end - begin,
        samples=num_steps * (result.placement.global_batch_size if result.placement else 0),
        problems=tuple(problems),
    )


def _count(source: EnergySource, result: RunResult, begin: float, end: float) -> float:
    """Returns the joules that a counter counted between two readings of the run; nan.

    That is not known.

    What the parent saw of it in between says how often it began anew.
    """
    seen = [(reading.seconds, reading.joules) for reading in result.energy_readings]
    seen += [
        (state.seconds, state.joules)
        for state in result.machine_states
        if begin < state.seconds < end
    ]
    points = sorted(
        (seconds, joules[source.name]) for seconds, joules in seen if source.name in joules
    )
    if not points or (points[0][0], points[-1][0]) != (begin, end):
        return math.nan
    return math.fsum(
        _grown(now[0] - then[0], now[1] - then[1], source)
        for then, now in itertools.pairwise(points)
    )


def _grown(seconds: float, joules: float, source: EnergySource) -> float:
    if -_MOST_BACKWARDS_JOULES <= joules < 0 and seconds < 1:
        return joules
    if source.range_joules is None:
        return joules if joules >= 0 else math.nan
    return joules % source.range_joules if seconds * _MOST_WATTS < source.range_joules else math.nan


def _why_no_figure(result: RunResult, counted: Mapping[EnergySource, float]) -> str:
    """Says why no figure is made of readings that may be there; "" if one is."""
    placement = result.placement
    if placement and placement.num_workers > 1:
        return (
            "several workers: each one's journal has the readings of its own machine, which are not"
            " added up"
        )
    uses_gpus = bool(placement and any(device.startswith("gpu") for device in placement.devices))
    if (
        uses_gpus
        and placement
        and sum(source.part == "gpu" for source in counted) < len(placement.devices)
    ):
        return "not all GPUs in use can be read, and the rest alone would say little"
    return ""
