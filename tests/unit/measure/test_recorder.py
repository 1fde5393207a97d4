import itertools
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kinds import Fields
from prepared import build_readings
from tfbench.measure.breakdown import Breakdown
from tfbench.measure.recorder import Validation, flatten_logs
from tfbench.measure.span_clock import SpanClock
from tfbench.recipe.sections import MeasurementConfig
from tfbench.runs.spans import find_warmup_end

MS = 1_000_000  # in nanoseconds


class NotedBreakdown(Breakdown):
    """Notes each entry that is opened."""

    def __init__(self) -> None:
        super().__init__(0)
        self.opened = []

    def switch(self, entry: str | None) -> str | None:
        self.opened.append(entry)
        return super().switch(entry)


class Run:
    """A clock of milliseconds, given as a list or set by a test, and what was made of it."""

    def __init__(
        self,
        readings_ms: Iterable[float] | None = None,
        ask_first: Callable[[float], float] | None = None,
        epoch_steps: int | None = None,
        **config: Any,
    ) -> None:
        self.now_ms = 0.0
        self.done_ms = 0.0  # when the device has done what it was given
        self.spans = []
        self.synchronizations = 0
        self.breakdown = NotedBreakdown()
        self._readings_ms = readings_ms and iter(readings_ms)
        self.clock = SpanClock(
            MeasurementConfig(**({"warmup_steps": 1} | config)),
            synchronize=self._synchronize,
            on_span=self.spans.append,
            breakdown=self.breakdown,
            now=self._now,
            ask_first=ask_first,
            epoch_steps=epoch_steps,
        )
        self.clock.begin_training()
        self.clock.begin_epoch(1)

    def _now(self) -> int:
        if self._readings_ms:
            self.now_ms = next(self._readings_ms)
        return int(self.now_ms * MS)

    def _synchronize(self) -> None:
        self.synchronizations += 1
        self.now_ms = max(self.now_ms, self.done_ms)

    def steps(self, count: int, *, each: int = 1, ends_epoch: bool = False) -> bool:
        reached = False
        for index in range(count):
            reached = self.clock.end_steps(each, ends_epoch=ends_epoch and index == count - 1)
        return reached

    def train(self, step_ms: float, *, each: int = 1) -> int:
        """Trains until a limit is reached, and returns the number of steps."""
        is_over = False
        while not is_over:
            self.now_ms += step_ms * each
            is_over = self.steps(1, each=each)
        return self.clock.step

    @property
    def cuts(self) -> list[tuple[int, int, int]]:
        return [(span.epoch, span.first_step, span.last_step) for span in self.spans]


def own_figure(figure: float) -> float:
    """Stands in for what the first worker says, in the first worker."""
    return figure


@pytest.mark.parametrize("limit", [{"seconds": 1.0}, {"steps": 3}, {}])
@pytest.mark.parametrize(("num_workers", "warmup_end"), [(1, 2), (2, 10)])
def test_long_steps_end_the_warm_up_early_where_no_worker_must_agree(
    num_workers: int, warmup_end: int, limit: dict[str, float]
) -> None:
    asks = own_figure if num_workers > 1 else None
    run = Run(itertools.count(0.0, 6000.0), asks, warmup_steps=10, **limit)
    for _ in range(warmup_end):
        assert not run.clock.is_steady
        run.steps(1)
    assert run.clock.warmup_end == warmup_end
    measurement = MeasurementConfig(**limit)
    assert find_warmup_end(run.spans, measurement, num_workers) == warmup_end


def test_metrics_within_metrics_and_arrays_become_numbers() -> None:
    logs = {
        "loss": np.float32(0.5),
        "compile_metrics": {"mae": 2, "accuracy": np.array([0.0, 1.0])},
    }
    assert flatten_logs(logs) == {"loss": 0.5, "mae": 2.0, "accuracy": 0.5}


