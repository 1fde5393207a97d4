"""The measured job of a profile: where a step's time goes, or its framework's trace of it.

Functions take turns: each round calls every one of them some times in a row, so that what the
machine does in between slows all alike. Each round begins with the same weights. Training on the
same few batches for long would end in gradients so small that a processor handles them many times
as slowly as those of real training.
"""

import dataclasses
import itertools
import time
from collections.abc import Iterator, Sequence

from tfbench import backends
from tfbench.backends.peak import measure_bandwidth, measure_peak
from tfbench.backends.profiling import Call, ProfiledBatches, StepCalls, apportion, sum_up
from tfbench.measure.breakdown import Breakdown
from tfbench.measure.checks import sizes_of_a_step
from tfbench.measure.prepared import Prepared, prepare
from tfbench.profiles.readings import CALLS, TRACE_FOLDER, ProfileRound, TracedCall
from tfbench.recipe.backend_support import why_layers_merge
from tfbench.runs.record import RunRequest
from tfbench.schema import to_plain
from tfbench.store.journal import Journal, files_folder

_TURN_SECONDS = 0.04  # for which a function is called in a row
_MAX_CALLS = 200
_MIN_ROUNDS = 5
_FEWEST_ROUNDS = 3  # where rounds take so long that five would be out of all proportion
_SLOW_SECONDS = 0.3  # of a call from which one is enough to show how long it takes
_LONG_SECONDS = 30.0  # of rounds, from which fewer will do
_PEAK_SECONDS = 1.0
# share of a step that making a batch may take for the step never to wait for it
_FAST_PIPELINE = 0.3
_TRACED_STEPS = 20
_TRACED_SECONDS = 3.0


def run_profile(
    request: RunRequest, journal: Journal, breakdown: Breakdown, wait_for_start: Call
) -> None:
    """Finds out what the request asks for, and writes what was read to the journal.

    Args:
        request: The run; `request.profile` is there.
        journal: Receives the records of `run_benchmark` but for those of a training, and
            "profile_*" records.
        breakdown: As of `run_benchmark`.
        wait_for_start: As of `run_benchmark`.

    Raises:
        TfbenchError: As of `run_benchmark`.
    """
    prepared = prepare(request, journal, breakdown, wait_for_start)
    profile = request.profile
    journal.append("started")
    meter = prepared.measure_usage()
    with (
        backends.current().broken_samples_named(prepared.splits.source),
        prepared.resolved.scope(),
    ):
        if profile and profile.kind == "step":
            _profile_step(prepared, profile.seconds)
        else:
            _trace_steps(prepared)
    prepared.record("trained", usage=meter.finish())
    prepared.note_shared_machine()
    prepared.finish()


def _profile_step(prepared: Prepared, seconds: float) -> None:
    """Times a step's phases and layers, and the devices' limits."""
    breakdown = prepared.breakdown
    breakdown.switch("first_step")
    backend = backends.current()
    batches = backend.build_batches(prepared.build_batches(), prepared.resolved)
    step = backend.build_step(prepared.model, batches, prepared.resolved)
    functions = _compile_functions(prepared, step, batches)
    breakdown.switch("steady")
    prepared.begin_stage("timing phases and layers")
    for profile_round in functions.rounds(seconds, step.restore):
        prepared.record("profile_round", round=profile_round)
    step.restore()
    breakdown.switch("checks")
    prepared.begin_stage("measuring peak compute and bandwidth")
    training = prepared.training
    names = prepared.resolved.device_names
    peak = measure_peak(
        names,
        training.precision,
        seconds=_PEAK_SECONDS,
        own_sizes=sizes_of_a_step(prepared.summary, training.global_batch_size),
    )
    prepared.record("peak_check", peak_check=peak)
    bandwidth = measure_bandwidth(names, seconds=_PEAK_SECONDS)
    prepared.record("profile_bandwidth", bandwidth=bandwidth)
    breakdown.switch(None)


def _compile_functions(
    prepared: Prepared, step: StepCalls, batches: ProfiledBatches
) -> "TimedTurns":
    """Compiles the step up to each phase, Keras's own step, and what feeds it."""
    from tfbench.models.structure.flops import describe_calls

    backend = backends.current()
    training = prepared.training
    problem = why_layers_merge(training.backend, training.compiler_used)
    layers = []
    if not problem:
        layers = describe_calls(
            step.calls, prepared.model.trainable_variables, training.global_batch_size
        )
    plain_layers = [to_plain(layer) for layer in layers]
    prepared.journal.append("profile_layers", layers=plain_layers, problem=problem)
    prepared.begin_stage("compiling the step, phase by phase")
    functions = TimedTurns()
    with backend.watch() as watch:
        for name in CALLS:
            functions.add(name, step.call(name), is_traced=not problem and name != "dispatch")
        watch.verify(prepared.resolved, prepared.model)
    num_prefetched, num_in_the_making = backend.prefetch_capacity(training)
    # Calls that use up the batches that wait; later ones come no faster than they are made.
    num_draining = 1 + num_prefetched + num_in_the_making
    step_seconds = functions.add("keras", *step.keras_call(batches.iterator(), waits=True))
    making_seconds = functions.add("pipeline", batches.draw_call(), num_before=num_draining)
    num_before = num_draining if making_seconds > _FAST_PIPELINE * step_seconds else 1
    functions.add("full", *step.keras_call(batches.pipeline()), num_before=num_before)
    # Not from the pipeline itself: one turn would use up the batches that it has ready, and then
    # time their making.
    functions.add("take", step.take_call(batches.iterator(num_ahead=num_prefetched)))
    return functions


