"""Passes on to the clock what Keras does while it trains, and records the epochs."""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tfbench import backends
from tfbench.backends.profiling import Call
from tfbench.measure.span_clock import SpanClock
from tfbench.metrics import LEARNING_METRICS
from tfbench.models.structure import foreign_model
from tfbench.runs.batch_sizes import BatchSizes
from tfbench.runs.record import EpochRecord
from tfbench.runs.spans import samples_per_second, steady_spans

_NS = 1e-9

Logs = Mapping[str, Any]
Figures = dict[str, float]


@dataclasses.dataclass(kw_only=True)
class FitReadings:
    """What is read while `model.fit` runs; every step comes through here."""

    clock: SpanClock  # told of every execution, and its time breakdown of validations
    model: Any  # to be trained
    steps_per_epoch: int  # after which an epoch ends
    batch_sizes: BatchSizes
    # at the end of each, validation included; says whether to stop there
    on_epoch: Callable[[EpochRecord], bool]
    # called once, after the first execution; its time is in no span
    on_first_step: Call
    # whether the last execution is cut to the steps left of an epoch, as Keras's own is not
    cuts_last_execution: bool = False
    batches_ahead: int = 0  # that are made ahead, at most, while none is taken
    validation: "Validation | None" = None  # that follows each epoch
    # of the training samples in inference mode; None: not wanted
    evaluate_training: Callable[[], Logs] | None = None
    is_of_bytes: bool = False  # tokens are, so that a loss / ln 2 is in bits a byte
    resets_state: bool = False  # of recurrent layers that carry it, to zero as each epoch begins
    # as the steady part begins; None: there is none to read
    read_energy: Call | None = None
    elapsed_before: float = 0.0  # seconds that a run which is gone on with had taken
    # Without a type, so that the dataclass has no such fields.
    _train_start = 0
    _training_end = 0
    _in_warmup = True

    def begin_training(self) -> None:
        """Notes that `fit` is called now.

        Keras builds a network under a strategy before `on_train_begin`, and any other in its first
        step. From here on, all of them have done the same when that step is done.
        """
        self._train_start = self.clock.now()
        self.clock.begin_training()

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
        clock = self.clock
        validated_ns = clock.now()
        clock.breakdown.switch("callbacks")
        values = dict(logs)
        if self.evaluate_training:
            with clock.breakdown.entry("validation"):
                for key, value in self.evaluate_training().items():
                    values[f"inference_{key}"] = value
        time_ns = clock.now()
        validation_seconds = None
        if self.validation:
            values |= self.validation.batch_means()
            validation_seconds = (validated_ns - self._training_end) * _NS
        spans = clock.epoch_spans
        num_steps = sum(span.num_steps for span in spans)
        is_followed = self.validation or self.evaluate_training
        steady = steady_spans(
            spans,
            warmup_end=clock.warmup_end,
            short_step=self.batch_sizes.short_step,
        )
        record = EpochRecord(
            epoch=epoch,
            num_steps=num_steps,
            epoch_seconds=sum(span.seconds for span in spans),
            validation_seconds=validation_seconds,
            elapsed_seconds=self.elapsed_before + (time_ns - self._train_start) * _NS,
            samples_per_second=samples_per_second(steady, self.batch_sizes),
            finished_at=time.time(),
            inference_seconds=(time_ns - validated_ns) * _NS if self.evaluate_training else None,
            ready_batches=min(num_steps, self.batches_ahead) if is_followed else 0,
            has_loss="loss" in values,
            # A missing figure becomes None.
            **{name: _finite(values.get(name, math.nan)) for name in LEARNING_METRICS},
            metrics=self._other_metrics(logs),
        )
        if self.on_epoch(record):
            self.model.stop_training = True

    def _other_metrics(self, logs: Logs) -> dict[str, float | None]:
        """Returns the network's own metrics, and bits per byte where tokens are bytes."""
        values = {name: value for name, value in logs.items() if name not in LEARNING_METRICS}
        if self.is_of_bytes:
            for prefix in ("", "val_"):
                if f"{prefix}loss" in logs:
                    values[f"{prefix}bits_per_byte"] = logs[f"{prefix}loss"] / math.log(2)
        return {name: _finite(value) for name, value in values.items()}


