"""What a training is held against once it is over: the peak of its devices, its input pipeline alone."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from builders import build_recipe, build_request
from tfbench import benchmark, peak, training
from tfbench.journal import Follower, Journal, Replay, request_fields
from tfbench.machine import InputCheck, PeakCheck
from tfbench.results import ModelSummary, RunResult


def test_the_fastest_round_counts_and_every_device_has_its_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak, "_CPU_SIZE", 64)
    monkeypatch.setattr(peak, "_SMALL_SIZE", 64)
    times = iter([0.001, 0.5, 0.25, 0.125])

    def timed(work: Callable[[], None]) -> float:
        work()
        return next(times)

    monkeypatch.setattr(peak, "_time", timed)
    check = peak.measure_peak(("/device:CPU:0", "/device:CPU:0"), "float32", seconds=0.8)
    assert (check.size, check.precision, check.num_rounds) == (64, "float32", 3)
    assert check.flops == 2 * 2 * 64**3  # two for each multiply-accumulate, on two devices
    assert check.seconds == 0.125
    assert check.flops_per_second == 2 * 2 * 64**3 / 0.125


def test_a_machine_on_which_a_large_product_takes_too_long_is_given_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak, "_CPU_SIZE", 128)
    monkeypatch.setattr(peak, "_SMALL_SIZE", 32)
    monkeypatch.setattr(peak, "_time", lambda work: 1.0)
    assert peak.measure_peak(("/device:CPU:0",), "mixed_bfloat16", seconds=1.0).size == 32


def check_limits(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, peaks: list[int], flops: int | None, speed: float | None
) -> RunResult:
    """Runs the checks that follow a training in batches of 32, with peaks as given, in operations a second."""
    found = iter(peaks)

    def measure(*_: Any, **__: Any) -> PeakCheck:
        return PeakCheck(size=1, precision="float32", num_rounds=3, flops=next(found), seconds=1.0)

    monkeypatch.setattr(benchmark, "measure_peak", measure)
    monkeypatch.setattr(benchmark, "check_input", lambda *_: InputCheck(num_batches=64, seconds=0.5))
    journal = Journal(folder / "a.jsonl")
    model = ModelSummary(num_parameters=1, num_trainable_parameters=1, flops_per_sample=flops)
    resolved: Any = SimpleNamespace(logical_names={"/device:CPU:0": "cpu:0"})
    unused: Any = None
    benchmark._check_limits(build_recipe().training, unused, resolved, model, speed, journal)
    journal.close()
    return read_checks(folder / "a.jsonl")


def read_checks(path: Path) -> RunResult:
    replay = Replay()
    replay.apply({"kind": "request", **request_fields(build_request())})
    for record in Follower(path).read():
        replay.apply(record)
    return replay.result()


# 3 x 1,000 operations of 32 samples, ten steps a second: 960,000 a second.
@pytest.mark.parametrize(("peaks", "num_measured"), [([960_000], 1), ([959_999, 970_000], 2), ([1, 2], 2)])
def test_a_peak_below_what_was_reached_is_measured_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, peaks: list[int], num_measured: int
) -> None:
    result = check_limits(tmp_path, monkeypatch, peaks=peaks, flops=1000, speed=10.0)
    assert [check.flops for check in result.peak_checks] == peaks[:num_measured]


@pytest.mark.parametrize(("flops", "speed"), [(None, 10.0), (1000, None)])
def test_no_peak_is_measured_where_nothing_could_be_held_against_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flops: int | None, speed: float | None
) -> None:
    result = check_limits(tmp_path, monkeypatch, peaks=[], flops=flops, speed=speed)
    assert result.peak_checks == ()
    assert result.input_check == InputCheck(num_batches=64, seconds=0.5)


class Pipeline:
    """Batches that take a given time each, on a clock of its own."""

    def __init__(self, batch_seconds: float) -> None:
        self._batch_seconds = batch_seconds
        self.drawn = 0

    def draw(self, count: int) -> None:
        self.drawn += count

    def now(self) -> float:
        return self.drawn * self._batch_seconds


# 1 + 4 + 2 batches were ready, or in the making, before the drain began.
@pytest.mark.parametrize(("batch_seconds", "least", "most"), [(0.001, 500, 501), (0.1, 5, 6), (3.0, 1, 1)])
def test_batches_are_drawn_from_the_pipeline_alone_for_half_a_second_once_none_is_ready_any_more(
    monkeypatch: pytest.MonkeyPatch, batch_seconds: float, least: int, most: int
) -> None:
    pipeline = Pipeline(batch_seconds)
    monkeypatch.setattr(training.input_pipeline, "build_training_dataset", lambda *_, **__: pipeline)
    monkeypatch.setattr(training, "_compile_draws", lambda batches: batches.draw)
    monkeypatch.setattr(training.time, "perf_counter", pipeline.now)
    unused: Any = None
    check = training.check_input(build_recipe().training, unused)
    assert least <= check.num_batches <= most
    assert check.seconds == pytest.approx(check.num_batches * batch_seconds)
    assert pipeline.drawn == 7 + check.num_batches


def test_as_many_batches_are_drawn_as_are_counted() -> None:
    import tensorflow as tf

    made: list[int] = []

    def make(number: Any) -> Any:
        made.append(int(number))
        return number

    batches = tf.data.Dataset.counter().map(lambda number: tf.numpy_function(make, [number], tf.int64))
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False  # which TensorFlow does where a pipeline has none
    draw = training._compile_draws(batches.with_options(options))
    draw(1)
    draw(5)
    draw(20)
    assert made == list(range(26))