def _trace_steps(prepared: Prepared) -> None:
    """Traces Keras's own steps, fed by the pipeline, once they are steady."""
    breakdown = prepared.breakdown
    breakdown.switch("first_step")
    prepared.begin_stage("compiling the step")
    backend = backends.current()
    batches = backend.build_batches(prepared.build_batches(), prepared.resolved)
    step = backend.build_step(prepared.model, batches, prepared.resolved)
    call, num_steps = step.keras_call(batches.pipeline())
    call()
    backend.synchronize()
    breakdown.switch("warmup")
    seconds = time_calls(call, 3)
    num_calls = max(1, min(_TRACED_STEPS // num_steps, int(_TRACED_SECONDS / seconds)))
    breakdown.switch("steady")
    prepared.begin_stage("tracing steady steps")
    call_seconds = list[float]()
    numbers = itertools.count()
    folder = files_folder(prepared.journal.path) / TRACE_FOLDER
    folder.mkdir(parents=True, exist_ok=True)

    def marked_call() -> None:
        with backend.step_mark(next(numbers)):  # however many steps it does
            call()

    def work() -> None:
        call_seconds.append(time_calls(marked_call, num_calls))

    trace = backend.trace(work, folder)
    num_traced = num_calls * num_steps
    operations = sum_up(trace.operations, num_traced)
    prepared.journal.append(
        "profile_operations",
        operations=[to_plain(operation) for operation in operations],
        num_steps=num_traced,
        step_seconds=call_seconds[0] / num_steps,
    )
    breakdown.switch(None)


@dataclasses.dataclass(frozen=True, slots=True)
class _Function:
    call: Call
    num_steps: int  # that one call does
    num_calls: int  # that make a turn long enough to be timed
    num_before: int  # calls before each turn
    is_traced: bool


class TimedTurns:
    """Functions that take turns, each called often enough to be timed."""

    def __init__(self) -> None:
        self._functions: dict[str, _Function] = {}

    def add(
        self,
        name: str,
        call: Call,
        num_steps: int = 1,
        *,
        is_traced: bool = False,
        num_before: int = 1,
    ) -> float:
        """Adds a function, after calls that compile it and show how long it takes.

        Args:
            name: Of the function.
            call: Calls it once.
            num_steps: That one call does.
            is_traced: Whether it is to be traced, too.
            num_before: Calls before each turn.

        Returns:
            About how many seconds a step takes, as first seen.
        """
        for _ in range(num_before):
            call()
        backends.current().synchronize()
        seconds = time_calls(call, 1)
        if seconds < _SLOW_SECONDS:
            seconds = min(time_calls(call, 1), time_calls(call, 2))
        num_calls = max(1, min(_MAX_CALLS, round(_TURN_SECONDS / seconds)))
        self._functions[name] = _Function(call, num_steps, num_calls, num_before, is_traced)
        return seconds / num_steps

    def rounds(self, seconds: float, restore: Call) -> Iterator[ProfileRound]:
        """Yields rounds until the time is over, but a few at least.

        Every second round goes through the functions backwards.

        Args:
            seconds: After which no more rounds are begun.
            restore: Called before each round, since functions may have trained for long in the
                round before.
        """
        start = time.perf_counter()
        names = list(self._functions)
        for number in itertools.count(1):
            restore()
            yield self._round(names if number % 2 else names[::-1])
            elapsed = time.perf_counter() - start
            is_long = elapsed >= max(2 * seconds, _LONG_SECONDS)
            enough = _FEWEST_ROUNDS if is_long else _MIN_ROUNDS
            if elapsed >= seconds and number >= enough:
                return

    def _round(self, order: Sequence[str]) -> ProfileRound:
        seconds = {}
        traced = {}
        for name in order:
            function = self._functions[name]
            call = function.call
            # The first call after another function is slower, by 15 % at times.
            for _ in range(function.num_before):
                call()
            backends.current().synchronize()
            seconds[name] = time_calls(call, function.num_calls) / function.num_steps
            if function.is_traced:
                traced[name] = _trace_call(call, function.num_calls)
        return ProfileRound(seconds=seconds, traced=traced)


def _trace_call(call: Call, num: int) -> TracedCall:
    backend = backends.current()
    call_seconds: list[float] = []
    trace = backend.trace(lambda: call_seconds.append(time_calls(call, num)))
    parts = apportion(trace.operations, backend.part_of)
    active = trace.active_seconds
    return TracedCall(
        seconds=call_seconds[0],
        parts={name: seconds / num for name, seconds in parts.items()},
        active_seconds=None if active is None else active / num,
        on_device=trace.on_device,
    )


def time_calls(call: Call, num: int) -> float:
    """Returns the mean seconds of some calls in a row, until the device has done them all."""
    synchronize = backends.current().synchronize
    start = time.perf_counter()
    for _ in range(num):
        call()
    synchronize()
    return (time.perf_counter() - start) / num