def test_first_step_holds_all_that_fit_does_before_it_wherever_the_network_is_built() -> None:
    for built_ms in (0, 500):  # what is left of 1.1 s passes in the step
        run = Run()
        run.now_ms = built_ms
        run.clock.begin_epoch(1)
        run.now_ms = 1100
        run.steps(1, ends_epoch=True)
        run.now_ms += 300  # of validation
        run.clock.begin_epoch(2)
        run.now_ms += 10
        run.steps(1, ends_epoch=True)
        assert [span.seconds for span in run.spans] == pytest.approx([1.1, 0.010])


def test_span_ends_once_fifty_milliseconds_have_passed_with_one_synchronization() -> None:
    run = Run([0, 10, 10, 30, 59, 60, 61, 80, 130, 131])
    run.steps(
        6
        # seen at 10 | 30 59 60 (50 ms after 10: cut, read 61) | 80 130 (69 ms after 61: cut, read
        # 131)
    )
    assert run.cuts == [(1, 1, 1), (1, 2, 4), (1, 5, 6)]
    assert [span.seconds for span in run.spans] == pytest.approx([0.010, 0.051, 0.070])
    assert run.synchronizations == 3


def test_a_device_that_is_far_behind_the_host_is_waited_for_before_a_span_is_five_times_as_long() -> (
    None
):
    run = Run(warmup_steps=4)
    for _ in range(60):
        run.now_ms += 1.0  # in which the host gives a step out, and the device takes 20
        run.done_ms = max(run.done_ms, run.now_ms) + 20.0
        run.steps(1)
    steady = run.spans[2:]
    assert len(steady) >= 4
    assert all(0.2 <= span.seconds <= 0.27 for span in steady), "without a limit 50 steps, a second"


@pytest.mark.parametrize(
    ("readings", "config", "steps", "each", "cuts"),
    [
        ([0, 1, 2, 3, 4, 5, 6], {"clock": "step"}, 3, 1, [(1, 1, 1), (1, 2, 2), (1, 3, 3)]),
        ([0, 1, 2, 60, 61], {}, 2, 3, [(1, 1, 3), (1, 4, 6)]),  # every step of an execution counts
        # The warm-up ends at the boundary of a span: 1 | 2 3 | 4 5, seen at 6 and 60.
        (
            [0, 1, 2, 3, 4, 5, 6, 60, 61],
            {"warmup_steps": 3},
            5,
            1,
            [(1, 1, 1), (1, 2, 3), (1, 4, 5)],
        ),
    ],
)
def test_spans_are_cut(
    readings: list[float],
    config: Fields,
    steps: int,
    each: int,
    cuts: list[tuple[int, int, int]],
) -> None:
    run = Run(readings, **config)
    run.steps(steps, each=each)
    assert run.cuts == cuts


def test_several_workers_end_at_the_same_step_which_the_first_one_says() -> None:
    said = []  # by the first: after how many steps to ask again; 0: no more

    def train(step_ms: float, answer: Callable[[float], float]) -> tuple[list[int], Run]:
        asked = []

        def ask(own: float) -> float:
            run.now_ms += 1000.0  # which is in no span
            asked.append(run.clock.step)
            return answer(own)

        run = Run(None, ask, warmup_steps=2, seconds=60.0)
        assert run.train(step_ms) == run.spans[-1].last_step
        return asked, run

    def note(own: float) -> float:
        said.append(own)
        return own

    asked, first = train(100.0, note)
    answers = iter(said)
    assert train(130.0, lambda own: next(answers))[0] == asked
    assert asked[-1] < 604
    assert len(said) < 20
    assert sum(span.seconds for span in first.spans) / asked[-1] == pytest.approx(0.1)


def test_limit_of_steps_counts_those_after_the_warmup() -> None:
    run = Run([0, 1, 2, 3, 4, 5, 6, 7, 8], warmup_steps=2, steps=2)
    assert not run.steps(3)
    assert run.steps(1)
    assert run.cuts == [(1, 1, 1), (1, 2, 2), (1, 3, 4)]
    assert run.breakdown.opened[-2:] == ["steady", "callbacks"]


