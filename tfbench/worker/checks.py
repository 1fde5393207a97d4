"""Reference measurements after a training.

Its input alone, its devices' peak, and what they exchange.
"""

import math
import time
from typing import Any

from tfbench import backends
from tfbench.analysis.run.warnings import MAX_OTHER_SHARE
from tfbench.backends.peak import Sizes, measure_peak
from tfbench.records.journal import plain_fields
from tfbench.records.machine import InputCheck
from tfbench.records.placement import ExchangeCheck, StepParts
from tfbench.records.run import ModelSummary
from tfbench.wording import shorten
from tfbench.worker.prepared import Prepared

# of drawing from the input pipeline alone, at least: a rate that it can keep up
_INPUT_SECONDS = 0.5
_PEAK_SECONDS = (
    1.0,
    4.0,
)  # for matrix products, and once more where they were slower than the training
_EXCHANGE_SECONDS = 2.0  # that the traced steps take, about
# steps
_FEWEST = 5
_MOST = 100
_LONGEST_STEP = 3.0  # seconds, beyond which it would take too long


def check_limits(prepared: Prepared, steps_per_second: float | None) -> None:
    """Measures what the training is compared with.

    Its input pipeline alone, and what its devices compute at most.

    Of several workers, the devices of others are not measured, so that there is no peak of all.
    """
    training = prepared.training
    model = prepared.summary
    journal = prepared.journal
    has_pipeline = not training.data_on_device
    has_peak = (
        prepared.resolved.placement.num_workers == 1 and model.training_flops_per_sample is not None
    )
    journal.append(
        "stage",
        name=f"checking {'the input pipeline and ' if has_pipeline else ''}the devices' peak",
    )
    try:
        if has_pipeline:
            journal.append("input_check", **plain_fields(input_check=check_input(prepared)))
        if has_peak and steps_per_second is not None:
            needed = (
                (model.training_flops_per_sample or 0)
                * training.global_batch_size
                * steps_per_second
            )
            _check_peak(prepared, needed)
    except Exception as error:
        reason = backends.current().explain_out_of_memory(error)
        if reason is None:
            raise
        # The run itself is done, and must not be lost for its checks.
        journal.append(
            "note",
            text=f"the checks after the training were given up, for want of memory: {reason}",
        )


def sizes_of_a_step(model: ModelSummary, batch_size: int) -> Sizes | None:
    """Returns the sizes of the product that most of a network's work is in, for a batch.

    None where it is not known.
    """
    if not model.main_product:
        return None
    num_rows, common, num_columns = model.main_product
    return batch_size * num_rows, common, num_columns


def check_input(prepared: Prepared) -> InputCheck:
    """Draws batches from the training's input pipeline, with nothing trained beside it.

    As training draws them, in compiled code. The batches that the pipeline has ready from the
    start, or in the making, are left out.
    """
    backend = backends.current()
    draw = backend.compile_draws(prepared.build_batches())
    draw(1)  # compiles
    draw(sum(backend.prefetch_capacity))
    num_batches = 0
    count = 1
    start = time.perf_counter()
    while True:
        draw(count)
        num_batches += count
        seconds = time.perf_counter() - start
        if seconds >= _INPUT_SECONDS:
            return InputCheck(num_batches=num_batches, seconds=seconds)
        count = max(1, min(num_batches, int(num_batches * (_INPUT_SECONDS / seconds - 1)) + 1))


def _check_peak(prepared: Prepared, needed: float) -> None:
    """Measures the devices' peak, and again if it is below `needed`.

    `needed` is what the training computed per second.
    """
    resolved = prepared.resolved
    for (
        seconds
    ) in _PEAK_SECONDS:  # again where others disturbed it, as a peak below what was reached shows
        peak = measure_peak(
            resolved.device_names,
            prepared.training.precision,
            seconds=seconds,
            own_sizes=sizes_of_a_step(prepared.summary, resolved.placement.per_replica_batch_size),
        )
        prepared.journal.append("peak_check", **plain_fields(peak_check=peak))
        if peak.flops_per_second >= needed and peak.other_share <= MAX_OTHER_SHARE:
            break


def check_exchange(prepared: Prepared, steps_per_second: float | None) -> None:
    """Times a few steps of all workers together, and what of each was spent in collectives.

    Not where steps are very long. What goes wrong is noted: the run is done, and must not be lost
    for its checks.

    The weights go on from where the training left them, which is over.

    Args:
        prepared: Its model is trained, over several devices.
        steps_per_second: Of the training; None: not known, and nothing is done.
    """
    try:
        _time_exchange(prepared, steps_per_second)
    except OSError:  # of a full disk: the others must hear of it, and not wait
        raise
    except Exception as error:  # of another worker that is gone, which no worker can go on without
        _note_untimed(prepared, error)


def _time_exchange(prepared: Prepared, steps_per_second: float | None) -> None:
    backend = backends.current()
    model = prepared.model
    journal = prepared.journal
    # All workers must do as many: as many as the first one would.
    (asked, *_), *_ = backend.gather_figures([_EXCHANGE_SECONDS * (steps_per_second or 0.0)])
    if asked < _EXCHANGE_SECONDS / _LONGEST_STEP:
        return
    journal.append("stage", name="timing what devices exchange")
    an_execution = int(model.steps_per_execution)
    num_steps = math.ceil(max(_FEWEST, min(_MOST, int(asked))) / an_execution) * an_execution
    batches = prepared.build_batches()
    seconds = [0.0]
    try:
        # Without the batches that are ready before anyone waits for one: these steps are faster
        # than others.
        _fit(
            model,
            batches,
            min(
                num_steps,
                math.ceil((1 + sum(backend.prefetch_capacity)) / an_execution) * an_execution,
            ),
        )
        exchange = backend.trace_exchange(lambda: seconds.append(_fit(model, batches, num_steps)))
    except Exception as error:
        if backend.explain_lost_worker(error):
            raise
        _note_untimed(prepared, error)
        exchange = None  # as the others are told, who wait for it
    figures = [seconds[-1] / num_steps, (exchange or 0.0) / num_steps]
    rows = backend.gather_figures([*figures, float(exchange is not None)])
    if not all(is_told for *_, is_told in rows):  # by every worker
        return
    workers = tuple(
        StepParts(step_seconds=step, exchange_seconds=exchanged) for step, exchanged, _ in rows
    )
    check = ExchangeCheck(num_steps=num_steps, workers=workers)
    journal.append("exchange_check", **plain_fields(exchange_check=check))


def _note_untimed(prepared: Prepared, error: Exception) -> None:
    reason = backends.current().explain_lost_worker(error) or f"{type(error).__name__}: {error}"
    prepared.journal.append(
        "note", text=f"what devices exchange was not timed: {shorten(reason, 400)}"
    )


def _fit(model: Any, batches: Any, num_steps: int) -> float:
    """Does some steps, each of which is waited for, and returns the seconds that they took."""
    import keras

    synchronize = backends.current().synchronize
    times: list[float] = []

    class Waiting(keras.callbacks.CallbackList):  # type: ignore[misc]  # Keras has no types
        """Leaves the logs alone, which Keras would turn into numbers.

        Here, since it is one of Keras's classes.
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
