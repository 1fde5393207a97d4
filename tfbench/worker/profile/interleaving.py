"""Functions that take turns, so that what the machine does in between slows all of them alike."""

import dataclasses
import itertools
import time
from collections.abc import Iterator, Sequence

from tfbench import backends
from tfbench.backends.profiling import Call, apportion
from tfbench.records.profile import ProfileRound, TracedCall

_TURN_SECONDS = 0.04  # for which a function is called in a row
_MAX_CALLS = 200
_MIN_ROUNDS, _FEWEST_ROUNDS = 5, 3  # the latter where rounds take so long that five would be out of all proportion
_SLOW_SECONDS = 0.3  # of a call from which one is enough to tell how long it takes
_LONG_SECONDS = 30.0  # of rounds, from which fewer will do


@dataclasses.dataclass(frozen=True, slots=True)
class _Function:
    call: Call
    num_steps: int  # that one call does
    num_calls: int  # that make a turn long enough to be timed
    num_before: int  # calls before each turn
    is_traced: bool
    estimate: float  # seconds of a step, as first seen


class TimedTurns:
    """Functions that take turns, with the number of calls that makes a turn long enough to be timed."""

    def __init__(self) -> None:
        self._functions: dict[str, _Function] = {}

    def add(self, name: str, call: Call, num_steps: int = 1, *, is_traced: bool = False, num_before: int = 1) -> None:
        """Adds a function, after calls that compile it and tell how long it takes.

        Args:
            name: Of the function.
            call: Calls it once.
            num_steps: That one call does.
            is_traced: Whether it is to be traced, too.
            num_before: Calls before each turn.
        """
        for _ in range(num_before):
            call()
        backends.current().synchronize()
        seconds = time_calls(call, 1)
        if seconds < _SLOW_SECONDS:
            seconds = min(time_calls(call, 1), time_calls(call, 2))
        num_calls = max(1, min(_MAX_CALLS, round(_TURN_SECONDS / seconds)))
        self._functions[name] = _Function(call, num_steps, num_calls, num_before, is_traced, seconds / num_steps)

    def estimate(self, name: str) -> float:
        """Returns about how many seconds a step takes, as first seen."""
        return self._functions[name].estimate

    def rounds(self, seconds: float, restore: Call) -> Iterator[ProfileRound]:
        """Yields rounds until the time is over, some at least; every second one goes through the functions backwards.

        Args:
            seconds: After which no more rounds are begun.
            restore: Called before each round; functions may have trained for long in the one before.
        """
        start = time.perf_counter()
        for number in itertools.count(1):
            restore()
            yield self._round(list(self._functions) if number % 2 else list(reversed(self._functions)))
            elapsed = time.perf_counter() - start
            is_long = elapsed >= max(2 * seconds, _LONG_SECONDS)
            enough = _FEWEST_ROUNDS if is_long else _MIN_ROUNDS
            if elapsed >= seconds and number >= enough:
                return

    def _round(self, order: Sequence[str]) -> ProfileRound:
        seconds, traced = {}, {}
        for name in order:
            one = self._functions[name]
            for _ in range(one.num_before):  # the first after another function is slower, by 15 % at times
                one.call()
            backends.current().synchronize()
            seconds[name] = time_calls(one.call, one.num_calls) / one.num_steps
            if one.is_traced:
                traced[name] = _trace_call(one.call, one.num_calls)
        return ProfileRound(seconds=seconds, traced=traced)


def _trace_call(call: Call, num: int) -> TracedCall:
    took: list[float] = []
    found = backends.current().trace(lambda: took.append(time_calls(call, num)))
    parts = apportion(found.operations, backends.current().part_of)
    active = found.active_seconds
    return TracedCall(
        seconds=took[0],
        parts={name: seconds / num for name, seconds in parts.items()},
        active_seconds=None if active is None else active / num,
        on_device=found.on_device,
    )


def time_calls(call: Call, num: int) -> float:
    """Returns the mean seconds of some calls in a row, until the device has done them all."""
    synchronize = backends.current().synchronize
    start = time.perf_counter()
    for _ in range(num):
        call()
    synchronize()
    return (time.perf_counter() - start) / num
