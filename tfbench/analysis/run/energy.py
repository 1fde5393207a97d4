"""What a run took of energy, from counters that were read as its steady part began and as its training ended."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tfbench.analysis.run.spans import steady_spans
from tfbench.records.energy import PARTS, EnergySource, Part
from tfbench.records.run import RunResult
from tfbench.wording import join_words

# A counter is up to its resolution old when it is read, so that a difference is off by as much at either end.
MAX_RESOLUTION_SHARE = 0.05
# More than any package of processors draws; how often a counter came to its end between two readings is known below.
_MOST_WATTS = 1000.0
# Two processes that read a counter at once, in the other order than their clocks say: what a GPU takes meanwhile.
_MOST_BACKWARDS_JOULES = 100.0

_NAMES: Mapping[Part, str] = {"gpu": "GPUs", "package": "processor packages", "dram": "their memory"}
_LEFT_OUT = "fans, disks, network and losses of power supplies"

_Counts = Mapping[EnergySource, Mapping[float, float]]  # joules so far by seconds


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Energy:
    """What was measured of energy, in joules; None: there is no such figure, and `problems` say why.

    All is from the beginning of the steady part to the end of the training, in `seconds`, with validation and whatever
    else lies between epochs; `samples` were trained meanwhile. `per_epoch` is for as many as an epoch has.
    """

    parts: tuple[Part, ...]  # that the figures are of
    joules: float | None = None
    joules_by_part: dict[Part, float] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    samples: int = 0
    per_epoch: float | None = None
    problems: tuple[str, ...] = ()

    def metrics(self) -> dict[str, float]:
        """Returns the figures that exist under their names in `METRICS`."""
        values = {
            "energy_joules": self.joules,
            "samples_per_joule": self.samples / self.joules if self.joules else None,
            "mean_watts": self.joules / self.seconds if self.joules and self.seconds else None,
            "energy_joules_per_epoch": self.per_epoch,
        }
        values |= {f"energy/{part}_joules": joules for part, joules in self.joules_by_part.items()}
        return {name: value for name, value in values.items() if value is not None}


def name_parts(parts: Sequence[Part]) -> str:
    """Returns what figures of energy are of, in words: "GPUs and processor packages alone"."""
    return f"{join_words([_NAMES[part] for part in parts])} alone" if parts else "nothing is measured"


def describe_parts(parts: Sequence[Part]) -> str:
    """Returns what figures of energy are of, and what they leave out, in words."""
    if not parts:
        return name_parts(parts)
    missing = [_NAMES[part] for part in PARTS if part not in parts and part != "gpu"]
    return f"{name_parts(parts)}, without {', '.join([*missing, _LEFT_OUT])}"


def find_energy(result: RunResult) -> Energy | None:
    """Works out what a run took of energy.

    Args:
        result: A run in whatever state.

    Returns:
        What is known; None of a run that is older than these readings, or was not trained.
    """
    found = result.energy
    if found is None:
        return None
    counted = count_up(result)
    still = [source.name for source in found.sources if source not in counted]
    problems = [*found.problems, *(f"{name}: its counter stood still, so that it counts nothing" for name in still)]
    if reason := _why_no_figure(result, counted):
        return Energy(parts=(), problems=(*problems, reason))
    parts = tuple(part for part in PARTS if any(source.part == part for source in counted))
    moments = {reading.moment: reading.seconds for reading in result.energy_readings}
    if len(moments) < 2:  # under way, or stopped
        return Energy(parts=parts, problems=tuple(problems))
    begin, end = moments["steady"], moments["end"]
    by_part = {part: joules for part in parts if (joules := _spent(counted, part, begin, end, problems)) is not None}
    joules = math.fsum(by_part.values()) if by_part and len(by_part) == len(parts) else None
    steady = steady_spans(result.spans, warmup_steps=result.request.recipe.measurement.warmup_steps)
    num_steps = sum(span.num_steps for span in steady)
    epochs = num_steps / result.steps_per_epoch if result.steps_per_epoch else 0
    return Energy(
        parts=parts,
        joules=joules,
        joules_by_part=by_part,
        seconds=end - begin,
        samples=num_steps * (result.placement.global_batch_size if result.placement else 0),
        per_epoch=joules / epochs if joules is not None and epochs else None,
        problems=tuple(problems),
    )


def _spent(counted: _Counts, part: Part, begin: float, end: float, problems: list[str]) -> float | None:
    """Returns the joules of a part of the machine between two readings; None: its counters do not tell."""
    sources = [source for source in counted if source.part == part]
    coarsest = max(source.resolution_seconds for source in sources)
    least = coarsest / MAX_RESOLUTION_SHARE
    joules = math.fsum(counted[one].get(end, math.nan) - counted[one].get(begin, math.nan) for one in sources)
    if end - begin < least:
        problems.append(
            f"{_NAMES[part]}: {end - begin:.3g} s is too short for counters that are renewed every {coarsest:g} s: "
            f"{least:.3g} s are needed"
        )
    elif math.isnan(joules):
        problems.append(f"{_NAMES[part]}: a counter could not be read throughout, or began anew")
    else:
        return joules
    return None


def _why_no_figure(result: RunResult, sources: Iterable[EnergySource]) -> str:
    """Says why no figure is made of readings that may be there; "" if one is."""
    placement = result.placement
    if placement and placement.num_workers > 1:
        return "several workers: each one's journal has the readings of its own machine, which are not added up"
    uses_gpus = bool(placement and any(device.startswith("gpu") for device in placement.devices))
    num_gpus = sum(source.part == "gpu" for source in sources)
    if uses_gpus and placement and num_gpus < len(placement.devices):
        return "not all GPUs in use can be read, and the rest alone would say little"
    return ""


def count_up(result: RunResult) -> dict[EnergySource, dict[float, float]]:
    """Returns what each counter has counted since its first reading, by when it was read; nan once that is not known.

    One that stood still is left out: virtual machines and processors without it show some that are always 0.
    """
    found = {}
    for source in result.energy.sources if result.energy else ():
        points = sorted((seconds, joules[source.name]) for seconds, joules in _shown(result) if source.name in joules)
        is_long = bool(points) and points[-1][0] - points[0][0] >= source.resolution_seconds / MAX_RESOLUTION_SHARE
        if not is_long or len({joules for _, joules in points}) > 1:
            found[source] = unwrap(points, source.range_joules)
    return found


def _shown(result: RunResult) -> Iterator[tuple[float, Mapping[str, float]]]:
    """Yields when counters were read, and what they showed: by the run, and by its parent, in no order."""
    yield from ((reading.seconds, reading.joules) for reading in result.energy_readings)
    yield from ((state.seconds, state.joules) for state in result.machine_states)


def unwrap(points: Iterable[tuple[float, float]], range_joules: float | None) -> dict[float, float]:
    """Returns how much a counter has counted since its first reading, although it begins anew at its range.

    Args:
        points: Seconds and joules of each reading, in order.
        range_joules: At which it begins anew; None: it does not, and has been reset if it is less than before.

    Returns:
        Joules by seconds; nan from where it was reset, or may have come to its end more than once.
    """
    counted = dict[float, float]()
    total, before = 0.0, (math.nan, math.nan)
    for seconds, joules in points:
        if counted:
            total += _grown(seconds - before[0], joules - before[1], range_joules)
        counted[seconds] = total
        before = seconds, joules
    return counted


def _grown(seconds: float, joules: float, range_joules: float | None) -> float:
    if -_MOST_BACKWARDS_JOULES <= joules < 0 and seconds < 1:
        return joules
    if range_joules is None:
        return joules if joules >= 0 else math.nan
    return joules % range_joules if seconds * _MOST_WATTS < range_joules else math.nan