class CarriedState:
    """The state that recurrent layers carry from batch to batch; a model may have none.

    Evaluations start from zero, as Chainer's copy does.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._kept: list[Any] = []
        self._zeros: list[Any] = []  # made once: reading a state waits for its device

    def reset(self) -> None:
        """Sets the state to zero."""
        if not self._zeros:
            self._zeros = [np.zeros_like(values) for values in self._read()]
        self._assign(self._zeros)

    def set_aside(self) -> None:
        """Keeps the state of the training, and sets it to zero."""
        self._kept = self._read()
        self.reset()

    def put_back(self) -> None:
        """Sets the state to what was kept."""
        self._assign(self._kept)

    def _read(self) -> list[Any]:
        backend = backends.current()
        return [backend.to_numpy(state) for state in backend.carried_states(self._model)]

    def _assign(self, values: list[Any]) -> None:
        states = backends.current().carried_states(self._model)
        for state, value in zip(states, values, strict=True):
            state.assign(value)


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
    # Keras's validation of a network that comes compiled goes on from the training's state.
    starts_anew = not foreign_model.comes_compiled(readings.model)

    class TimedCallbackList(keras.callbacks.CallbackList):  # type: ignore[misc]  # Keras has no types
        """Passes every step on to the readings, and leaves all else to Keras.

        Defined here, since Keras is imported late.
        """

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            super().on_epoch_begin(epoch, logs)
            if readings.resets_state:
                state.reset()
            readings.clock.begin_epoch(epoch + 1)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            readings.end_steps(batch)

        def on_test_begin(self, logs: Any = None) -> None:
            super().on_test_begin(logs)
            if starts_anew:
                state.set_aside()

        def on_test_end(self, logs: Any = None) -> None:
            super().on_test_end(logs)
            if starts_anew:
                state.put_back()

        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            if readings.validation:
                readings.validation.note(logs)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            values = flatten_logs(logs or {})
            readings.end_epoch(epoch + 1, values)
            super().on_epoch_end(epoch, values)

    return TimedCallbackList(
        [],
        add_history=True,
        add_progbar=False,
        model=readings.model,
        steps=readings.steps_per_epoch,
    )


class Validation:
    """The latest logs of a validation, and a mean from them that weighs every batch alike.

    Keras's logs after a batch are means over all samples so far. Only the last batch may be short,
    so the last two logs are enough: the first is the mean over equal batches, and the difference
    is the short batch's. Nothing is computed until the end, so that no batch waits for the device.

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
        self._logs: tuple[Logs, Logs] = ({}, {})

    def note(self, logs: Logs | None) -> None:
        """Keeps the logs of the latest two batches, as they are."""
        self._logs = (self._logs[1], dict(logs or {}))

    def batch_means(self) -> Figures:
        """Returns `val_loss_batch_mean` and the like; nothing where they cannot be known."""
        if not self._is_whole:
            return {}
        before, after = map(flatten_logs, self._logs)
        full = self._num_full
        short = self._num_short
        full_samples = full * self._batch_size
        means = {}
        for key, mean in after.items():
            if short and full:
                full_mean = before[key]
                short_sum = mean * (full_samples + short) - full_mean * full * self._batch_size
                mean = (full_mean * full + short_sum / short) / (full + 1)
            means[f"val_{key}_batch_mean"] = mean
        return means


def flatten_logs(logs: Logs) -> Figures:
    """Returns the logs of a step as numbers.

    A user's own step may give metrics within metrics, or arrays.
    """
    flat: Figures = {}
    for key, value in logs.items():
        if isinstance(value, Mapping):
            flat |= flatten_logs(value)
        else:
            flat[key] = _to_number(value)
    return flat


def _to_number(value: Any) -> float:
    if not getattr(value, "shape", ()):
        return float(value)
    from keras import ops

    return float(ops.convert_to_numpy(value).mean())


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
