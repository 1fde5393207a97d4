"""Tells the clock of what Keras does while it trains, and records the epochs.

Computes no statistics.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tfbench import backends
from tfbench.analysis.run.spans import samples_per_second, steady_spans
from tfbench.metrics import LEARNING_METRICS
from tfbench.records.run import EpochRecord
from tfbench.worker.span_clock import SpanClock

_NS = 1e-9

Logs = Mapping[str, float]


@dataclasses.dataclass(kw_only=True)
class FitReadings:
    """What is read while `model.fit` runs. Every step comes through here.

    What is not needed is not called.
    """

    clock: SpanClock  # told of every execution, and its time breakdown of validations
    model: Any  # to be trained
    steps_per_epoch: int  # after which an epoch ends
    global_batch_size: int  # samples of a step
    on_epoch: Callable[
        [EpochRecord], bool
    ]  # at the end of each, validation included; says whether to stop there
    on_first_step: Callable[
        [], None
    ]  # called once, after the first execution; its time is in no span
    # to the steps that are left of an epoch, which Keras's own is not
    cuts_last_execution: bool = False
    batches_ahead: int = 0  # that are made ahead, at most, while none is taken
    validation: "Validation | None" = None  # that follows each epoch
    # of the training samples in inference mode; None: not wanted
    evaluate_training: Callable[[], Logs] | None = None
    is_of_bytes: bool = False  # tokens are, so that a loss / ln 2 is in bits a byte
    resets_state: bool = False  # of recurrent layers that carry it, to zero as each epoch begins
    # as the steady part begins; None: there is none to read
    read_energy: Callable[[], None] | None = None
    elapsed_before: float = 0.0  # seconds that a run which is gone on with had taken
    _train_start: int = dataclasses.field(default=0, init=False)
    _training_end: int = dataclasses.field(default=0, init=False)
    _in_warmup: bool = dataclasses.field(default=True, init=False)

    def begin_training(self) -> None:
        """Notes that training begins now."""
        self._train_start = self.clock.now()

    def end_steps(self, batch: int) -> None:
        """Takes in that an execution was dispatched.

        `batch`, from 0, is its last one in the epoch.
        """
        is_first = self.clock.step == 0
        ends_epoch = batch + 1 >= self.steps_per_epoch
        too_many = max(0, batch + 1 - self.steps_per_epoch) if self.cuts_last_execution else 0
        is_over = self.clock.end_steps(
            int(self.model.steps_per_execution) - too_many, ends_epoch=ends_epoch
        )
        if is_over:
            self.model.stop_training = True
        if is_first:
            self.clock.breakdown.switch("callbacks")
            self.on_first_step()
            self.clock.restart()
        if self.read_energy and self._in_warmup and self.clock.is_steady:
            self._in_warmup = False
            self.clock.breakdown.switch("callbacks")
            self.read_energy()
            self.clock.restart()  # the reading is in no span
        if ends_epoch:
            self.clock.breakdown.switch("validation" if self.validation else "callbacks")
        self._training_end = self.clock.now()

    def end_epoch(self, epoch: int, logs: Logs) -> None:
        """Records an epoch, counted from 1, and stops the training if that is wanted.

        `logs` are all of Keras's.
        """
        validated_ns = self.clock.now()
        self.clock.breakdown.switch("callbacks")
        inference = {}
        if self.evaluate_training:
            with self.clock.breakdown.entry("validation"):
                inference = {
                    f"inference_{key}": value for key, value in self.evaluate_training().items()
                }
        time_ns = self.clock.now()
        spans = self.clock.epoch_spans
        num_steps = sum(span.num_steps for span in spans)
        is_followed = self.validation or self.evaluate_training
        bits = (
            {"bits_per_byte": "loss", "val_bits_per_byte": "val_loss"} if self.is_of_bytes else {}
        )
        own = {name: value for name, value in logs.items() if name not in LEARNING_METRICS}
        own |= {name: logs[loss] / math.log(2) for name, loss in bits.items() if loss in logs}
        values = {**logs, **inference, **(self.validation.batch_means() if self.validation else {})}
        record = EpochRecord(
            epoch=epoch,
            num_steps=num_steps,
            epoch_seconds=sum(span.seconds for span in spans),
            validation_seconds=(
                (validated_ns - self._training_end) * _NS if self.validation else None
            ),
            elapsed_seconds=self.elapsed_before + (time_ns - self._train_start) * _NS,
            samples_per_second=samples_per_second(
                steady_spans(spans, warmup_steps=self.clock.config.warmup_steps),
                self.global_batch_size,
            ),
            finished_at=time.time(),
            inference_seconds=(time_ns - validated_ns) * _NS if self.evaluate_training else None,
            ready_batches=min(num_steps, self.batches_ahead) if is_followed else 0,
            **{
                name: _finite(values.get(name, math.nan)) for name in LEARNING_METRICS
            },  # what is missing becomes None
            metrics={name: _finite(value) for name, value in own.items()},
        )
        if self.on_epoch(record):
            self.model.stop_training = True


class CarriedState:
    """The state that recurrent layers carry from batch to batch.

    Evaluations start from zero, as Chainer's copy does.

    Harmless for a model without one.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._kept: list[Any] = []
        self._zeros: list[Any] = []  # made once: reading a state waits for its device

    def reset(self) -> None:
        """Sets it to zero."""
        states = self._states()
        self._zeros = self._zeros or [
            np.zeros_like(backends.current().to_numpy(state)) for state in states
        ]
        for state, zeros in zip(states, self._zeros, strict=True):
            state.assign(zeros)

    def set_aside(self) -> None:
        """Keeps that of the training, and sets it to zero."""
        self._kept = [backends.current().to_numpy(state) for state in self._states()]
        self.reset()

    def put_back(self) -> None:
        """Sets it to what was kept."""
        for state, values in zip(self._states(), self._kept, strict=True):
            state.assign(values)

    def _states(self) -> list[Any]:
        return backends.current().carried_states(self._model)


