"""How functions take turns, with a clock that moves when they are called."""

from typing import Any

import pytest

from tfbench.backends.tensorflow.backend import BACKEND
from tfbench.measure import step_timing
from tfbench.measure.step_timing import TimedTurns


class Clock:
    """A clock that only its calls, and waiting for their device work, advance."""

    def __init__(self) -> None:
        self.now = self.busy_until = 0.0
        self.called = []

    def perf_counter(self) -> float:
        return self.now

    def call(self, name: str, seconds: float, device_seconds: float = 0.0) -> Any:
        def call() -> None:
            self.called.append(name)
            self.now += seconds
            self.busy_until = max(self.now, self.busy_until) + device_seconds

        return call

    def synchronize(self) -> None:
        self.now = max(self.now, self.busy_until)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(step_timing, "time", found)
    monkeypatch.setattr(BACKEND, "synchronize", found.synchronize)
    return found


def rounds_of(functions: Any, seconds: float) -> list[Any]:
    return list(functions.rounds(seconds, lambda: None))


def test_a_turn_takes_as_many_calls_as_fill_it_after_one_that_is_not_timed(clock: Clock) -> None:
    functions = TimedTurns()
    assert functions.add("short", clock.call("short", 0.01), num_steps=2) == pytest.approx(0.005)
    functions.add("long", clock.call("long", 0.5))
    clock.called.clear()
    one = rounds_of(functions, 0.1)[0]
    assert one.seconds == pytest.approx({"short": 0.005, "long": 0.5})  # of a step
    assert clock.called[:7] == ["short"] * 5 + ["long"] * 2  # 0.04 s or a call, and one before


def test_rounds_go_forwards_and_backwards_from_the_same_weights_until_the_time_is_over(
    clock: Clock,
) -> None:
    functions = TimedTurns()
    functions.add("a", clock.call("a", 0.3))
    functions.add("b", clock.call("b", 0.7))
    clock.called.clear()
    restored = []
    assert len(list(functions.rounds(13.0, lambda: restored.append(1)))) == 7
    assert clock.called == list("aabbbbaa" * 3 + "aabb")  # one call before each that is timed
    assert len(restored) == 7


@pytest.mark.parametrize(("seconds", "num_rounds"), [(48.0, 5), (18.0, 3), (20.0, 4), (1.0, 3)])
def test_there_are_five_rounds_or_three_where_they_take_twice_the_time_and_long(
    clock: Clock, seconds: float, num_rounds: int
) -> None:
    functions = TimedTurns()
    functions.add("a", clock.call("a", 6.0))  # twice a round
    assert len(rounds_of(functions, seconds)) == num_rounds


def test_batches_that_wait_are_used_up_before_each_turn_however_long_a_call_takes(
    clock: Clock,
) -> None:
    functions = TimedTurns()
    functions.add("full", clock.call("full", 0.5), num_before=7)
    assert len(clock.called) == 7 + 1  # before the first reading, too
    clock.called.clear()
    assert len(rounds_of(functions, 0.1)) == 5
    assert len(clock.called) == 5 * (7 + 1)
