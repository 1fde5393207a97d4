"""Noise floors in the store, one file a calibration, and the runs that a calibration is made of."""

import dataclasses
import time
from collections.abc import Iterator, Sequence

from tfbench import __version__
from tfbench.analysis.comparison.noise import MIN_ROUNDS, NoiseFloor, noise_key
from tfbench.analysis.comparison.spread import merge_cautions
from tfbench.analysis.run.machine_checks import check_machine
from tfbench.errors import InterruptedRunError, MeasurementError
from tfbench.records.run import RunRequest
from tfbench.runs.requests import new_id, series_request
from tfbench.runs.series import Execute, Series, SeriesRun, run_series

DEFAULT_ROUNDS = 6

_ARMS = ("a", "b")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """A recipe that was run against itself."""

    floor: NoiseFloor
    series: Series

    @property
    def cautions(self) -> tuple[str, ...]:
        """What disturbed its runs, and so is in the noise: what the machine did, and what the runs noticed."""
        results = [outcome.result for outcome in self.series.outcomes]
        return merge_cautions([(*check_machine(result), *result.notes) for result in results])


def calibrate(request: RunRequest, *, num_rounds: int, execute: Execute) -> Calibration:
    """Runs a recipe against itself in interleaved rounds: a b, b a, a b, ...

    Whatever favours the first, or the second, of two runs favours both arms alike. A round of which a run failed is
    left out. One that is stopped keeps the rounds that were done by then.

    Args:
        request: What is run in both arms; each run gets an id, a name and tags of its own.
        num_rounds: Rounds of two runs.
        execute: Makes one run.

    Raises:
        InterruptedRunError: It was stopped before enough rounds were done.
        MeasurementError: Too few rounds are whole, or the machine changed in between.
        TfbenchError: The first run was refused.
    """
    group = new_id()
    places = list(_order(num_rounds))

    def next_run(done: Sequence[SeriesRun]) -> tuple[RunRequest, str] | None:
        possible = num_rounds - len({places[index][0] for index, run in enumerate(done) if not run.samples_per_second})
        if len(done) == len(places) or possible < MIN_ROUNDS:
            return None
        number, arm = places[len(done)]
        tags = {"tfbench.group": group, "tfbench.arm": arm, "tfbench.round": str(number)}
        label = f"round {number} of {num_rounds}, {arm}"
        return series_request(request, suffix=f"{arm}{number}", tags=tags), label

    series = run_series(next_run, execute)
    if series.was_interrupted and (whole := len(_whole_rounds(series))) < MIN_ROUNDS:
        raise InterruptedRunError(
            f"interrupted after {len(series.runs)} of {len(places)} runs; no noise floor was stored, which takes "
            f"{MIN_ROUNDS} whole rounds and has {whole}. The runs are, as group {group}."
        )
    return Calibration(floor=_make_floor(group, series), series=series)


def _order(num_rounds: int) -> Iterator[tuple[int, str]]:
    for number in range(1, num_rounds + 1):
        for arm in _ARMS if number % 2 else reversed(_ARMS):
            yield number, arm


def _whole_rounds(series: Series) -> list[dict[str, float]]:
    """Returns the speeds of both arms in each round in which both have one."""
    rounds: dict[str, dict[str, float]] = {}
    for run in series.runs:
        if speed := run.samples_per_second:
            rounds.setdefault(run.request.tags["tfbench.round"], {})[run.request.tags["tfbench.arm"]] = speed
    return [speeds for speeds in rounds.values() if len(speeds) == len(_ARMS)]


def _make_floor(group: str, series: Series) -> NoiseFloor:
    whole = _whole_rounds(series)
    if len(whole) < MIN_ROUNDS:
        raise MeasurementError(
            f"a noise floor needs {MIN_ROUNDS} rounds of two runs that finished and have a speed. Received: "
            f"{len(whole)}; of {len(series.runs)} runs, {series.num_failed} failed. No floor was stored; the runs are, "
            f"as group {group}."
        )
    keys = {noise_key(outcome.result) for outcome in series.outcomes if outcome.result.status == "FINISHED"}
    key = keys.pop()
    if keys or key is None:
        raise MeasurementError(
            "the machine, or its devices, changed between the runs, so that no noise floor was stored. Run it again."
        )
    first, second = (tuple(speeds[arm] for speeds in whole) for arm in _ARMS)
    return NoiseFloor(
        group=group,
        created=time.time(),
        tfbench=__version__,
        key=key,
        first=first,
        second=second,
    )