def build_callbacks(readings: FitReadings) -> Any:
    """Builds the callback list that `model.fit` is given.

    A list, not a callback: Keras's own list turns the logs into numbers after every batch, for
    which it waits for the device. This one is called in the training thread as soon as a step is
    dispatched, and leaves the logs as they are; Keras computes those of an epoch from the metrics
    at its end.

    Args:
        readings: Told of every execution and epoch.
    """
    import keras

    state = CarriedState(readings.model)

    class TimedCallbackList(keras.callbacks.CallbackList):  # type: ignore[misc]  # Keras has no types
        """Tells the readings of every step, and leaves all else to Keras.

        Here, since it is one of Keras's classes.
        """

        def on_train_begin(self, logs: Any = None) -> None:
            super().on_train_begin(logs)
            readings.begin_training()

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            super().on_epoch_begin(epoch, logs)
            if readings.resets_state:
                state.reset()
            readings.clock.begin_epoch(epoch + 1)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            readings.end_steps(batch)

        def on_test_begin(self, logs: Any = None) -> None:
            super().on_test_begin(logs)
            state.set_aside()

        def on_test_end(self, logs: Any = None) -> None:
            super().on_test_end(logs)
            state.put_back()

        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            if readings.validation:
                readings.validation.note(logs)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            values = flatten_logs(logs or {})
            readings.end_epoch(epoch + 1, values)
            super().on_epoch_end(epoch, values)

    steps = readings.steps_per_epoch
    return TimedCallbackList(
        [], add_history=True, add_progbar=False, model=readings.model, steps=steps
    )


class Validation:
    """A validation in the making.

    From Keras's running means to a mean that weighs every batch alike.

    Keras's logs after a batch are means over all samples so far. The last batch alone may be short,
    so the last two are enough: those before it are the mean over equal batches, and the difference
    is the short one's. Nothing is computed until the end, so that no batch waits for the device.

    Args:
        num_samples: Of the validation set.
        batch_size: Of a full batch, over all replicas.
        is_whole: Whether the logs after a batch are of all samples so far; with several replicas
            they are not.
    """

    def __init__(self, num_samples: int, batch_size: int, *, is_whole: bool) -> None:
        self._num_full, self._num_short = divmod(num_samples, batch_size)
        self._batch_size = batch_size
        self._is_whole = is_whole
        self._logs: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})

    def note(self, logs: Mapping[str, Any] | None) -> None:
        """Keeps the logs of the latest two batches, as they are."""
        self._logs = (self._logs[1], dict(logs or {}))

    def batch_means(self) -> dict[str, float]:
        """Returns `val_loss_batch_mean` and the like; nothing where they cannot be known."""
        if not self._is_whole:
            return {}
        before, after = map(flatten_logs, self._logs)
        if not self._num_short or not self._num_full:
            return {f"val_{key}_batch_mean": value for key, value in after.items()}
        full = self._num_full
        short = self._num_short
        means = {}
        for key, of_all in after.items():
            of_full = before[key]
            of_short = (
                of_all * (full * self._batch_size + short) - of_full * full * self._batch_size
            ) / short
            means[f"val_{key}_batch_mean"] = (of_full * full + of_short) / (full + 1)
        return means


def flatten_logs(logs: Mapping[str, Any]) -> dict[str, float]:
    """Returns the logs of a step as numbers.

    One of the user's own may give metrics within metrics, or arrays.
    """
    flat: dict[str, float] = {}
    for key, value in logs.items():
        flat |= flatten_logs(value) if isinstance(value, Mapping) else {key: _to_number(value)}
    return flat


def _to_number(value: Any) -> float:
    if not getattr(value, "shape", ()):
        return float(value)
    from keras import ops

    return float(ops.convert_to_numpy(value).mean())


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
