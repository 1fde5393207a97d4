"""Energy that a run took, from counters read as its steady part begins and as training ends."""

import dataclasses
import math
from collections.abc import Collection

from tfbench.machine.energy_readings import EnergySource
from tfbench.runs.record import RunResult
from tfbench.runs.spans import find_warmup_end, steady_spans

# A counter is up to its resolution old when it is read, so that a difference is off by as much at
# either end.
MAX_RESOLUTION_SHARE = 0.05


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Energy:
    """The energy that a run's GPUs took, in joules.

    None: `problems` say why there is no such figure, unless no GPU was used.

    All is from the beginning of the steady part to the end of the training, in `seconds`, with
    validation and whatever else lies between epochs; `samples` were trained meanwhile.
    """

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
    seconds = times["end"] - times["steady"]
    sources = [source for source in counters.sources if source.part == "gpu"]
    resolution = max((source.resolution_seconds for source in sources), default=0.0)
    least = resolution / MAX_RESOLUTION_SHARE
    counted = {source: _count(source, result) for source in sources}
    if seconds >= least:
        # A virtual GPU may show a counter that is always 0.
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
    warmup_end = find_warmup_end(result.spans, result.request.recipe.measurement)
    counted_spans = steady_spans(result.spans, warmup_end=warmup_end)
    return Energy(
        joules=total,
        seconds=seconds,
        samples=result.batch_sizes.count(counted_spans),
        problems=tuple(problems),
    )


def _count(source: EnergySource, result: RunResult) -> float:
    """Returns the joules that a counter counted between both readings; nan: that is not known."""
    joules = {reading.moment: reading.joules for reading in result.energy_readings}
    before = joules["steady"].get(source.name, math.nan)
    after = joules["end"].get(source.name, math.nan)
    return after - before if after >= before else math.nan


def _why_no_figure(result: RunResult, counted: Collection[EnergySource]) -> str:
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
    if uses_gpus and len(counted) < len(placement.devices):
        return "not all GPUs in use can be read, and the rest alone would say little"
    return ""
