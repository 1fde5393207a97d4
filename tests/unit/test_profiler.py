"""How functions take turns in a profile, with a clock that moves when they are called; what is trained for losses."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profile_runs import build_profile_request
from tfbench import benchmark, distribution, profiler, timed_turns
from tfbench.errors import DeviceError
from tfbench.journal import Journal
from tfbench.measure.ledger import Ledger
from tfbench.timed_turns import TimedTurns


class Clock:
    """Stands still but for the calls that it hands out."""

    def __init__(self) -> None:
        self.now = 0.0
        self.called: list[str] = []

    def perf_counter(self) -> float:
        return self.now

    def call(self, name: str, seconds: float) -> Any:
        def call() -> None:
            self.called.append(name)
            self.now += seconds

        return call


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    for module in (profiler, timed_turns):
        monkeypatch.setattr(module, "time", found)
    monkeypatch.setattr(distribution, "synchronize", lambda: None)
    return found


def rounds_of(functions: Any, seconds: float, restored: list[int] | None = None) -> list[Any]:
    kept = [] if restored is None else restored
    return list(functions.rounds(seconds, lambda: kept.append(1)))


def test_a_turn_takes_as_many_calls_as_fill_it_after_one_that_is_not_timed(clock: Clock) -> None:
    functions = TimedTurns()
    functions.add("short", clock.call("short", 0.01), num_steps=2)
    functions.add("long", clock.call("long", 0.5))
    clock.called.clear()
    one = rounds_of(functions, 0.1)[0]
    assert one.seconds == pytest.approx({"short": 0.005, "long": 0.5})  # of a step
    assert clock.called[:6] == ["short"] * 5 + ["long"]  # 0.04 s, and once before; a long call needs nothing before
    assert functions.estimate("short") == pytest.approx(0.005)


def test_rounds_go_forwards_and_backwards_from_the_same_weights_until_the_time_is_over(clock: Clock) -> None:
    functions = TimedTurns()
    functions.add("a", clock.call("a", 0.3))
    functions.add("b", clock.call("b", 0.7))
    clock.called.clear()
    restored: list[int] = []
    assert len(rounds_of(functions, 6.5, restored)) == 7
    assert clock.called == list("abba" * 3 + "ab")
    assert len(restored) == 7


@pytest.mark.parametrize(("seconds", "num_rounds"), [(48.0, 5), (18.0, 3), (20.0, 4), (1.0, 3)])
def test_there_are_five_rounds_or_three_where_they_take_twice_the_time_and_long(
    clock: Clock, seconds: float, num_rounds: int
) -> None:
    functions = TimedTurns()
    functions.add("a", clock.call("a", 12.0))
    assert len(rounds_of(functions, seconds)) == num_rounds


def test_batches_that_wait_are_used_up_before_each_turn_however_long_a_call_takes(clock: Clock) -> None:
    functions = TimedTurns()
    functions.add("full", clock.call("full", 0.5), num_before=7)
    assert len(clock.called) == 7 + 1  # before the first reading, too
    clock.called.clear()
    assert len(rounds_of(functions, 0.1)) == 5
    assert len(clock.called) == 5 * (7 + 1)


def test_a_function_that_was_taken_out_has_no_turn(clock: Clock) -> None:
    functions = TimedTurns()
    for name in ("a", "b", "b/step"):
        functions.add(name, clock.call(name, 1.0), is_traced=name == "b/step")
    functions.discard("b")
    assert [set(one.seconds) for one in rounds_of(functions, 0.1)] == [{"a"}] * 5


class Trained:
    """A step whose training function returns running means of given losses, an execution of steps at a time."""

    def __init__(self, losses: list[float], steps_per_execution: int = 1) -> None:
        self.model = self
        self.steps_per_execution = steps_per_execution
        self.restored = 0
        self._losses, self._done = losses, 0

    def restore(self) -> None:
        self.restored += 1

    def reset_metrics(self) -> None:
        self._done = 0

    def train_function(self, iterator: object) -> dict[str, float]:
        self._done += self.steps_per_execution
        return {"loss": sum(self._losses[: self._done]) / self._done}


def test_losses_are_those_of_each_execution_and_the_weights_are_put_back(clock: Clock) -> None:
    step = Trained([4.0, 2.0, 3.0, 1.0, 9.0], steps_per_execution=2)
    assert profiler._train_losses(step, None, 5) == pytest.approx([3.0, 2.0])
    assert step.restored == 2
    nan = Trained([1.0, float("nan"), 1.0])
    assert profiler._train_losses(nan, None, 3) == [1.0, None, None]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "ValueError"),
        ("must be 1.\nReceived: 2", "must be 1."),
        ('in user code:\n\n    File "a.py", line 3, in f\n        g()\n\n    ValueError: no g\n', "ValueError: no g"),
        (
            "Graph execution error:\n\nDetected at node a\nno kernel for it\n\t [[{{node a}}]] [Op:b]",
            "no kernel for it",
        ),
        (
            "Exception encountered when calling Dense.call().\n\n\x1b[1mno such axis\x1b[0m\n\nArguments: 1",
            "no such axis",
        ),
    ],
)
def test_a_variant_that_failed_says_in_one_line_of_what(text: str, reason: str) -> None:
    assert profiler._reason_of(ValueError(text)) == reason


def test_a_step_of_two_replicas_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = SimpleNamespace(placement=SimpleNamespace(num_replicas=2, devices=("cpu:0", "cpu:1")))
    monkeypatch.setattr(distribution, "resolve", lambda *_: two)
    for name in ("_import_keras", "_set_process_wide"):
        monkeypatch.setattr(benchmark, name, lambda _: None)
    journal = Journal(tmp_path / "journal.jsonl")
    with pytest.raises(DeviceError, match=r"Received: cpu:0, cpu:1\. Name one of them; `tfbench scale`"):
        benchmark.prepare(build_profile_request(), journal, Ledger(0), lambda: None)
    journal.close()
