"""What Keras's `fit` is told, and what it waits for.

The clock's callback list in a real training.
"""

import collections
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src import backend  # what Keras turns logs into numbers with
from tensorflow.python.framework import ops

from prepared import build_readings
from tfbench.measure.recorder import Validation, build_callbacks
from tfbench.runs.record import EpochRecord

STEPS = 12
EPOCHS = 2


class Training:
    """A small training under the clock, whose spans are cut every four steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads = collections.Counter()  # of tensors, by where the training was
        self.spans = []
        self.epochs = []
        self.synchronized = 0
        self._where = "before"
        for name in ("numpy", "__array__", "__float__"):
            monkeypatch.setattr(
                ops._EagerTensorBase, name, self._counting(getattr(ops._EagerTensorBase, name))
            )
        monkeypatch.setattr(backend, "convert_to_numpy", self._counting(backend.convert_to_numpy))
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(
            "sgd", loss, metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
        )
        inputs = np.ones((4, 2), np.float32)
        batches = tf.data.Dataset.from_tensors((inputs, np.array([0, 1, 2, 0])))
        readings = build_readings(
            model,
            self.spans.append,
            measurement={"warmup_steps": 1, "min_span_seconds": 0.035},
            synchronize=self._synchronize,
            now=lambda: 10_000_000 * readings.clock.step,  # 10 ms a step
            steps_per_epoch=STEPS,
            on_epoch=self._on_epoch,
            validation=Validation(12, 4, is_whole=True),
        )
        callbacks = build_callbacks(readings)
        self._watch(callbacks)
        self.history = model.fit(
            batches.repeat(),
            steps_per_epoch=STEPS,
            epochs=EPOCHS,
            validation_data=batches.repeat(3),
            callbacks=callbacks,
            shuffle=False,
            verbose=0,
        ).history

    def _counting(self, method: Any) -> Any:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.reads[self._where] += 1
            return method(*args, **kwargs)

        return counted

    def _watch(self, callbacks: Any) -> None:
        places = {
            "on_epoch_begin": "steps",
            "on_test_begin": "validation",
            "on_test_end": "epoch end",
            "on_epoch_end": "epoch end",
        }

        def watched(method: Any, place: str) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                self._where = "callback"
                method(*args, **kwargs)
                self._where = place

            return call

        for name, place in places.items():
            setattr(callbacks, name, watched(getattr(callbacks, name), place))
        end = callbacks.on_train_batch_end

        def on_train_batch_end(batch: int, logs: Any = None) -> None:
            end(batch, logs)
            if batch == STEPS - 1:
                self._where = "between"

        callbacks.on_train_batch_end = on_train_batch_end

    def _synchronize(self) -> None:
        self.synchronized += 1

    def _on_epoch(self, record: EpochRecord) -> bool:
        self.epochs.append(record)
        return False


def test_steps_and_batches_of_a_validation_are_waited_for_only_where_a_span_or_a_validation_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Training(monkeypatch)
    assert [(span.first_step, span.last_step) for span in run.spans[:3]] == [(1, 1), (2, 5), (6, 9)]
    assert run.synchronized == len(run.spans) < EPOCHS * STEPS
    assert (
        run.reads["steps"] == 0
    )  # no loss was turned into a number, for which the device would be waited for
    assert run.reads["validation"] <= 2 * EPOCHS  # loss and accuracy of all, at its end
    assert (
        run.reads["callback"] + run.reads["epoch end"] > 0
    )  # the count is of what Keras reads with
    # All the same, an epoch has its own loss and accuracy.
    assert [record.loss for record in run.epochs] == pytest.approx(run.history["loss"])
    assert [record.val_accuracy for record in run.epochs] == pytest.approx(
        run.history["val_accuracy"]
    )
    assert [record.val_loss_batch_mean for record in run.epochs] == pytest.approx(
        run.history["val_loss"]
    )
    assert run.epochs[1].loss < run.epochs[0].loss  # of each epoch anew
