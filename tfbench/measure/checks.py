"""Reference measurements after a training.

Its input alone, its devices' peak, and what they exchange.
"""

import math
import time
from typing import Any

from tfbench import backends
from tfbench.backends.peak import Sizes, measure_peak
from tfbench.machine.facts import InputCheck
from tfbench.measure.prepared import Prepared
from tfbench.runs.placement_record import ExchangeCheck, StepParts
from tfbench.runs.record import ModelSummary
from tfbench.runs.spans import MAX_OTHER_SHARE
from tfbench.wording import shorten

# of drawing from the input pipeline alone, at least: a rate that it can keep up
_INPUT_SECONDS = 0.5
# for matrix products, and once more where they were slower than the training
_PEAK_SECONDS = (1.0, 4.0)
_EXCHANGE_SECONDS = 2.0  # that the traced steps take, about
_FEWEST_STEPS = 5
_MOST_STEPS = 100
_LONGEST_STEP = 3.0  # seconds, beyond which it would take too long


def check_limits(prepared: Prepared, steps_per_second: float | None) -> None:
    """Measures what the training is compared with.

    That is its input pipeline alone, and what its devices compute at most. Of several workers, the
    devices of others are not measured, so that there is no peak of all.
    """
    has_pipeline = not (prepared.training.data_on_device or prepared.splits.pipeline)
    pipeline = "the input pipeline and " if has_pipeline else ""
    prepared.begin_stage(f"checking {pipeline}the devices' peak")
    sample_flops = prepared.summary.training_flops_per_sample
    is_alone = prepared.resolved.placement.num_workers == 1
    try:
        if has_pipeline:
            prepared.record("input_check", input_check=check_input(prepared))
        if is_alone and sample_flops is not None and steps_per_second is not None:
            batch_flops = sample_flops * prepared.training.global_batch_size
            _check_peak(prepared, batch_flops * steps_per_second)
    except Exception as error:
        reason = backends.current().explain_out_of_memory(error)
        if reason is None:
            raise
        # The run itself is done, and must not be lost for its checks.
        prepared.note(f"the checks after the training were given up, for want of memory: {reason}")


def sizes_of_a_step(model: ModelSummary, batch_size: int) -> Sizes | None:
    """Returns the sizes of the product that does most of a network's work, for a batch.

    None where it is not known.
    """
    if not model.main_product:
        return None
    num_rows, common, num_columns = model.main_product
    return batch_size * num_rows, common, num_columns


def check_input(prepared: Prepared) -> InputCheck:
    """Draws batches from the training's input pipeline, and trains nothing meanwhile.

    Compiled code draws them, as in training. The batches that the pipeline has ready from the
    start, or in the making, are left out.
    """
    backend = backends.current()
    draw = backend.compile_draws(prepared.build_batches())
    draw(1)  # compiles
    draw(sum(backend.prefetch_capacity(prepared.training)))
    num_batches = 0
    count = 1
    start = time.perf_counter()
    while True:
        draw(count)
        num_batches += count
        seconds = time.perf_counter() - start
        if seconds >= _INPUT_SECONDS:
            return InputCheck(num_batches=num_batches, seconds=seconds)
        remaining = int(num_batches * (_INPUT_SECONDS / seconds - 1)) + 1
        count = max(1, min(num_batches, remaining))


def _check_peak(prepared: Prepared, needed: float) -> None:
    """Measures the devices' peak, and once more for longer where others disturbed it.

    A peak below `needed`, which the training computed per second, shows that, too.
    """
    batch_size = prepared.resolved.placement.per_replica_batch_size
    for seconds in _PEAK_SECONDS:
        peak = measure_peak(
            prepared.resolved.device_names,
            prepared.training.precision,
            seconds=seconds,
            own_sizes=sizes_of_a_step(prepared.summary, batch_size),
        )
        prepared.record("peak_check", peak_check=peak)
        if peak.flops_per_second >= needed and peak.other_share <= MAX_OTHER_SHARE:
            break


def check_exchange(prepared: Prepared, steps_per_second: float | None) -> None:
    """Times a few steps of all workers together, and what part of each went into collectives.

    Very long steps are not timed. Failures become notes: the run is done, and must not be lost for
    its checks. The weights go on from where the training left them.

    Args:
        prepared: Its model is trained, over several devices.
        steps_per_second: Of the training; None: not known, and nothing is done.
    """
    try:
        _time_exchange(prepared, steps_per_second)
    except OSError:  # of a full disk: the others must learn of it, and not wait
        raise
    except Exception as error:  # of another worker that is gone, which no worker can go on without
        _note_untimed(prepared, error)


def _time_exchange(prepared: Prepared, steps_per_second: float | None) -> None:
    backend = backends.current()
    model = prepared.model
    # All workers must do as many steps as the first one would.
    rows = backend.gather_figures([_EXCHANGE_SECONDS * (steps_per_second or 0.0)])
    wanted = rows[0][0]
    if wanted < _EXCHANGE_SECONDS / _LONGEST_STEP:
        return
    prepared.begin_stage("timing what devices exchange")
    execution_steps = int(model.steps_per_execution)

    def whole_executions(num: int) -> int:
        return math.ceil(num / execution_steps) * execution_steps

    num_steps = whole_executions(max(_FEWEST_STEPS, min(_MOST_STEPS, int(wanted))))
    # The first steps find batches that are ready, and are faster than others.
    num_ready = sum(backend.prefetch_capacity(prepared.training))
    num_untimed = whole_executions(1 + num_ready)
    batches = prepared.build_batches()
    seconds = [0.0]
    try:
        _fit(model, batches, min(num_steps, num_untimed))
        exchange = backend.trace_exchange(lambda: seconds.append(_fit(model, batches, num_steps)))
    except Exception as error:
        if backend.explain_lost_worker(error):
            raise
        _note_untimed(prepared, error)
        exchange = None  # the other workers wait for this
    figures = [seconds[-1] / num_steps, (exchange or 0.0) / num_steps]
    rows = backend.gather_figures([*figures, float(exchange is not None)])
    workers = []
    for step, exchanged, was_traced in rows:
        if not was_traced:
            return
        workers.append(StepParts(step_seconds=step, exchange_seconds=exchanged))
    check = ExchangeCheck(num_steps=num_steps, workers=tuple(workers))
    prepared.record("exchange_check", exchange_check=check)


def _note_untimed(prepared: Prepared, error: Exception) -> None:
    reason = backends.current().explain_lost_worker(error) or f"{type(error).__name__}: {error}"
    prepared.note(f"what devices exchange was not timed: {shorten(reason, 400)}")


def _fit(model: Any, batches: Any, num_steps: int) -> float:
    """Trains some steps, waits for each, and returns the seconds that they took."""
    import keras

    synchronize = backends.current().synchronize
    times: list[float] = []

    class Waiting(keras.callbacks.CallbackList):  # type: ignore[misc]  # Keras has no types
        """Leaves the logs alone, which Keras would turn into numbers.

        Defined here, since Keras is imported late.
        """

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            times.append(time.perf_counter())

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            synchronize()
            times.append(time.perf_counter())

    callbacks = Waiting([], add_history=True, add_progbar=False, model=model, steps=num_steps)
    model.fit(
        batches, steps_per_epoch=num_steps, epochs=1, callbacks=callbacks, shuffle=False, verbose=0
    )
    return times[-1] - times[0]
