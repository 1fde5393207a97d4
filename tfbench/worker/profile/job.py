"""The measured job of a profile: where a step's time goes, or its framework's trace of it.

Functions take turns: each round calls every one of them some times in a row, so that what the machine does in between
slows all alike. Each round begins with the same weights. Training on the same few batches for long would end in
gradients so small that a processor handles them many times as slowly as those of real training.
"""

import math
import time
from collections.abc import Callable

from tfbench import backends
from tfbench.backends.peak import measure_bandwidth, measure_peak
from tfbench.backends.profiling import sum_up
from tfbench.records.journal import Journal, files_folder, plain_fields
from tfbench.records.profile import CALLS, COPY_CALL, TRACE_FOLDER, EpochCheck
from tfbench.records.run import RunRequest
from tfbench.schema import to_plain
from tfbench.worker.breakdown import Breakdown
from tfbench.worker.limit_checks import sizes_of_a_step
from tfbench.worker.prepared import Prepared, prepare
from tfbench.worker.profile.interleaving import TimedTurns, time_calls

_MAX_LAYERS = 250  # above, a whole step is not compiled a second time: 500 layers take 50 s on two cores
_PEAK_SECONDS = 1.0
_EPOCH_SHARE = 0.4  # of the time for rounds; an epoch that takes longer is measured in part
_FAST_PIPELINE = 0.3  # share of a step that making a batch may take for the step never to wait for it
_TRACED_STEPS, _TRACED_SECONDS = 20, 3.0


def run_profile(
    request: RunRequest, journal: Journal, breakdown: Breakdown, wait_for_start: Callable[[], None]
) -> None:
    """Finds out what the request asks for, and writes what was read to the journal.

    Args:
        request: The run; `request.profile` is there.
        journal: Receives the records of `run_benchmark` but for those of a training, and "profile_*" records.
        breakdown: As of `run_benchmark`.
        wait_for_start: As of `run_benchmark`.

    Raises:
        TfbenchError: As of `run_benchmark`.
    """
    prepared = prepare(request, journal, breakdown, wait_for_start)
    asked = request.profile
    journal.append("started")
    meter = prepared.measure_usage()
    with (
        backends.current().broken_samples_named(prepared.splits.source),
        prepared.resolved.scope(),
    ):
        if asked and asked.kind == "step":
            _profile_step(prepared, asked.seconds)
        else:
            _trace_steps(prepared)
    journal.append("trained", **plain_fields(usage=meter.finish()))
    prepared.note_shared_machine()
    journal.append("breakdown", **plain_fields(breakdown=breakdown.record()))
    journal.append("finished")


def _profile_step(prepared: Prepared, seconds: float) -> None:
    backend, model, training = backends.current(), prepared.model, prepared.training
    journal, breakdown = prepared.journal, prepared.breakdown
    num_prefetched, num_in_the_making = backend.most_ahead()
    # Calls after which batches come no faster than they are made: those that waited are used up.
    num_draining = 1 + num_prefetched + num_in_the_making
    breakdown.switch("first_step")
    batches = backend.build_batches(prepared.build_batches(), prepared.resolved)
    step = backend.build_step(model, batches, prepared.resolved)
    problem = step.why_not_apart
    layers = step.describe_layers(training.global_batch_size)
    journal.append("profile_layers", layers=[to_plain(layer) for layer in layers], problem=problem)
    journal.append("stage", name="compiling the step, phase by phase")
    functions = TimedTurns()
    is_long = step.num_layers > _MAX_LAYERS and training.compiler_used != "eager"
    with backend.watch() as watch:
        for name in CALLS[:-1] if is_long else CALLS:
            functions.add(name, step.call(name), is_traced=not problem and name != "dispatch")
        watch.verify(prepared.resolved, model)
    if is_long:
        journal.append(
            "note",
            text=f"with {step.num_layers} uses of a layer, compiling takes long: the whole step is compiled as Keras's "
            "own alone, so that the update of the weights is not told apart from the rest of that.",
        )
    functions.add("keras", *step.keras_call(batches.iterator(), waits=True))
    functions.add("pipeline", batches.draw_call(), num_before=num_draining)
    pipeline, limit = batches.pipeline(), _FAST_PIPELINE * functions.estimate("keras")
    num_before = num_draining if functions.estimate("pipeline") > limit else 1
    functions.add("full", *step.keras_call(pipeline), num_before=num_before)
    # Not of the pipeline itself: one turn would use up the batches that it has ready, and then time their making.
    functions.add("take", step.take_call(batches.iterator(num_ahead=num_prefetched)))
    if copy := batches.copy_call():
        functions.add(COPY_CALL, copy)
    breakdown.switch("steady")
    journal.append("stage", name="timing phases and layers in turns")
    for one in functions.rounds(seconds, step.restore):
        journal.append("profile_round", round=to_plain(one))
    step.restore()
    breakdown.switch("callbacks")
    journal.append("stage", name="training, for the time of an epoch")
    journal.append(
        "profile_epoch",
        **plain_fields(epoch=_train_epoch(prepared, functions.estimate("full"), _EPOCH_SHARE * seconds)),
    )
    breakdown.switch("checks")
    journal.append("stage", name="measuring what the devices compute and move at most")
    own_sizes = sizes_of_a_step(prepared.summary, training.global_batch_size)
    names = prepared.resolved.device_names
    peak = measure_peak(backend, names, training.precision, seconds=_PEAK_SECONDS, own_sizes=own_sizes)
    journal.append("peak_check", **plain_fields(peak_check=peak))
    bandwidth = measure_bandwidth(backend, names, seconds=_PEAK_SECONDS)
    journal.append("profile_bandwidth", **plain_fields(bandwidth=bandwidth))
    breakdown.switch(None)


def _trace_steps(prepared: Prepared) -> None:
    """Traces Keras's own steps, from a pipeline that runs, once they are steady."""
    journal, breakdown = prepared.journal, prepared.breakdown
    breakdown.switch("first_step")
    journal.append("stage", name="compiling the step")
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
    journal.append("stage", name="tracing steady steps")
    took: list[float] = []
    folder = files_folder(journal.path) / TRACE_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    found = backend.trace(lambda: took.append(time_calls(backend.mark_steps(call), num_calls)), folder)
    operations, waits = (sum_up(one, num_calls * num_steps) for one in (found.operations, found.waits))
    journal.append(
        "profile_operations",
        operations=[to_plain(one) for one in operations],
        host_waits=[to_plain(one) for one in waits],
        num_steps=num_calls * num_steps,
        step_seconds=took[0] / num_steps,
    )
    breakdown.switch(None)


def _train_epoch(prepared: Prepared, step_seconds: float, seconds: float) -> EpochCheck:
    """Trains with Keras's `fit`, a whole epoch unless that takes too long."""
    import keras

    model, steps_per_epoch = prepared.model, prepared.steps_per_epoch
    execution = model.steps_per_execution
    num_steps = min(steps_per_epoch, max(execution, int(seconds / step_seconds) // execution * execution))
    times: list[float] = []  # at its begin, and at its end, when Keras has waited for the device

    def note_time(*_: object) -> None:
        times.append(time.perf_counter())

    callback = keras.callbacks.LambdaCallback(on_epoch_begin=note_time, on_epoch_end=note_time)
    model.fit(
        prepared.build_batches(), epochs=1, steps_per_epoch=num_steps, shuffle=False, verbose=0, callbacks=[callback]
    )
    num_steps = math.ceil(num_steps / execution) * execution  # Keras always does whole executions
    return EpochCheck(num_steps=num_steps, seconds=times[1] - times[0], steps_per_epoch=steps_per_epoch)