@pytest.mark.parametrize(("step_ms", "num_steps"), [(300, 5), (1500, 5), (10, 100)])
@pytest.mark.parametrize("has_workers", [False, True])
def test_a_run_limited_by_seconds_makes_the_least_number_of_steps(
    step_ms: int, num_steps: int, has_workers: bool
) -> None:
    run = Run(None, own_figure if has_workers else None, seconds=1.0, least_steps=5)
    num_made = run.train(step_ms) - 1  # beside the warm-up
    # Workers ask the first one at the end of a span, which may be a step later.
    assert num_steps <= num_made <= num_steps + (5 if has_workers else 0)


@pytest.mark.parametrize(("call_ms", "calls"), [(1500, 3), (9000, 2)])
def test_a_run_limited_by_seconds_has_a_speed_however_long_a_call_takes(
    call_ms: int, calls: int
) -> None:
    run = Run([call_ms * ((number + 1) // 2) for number in range(10)], seconds=2.0, warmup_steps=10)
    assert [run.steps(1, each=1000) for _ in range(calls)] == [False] * (calls - 1) + [True]
    assert run.clock.steady_steps_per_second == pytest.approx(1e6 / call_ms)


@pytest.mark.parametrize(
    ("epoch_steps", "seconds", "each", "num_steps"),
    [
        (7, 1.0, 1, 14),  # after 10 steps, 4 more make two whole epochs
        (5, 1.0, 1, 10),
        (18, 1.0, 1, 18),  # no other epoch has begun after 10 steps
        (25, 1.0, 1, 10),  # 15 more would take longer than the 10
        (37, 2.0, 1, 37),  # 17 more do not take longer than the 20
        (7, 1.0, 3, 15),  # steps come in threes
        (None, 1.0, 1, 10),
    ],
)
def test_a_run_limited_by_seconds_ends_with_whole_epochs_if_that_is_soon(
    epoch_steps: int | None, seconds: float, each: int, num_steps: int
) -> None:
    run = Run(epoch_steps=epoch_steps, seconds=seconds, warmup_steps=3)
    assert run.train(100.0, each=each) == 3 + num_steps


def test_workers_ask_the_first_after_half_of_the_steps_that_are_left() -> None:
    asked = []

    def ask(pause: float) -> float:
        asked.append(pause)
        return pause

    run = Run(None, ask, seconds=4.0)
    assert run.train(62.5) == 1 + 64
    # After 1 of 64 steps, 32, 48, 56 and 60; 2 and 0.5 are rounded down, to 1 at least.
    assert asked == [31, 16, 8, 4, 1, 1, 1, 1, 0]


def test_time_spent_in_a_restart_after_the_warmup_does_not_count_towards_the_limit() -> None:
    run = Run([0, 1, 2, 900, 1500, 1501, 1901, 1902], seconds=1.0)
    run.steps(1)
    run.clock.restart()  # at 900: the limit is 1900
    assert not run.steps(1)
    assert run.steps(1)


def test_a_first_execution_of_all_the_warmup_is_followed_by_steady_steps() -> None:
    run = Run([0, 1, 2, 3, 4], warmup_steps=3)
    run.steps(1, each=5)
    assert run.breakdown.opened == ["first_step", "steady"]
    assert run.clock.steady_steps_per_second is None
    run.steps(1, each=5, ends_epoch=True)
    assert run.clock.steady_steps_per_second == pytest.approx(5 / 0.002)  # from 2 to 4 ms


def test_steady_speed_counts_neither_the_warmup_nor_what_lies_between_epochs() -> None:
    run = Run([0, 100, 200, 203, 204, 1000, 1002, 1006])
    run.steps(2, ends_epoch=True)
    run.clock.begin_epoch(2)
    run.steps(1, ends_epoch=True)
    assert run.clock.steady_steps_per_second == pytest.approx(2 / 0.010)  # 4 ms and 6 ms


@pytest.mark.parametrize(
    ("num_samples", "is_whole", "logs", "mean"),
    [
        # Batches of 4, 4 and 2, with values 0.5, 1 and 0: 0.6 of the samples, 0.5 of the batches.
        (10, True, (0.5, 0.75, 0.6), 0.5),
        (8, True, (2.0, 1.5), 1.5),
        (3, True, (2.0, 1.5), 1.5),
        (10, False, (2.0,), None),  # where the logs are of one replica only
    ],
)
def test_mean_of_batches_weighs_a_short_last_one_like_the_others(
    num_samples: int, is_whole: bool, logs: tuple[float, ...], mean: float | None
) -> None:
    validation = Validation(num_samples, 4, is_whole=is_whole)
    for value in logs:
        validation.note({"loss": value})
    assert validation.batch_means() == (
        {} if mean is None else {"val_loss_batch_mean": pytest.approx(mean)}
    )


@pytest.mark.parametrize(
    ("is_followed", "batches_ahead", "ready_batches"), [(True, 2, 2), (True, 9, 3), (False, 2, 0)]
)
def test_an_epoch_s_training_validation_and_inference_each_have_their_own_time(
    is_followed: bool, batches_ahead: int, ready_batches: int
) -> None:
    now_ms = 0.0
    epochs = []

    def take(milliseconds: float) -> Fields:
        nonlocal now_ms
        now_ms += milliseconds
        return {"loss": 1.0}

    followed = {
        "validation": Validation(4, 4, is_whole=True),
        "evaluate_training": lambda: take(400),
    }
    readings = build_readings(
        SimpleNamespace(steps_per_execution=1),
        lambda span: None,
        measurement={"warmup_steps": 1, "clock": "step"},
        now=lambda: int(now_ms * MS),
        steps_per_epoch=3,
        on_epoch=epochs.append,
        on_first_step=lambda: take(700),  # a check of devices
        elapsed_before=10.0,
        batches_ahead=batches_ahead,
        **followed if is_followed else {},
    )
    readings.begin_training()
    readings.clock.begin_epoch(1)
    for batch, milliseconds in enumerate((2000, 100, 100)):
        take(milliseconds)
        readings.end_steps(batch)
    take(50)  # the validation
    readings.end_epoch(1, {"loss": 0.5})
    (record,) = epochs
    assert record.ready_batches == ready_batches  # before the clock of the next one begins
    assert record.epoch_seconds == pytest.approx(2.2)
    assert record.samples_per_second == pytest.approx(4 / 0.1)  # the first step is no steady one
    if is_followed:
        assert record.validation_seconds == pytest.approx(0.05)
        assert record.inference_seconds == pytest.approx(0.4)
        assert record.elapsed_seconds == pytest.approx(10.0 + 2.2 + 0.7 + 0.05 + 0.4)


def breakdown_at(*seconds: float) -> Breakdown:
    """Builds a time breakdown of a process whose clock shows these times.

    The process was asked for at 10 s.
    """
    readings = iter(seconds)
    return Breakdown(10 * 1000 * MS, now=lambda: int(next(readings) * 1000 * MS))


def test_time_with_no_entry_open_is_in_none() -> None:
    breakdown = breakdown_at(13, 15, 16, 18)
    breakdown.switch(None)
    breakdown.switch("data")
    record = breakdown.record()
    assert record.entries == {"startup": 3.0, "data": 1.0}
    assert record.elapsed_seconds - sum(record.entries.values()) == 2.0
    assert breakdown.record().entries == {"startup": 3.0, "data": 3.0}  # which is open still


def test_an_entry_within_another_interrupts_it() -> None:
    breakdown = breakdown_at(11, 12, 15, 16)
    breakdown.switch("callbacks")
    with breakdown.entry("validation"):
        pass
    assert breakdown.record().entries == {"startup": 1.0, "callbacks": 2.0, "validation": 3.0}
