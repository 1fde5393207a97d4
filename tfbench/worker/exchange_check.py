"""What steps over several devices are made of: some more of them after the training, each waited for, and traced."""

import math
import time
from collections.abc import Generator, Iterator
from typing import Any

from tfbench import backends
from tfbench.records.journal import plain_fields
from tfbench.records.placement import ExchangeCheck, StepParts
from tfbench.worker.prepared import Prepared

_SECONDS = 2.0  # that the traced steps take, about
_FEWEST, _MOST = 5, 100  # steps
_LONGEST_STEP = 3.0  # seconds, beyond which it would take too long


def check_exchange(prepared: Prepared, steps_per_second: float | None) -> None:
    """Times a few steps of all workers together, and what of each was spent in collectives.

    Not where steps are very long. What goes wrong is noted: the run is done, and must not be lost for its checks.

    The weights go on from where the training left them, which is over.

    Args:
        prepared: Its model is trained, over several devices.
        steps_per_second: Of the training; None: not known, and nothing is done.
    """
    backend, model, journal = backends.current(), prepared.model, prepared.journal
    # All workers must do as many: as many as the first one would.
    ((asked, *_), *_) = backend.gather_figures([_SECONDS * (steps_per_second or 0.0)])
    if asked < _SECONDS / _LONGEST_STEP:
        return
    journal.append("stage", name="timing what devices exchange")
    an_execution = int(model.steps_per_execution)
    num_steps = math.ceil(max(_FEWEST, min(_MOST, int(asked))) / an_execution) * an_execution
    waits: list[float] = []  # for each batch, of those that are drawn here: TensorFlow's are drawn within the step
    batches = prepared.build_batches()
    is_drawn_here = isinstance(batches, Iterator)
    if is_drawn_here:
        batches = _timed(batches, waits)
    seconds = [0.0]
    try:
        # Those that were ready before anyone waited for one tell nothing of the input.
        _fit(model, batches, min(num_steps, math.ceil((1 + sum(backend.most_ahead())) / an_execution) * an_execution))
        waits.clear()
        exchange = backend.trace_exchange(lambda: seconds.append(_fit(model, batches, num_steps)))
    except Exception as error:
        journal.append("note", text=f"what devices exchange was not timed: {type(error).__name__}: {error}")
        exchange = None
    figures = [seconds[-1] / num_steps, (exchange or 0.0) / num_steps, sum(waits) / num_steps]
    rows = backend.gather_figures([*figures, float(exchange is not None)])
    if not all(is_told for *_, is_told in rows):  # by every worker
        return
    parts = [
        StepParts(step_seconds=step, exchange_seconds=exchanged, input_seconds=waited if is_drawn_here else None)
        for step, exchanged, waited, _ in rows
    ]
    check = ExchangeCheck(num_steps=num_steps, workers=tuple(parts))
    journal.append("exchange_check", **plain_fields(exchange_check=check))


def _timed(batches: Iterator[Any], waits: list[float]) -> Generator[Any, None, None]:
    """Yields the same batches, and notes how long each took; a generator: Keras takes no other kind of iterator."""
    while True:
        start = time.perf_counter()
        batch = next(batches)
        waits.append(time.perf_counter() - start)
        yield batch


def _fit(model: Any, batches: Any, num_steps: int) -> float:
    """Does some steps, each of which is waited for, and returns the seconds that they took."""
    import keras

    synchronize = backends.current().synchronize
    times: list[float] = []

    class Waiting(keras.callbacks.CallbackList):  # type: ignore[misc]  # Keras has no types
        """Leaves the logs alone, which Keras would turn into numbers; here, since it is one of Keras's classes."""

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            times.append(time.perf_counter())

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            synchronize()
            times.append(time.perf_counter())

    callbacks = Waiting([], add_history=True, add_progbar=False, model=model, steps=num_steps)
    model.fit(batches, steps_per_epoch=num_steps, epochs=1, callbacks=callbacks, shuffle=False, verbose=0)
    return times[-1] - times[0]
