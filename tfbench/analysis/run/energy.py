"""What a run took of energy, from counters that were read at the borders of its epochs."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tfbench.analysis.run.early_stop import reaches
from tfbench.analysis.run.spans import steady_spans
from tfbench.records.energy import PARTS, EnergyReading, EnergySource, Moment, Part
from tfbench.records.run import RunResult
from tfbench.wording import count, join_words

# A counter is up to its resolution old when it is read, so that a difference is off by as much at either end.
MAX_RESOLUTION_SHARE = 0.05
# More than any package of processors draws; how often a counter came to its end between two readings is known below.
_MOST_WATTS = 1000.0
# Two processes that read a counter at once, in the other order than their clocks say: what a GPU takes meanwhile.
_MOST_BACKWARDS_JOULES = 100.0

_NAMES: Mapping[Part, str] = {"gpu": "GPUs", "package": "processor packages", "dram": "their memory"}
_LEFT_OUT = "fans, disks, network and losses of power supplies"

_Stretch = tuple[float, float]  # seconds of the monotonic clock, at which counters were read
_Counts = Mapping[EnergySource, Mapping[float, float]]  # joules so far by seconds


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Energy:
    """What was measured of energy, in joules; None: there is no such figure, and `problems` say why.

    `joules` are of the steady part, for `samples` samples in `seconds`: training steps after the warm-up, nothing
    between epochs. `per_epoch` is of training and validation, a mean over whole epochs without the first, if there are
    others. `to_accuracy` counts from the start of the training.
    """

    parts: tuple[Part, ...]  # that the figures are of
    joules: float | None = None
    joules_by_part: dict[Part, float] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    samples: int = 0
    per_epoch: float | None = None
    to_accuracy: float | None = None
    epochs: dict[int, float] = dataclasses.field(default_factory=dict)  # of each that was read
    problems: tuple[str, ...] = ()

    def metrics(self) -> dict[str, float]:
        """Returns the figures that exist under their names in `METRICS`."""
        values = {
            "energy_joules": self.joules,
            "samples_per_joule": self.samples / self.joules if self.joules else None,
            "mean_watts": self.joules / self.seconds if self.joules and self.seconds else None,
            "energy_joules_per_epoch": self.per_epoch,
            "energy_to_accuracy_joules": self.to_accuracy,
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
    reader = _Reader(counted, problems)
    stretches, samples = _steady_stretches(result)
    by_part = {part: joules for part in parts if (joules := reader.spent(stretches, "steady part", part)) is not None}
    whole = _epoch_stretches(result)
    return Energy(
        parts=parts,
        joules=math.fsum(by_part.values()) if by_part and len(by_part) == len(parts) else None,
        joules_by_part=by_part,
        seconds=math.fsum(end - begin for begin, end in stretches),
        samples=samples,
        per_epoch=_mean_of_epochs(whole, result, reader),
        to_accuracy=_to_accuracy(result, reader),
        epochs={epoch: joules for epoch, one in whole.items() if (joules := reader.spent([one])) is not None},
        problems=tuple(dict.fromkeys(problems)),
    )


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


class _Reader:
    """Differences of counters, where they mean something; adds to `problems` where they do not."""

    def __init__(self, counted: _Counts, problems: list[str]) -> None:
        self._counted = counted
        self.problems = problems

    def spent(self, stretches: Sequence[_Stretch], what: str = "", part: Part | None = None) -> float | None:
        """Returns the joules of some stretches together; None: there are none, or no counter tells.

        Args:
            stretches: Each from one reading to another.
            what: They are, in words; "": nothing is said where there is no figure.
            part: Of the machine; None: all.
        """
        sources = [source for source in self._counted if part in (None, source.part)]
        seconds = math.fsum(end - begin for begin, end in stretches)
        if not stretches or not sources or seconds <= 0:
            return None
        coarsest = max(source.resolution_seconds for source in sources)
        least = len(stretches) * coarsest / MAX_RESOLUTION_SHARE
        joules = math.fsum(self._difference(source, stretch) for source in sources for stretch in stretches)
        problem = ""
        if seconds < least:
            problem = (
                f"{seconds:.3g} s in {count(len(stretches), 'piece')} is too short for counters that are renewed every "
                f"{coarsest:g} s: {least:.3g} s are needed"
            )
        elif math.isnan(joules):
            problem = "a counter could not be read throughout, or began anew"
        if problem and what:
            self.problems.append(f"{what}: {problem}")
        return None if problem else joules

    def _difference(self, source: EnergySource, stretch: _Stretch) -> float:
        counted = self._counted[source]
        return counted.get(stretch[1], math.nan) - counted.get(stretch[0], math.nan)


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
    """Yields when counters were read, and what they showed: at borders, and by the parent, in no order."""
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


def _find(result: RunResult, moment: Moment) -> dict[int, EnergyReading]:
    return {reading.epoch: reading for reading in result.energy_readings if reading.moment == moment}


def _steady_stretches(result: RunResult) -> tuple[list[_Stretch], int]:
    """Returns where steady steps were taken, epoch by epoch, and how many samples these were of."""
    begins, steady, ends = (_find(result, moment) for moment in ("epoch", "steady", "trained"))
    if not steady:
        return [], 0
    first = min(steady)
    warmup = result.request.recipe.measurement.warmup_steps
    steps = dict[int, int]()
    for span in steady_spans(result.spans, warmup_steps=warmup):
        steps[span.epoch] = steps.get(span.epoch, 0) + span.num_steps
    stretches, num_steps = list[_Stretch](), 0
    for epoch, end in sorted(ends.items()):
        begin = steady.get(epoch) or begins.get(epoch)
        if epoch >= first and begin and steps.get(epoch):
            stretches.append((begin.seconds, end.seconds))
            num_steps += steps[epoch]
    batch = result.placement.global_batch_size if result.placement else 0
    return stretches, num_steps * batch


def _epoch_stretches(result: RunResult) -> dict[int, _Stretch]:
    """Returns from when to when each whole epoch was trained and validated, of those that were read."""
    begins, ends = _find(result, "epoch"), _find(result, "end")
    whole = {record.epoch for record in result.whole_epochs}
    return {
        epoch: (begins[epoch].seconds, ends[epoch].seconds) for epoch in sorted(whole & begins.keys() & ends.keys())
    }


def _mean_of_epochs(whole: Mapping[int, _Stretch], result: RunResult, reader: _Reader) -> float | None:
    """Returns the energy of an epoch: from the second one's beginning to the last one's end, over their number."""
    own = result.own_epochs
    first = own[0].epoch if own else 0  # it was compiled in
    epochs = [epoch for epoch in whole if epoch != first] or list(whole)
    if not epochs:
        return None
    joules = reader.spent([(whole[epochs[0]][0], whole[epochs[-1]][1])], "whole epochs")
    return None if joules is None else joules / (epochs[-1] - epochs[0] + 1)


def _to_accuracy(result: RunResult, reader: _Reader) -> float | None:
    """Returns the energy until `time_to_accuracy_seconds`; none of a run that goes on from a snapshot."""
    target = result.request.recipe.expect.target_accuracy
    if target is None or result.is_synthetic or result.request.resume or not result.energy_readings:
        return None
    begin = min(reading.seconds for reading in result.energy_readings)
    epoch = next((record.epoch for record in result.epochs if reaches(record.val_accuracy, target)), None)
    end = None if epoch is None else _find(result, "end").get(epoch)
    if epoch is not None and end is None:
        reader.problems.append(f"to accuracy: epoch {epoch}, which reached it, was passed over by the readings")
    return reader.spent([(begin, end.seconds)], "to accuracy") if end else None
