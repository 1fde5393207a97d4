"""A network that naps in every step, or whose pipeline naps for every batch.

How long each nap takes is known: each writes its own start and end to a file, on the clock that
tfbench reads. That is the truth that reports are held against.
"""

import os
import struct
import time
from pathlib import Path
from typing import Any

PAIR = struct.Struct("dd")  # start and end of a nap, in seconds


def build_model(
    spec: Any,
    *,
    log: str = "",
    nap_seconds: float = 0.0,
    backward_nap_seconds: float = 0.0,
    input_log: str = "",
    input_nap_seconds: float = 0.0,
) -> Any:
    """Builds a small dense network that naps once a step and replica.

    On request it plants naps in the input pipeline, too.

    Args:
        spec: Of the data.
        log: File that naps of steps write themselves to; without it no step naps.
        nap_seconds: How long one takes.
        backward_nap_seconds: How long a layer's gradient naps, instead of the step; it writes
            itself to `log`.
        input_log: File that naps of the pipeline write themselves to.
        input_nap_seconds: How much longer the making of a batch takes.

    Input shape: (batch, ...), float32; flattened.
    Output shape: (batch, num_classes), logits.
    """
    import keras
    import tensorflow as tf

    class Nap(keras.layers.Layer):
        """Returns what it is given, later."""

        def call(self, inputs: Any) -> Any:
            zero = tf.numpy_function(_nap, [nap_seconds, log], tf.float32)
            zero.set_shape([])
            return inputs + tf.stop_gradient(zero)

    class SlowGradient(keras.layers.Layer):
        """Returns what it is given; its gradient, too, but later."""

        def call(self, inputs: Any) -> Any:
            @tf.custom_gradient
            def slow(x: Any) -> Any:
                def go_back(gradient: Any) -> Any:
                    # Of the gradient, so that it can begin only once that is there.
                    zero = tf.numpy_function(
                        lambda _: _nap(backward_nap_seconds, log.encode()), [gradient], tf.float32
                    )
                    zero.set_shape([])
                    return gradient + zero

                return tf.identity(x), go_back

            return slow(inputs)

    if input_nap_seconds:
        _slow_input_down(input_nap_seconds, input_log)
    layers = [keras.Input(spec.input_shape), keras.layers.Flatten()]
    if backward_nap_seconds:
        layers += [keras.layers.Dense(64, name="first"), SlowGradient(name="slow")]
    elif log:
        layers.append(Nap())
    return keras.Sequential([*layers, keras.layers.Dense(16), keras.layers.Dense(spec.num_classes)])


def read_naps(log: Path) -> list[tuple[float, float]]:
    """Returns start and end of each nap, in the order in which they ended."""
    return list(PAIR.iter_unpack(log.read_bytes()))


def _nap(seconds: Any, log: bytes) -> Any:
    import numpy as np

    start = time.perf_counter()
    time.sleep(float(seconds))
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, PAIR.pack(start, time.perf_counter()))
    os.close(file)
    return np.float32(0)


def _slow_input_down(seconds: float, log: str) -> None:
    """Lets the making of every batch take longer. The pipeline has no place for this.

    It is built after the model.
    """
    import tensorflow as tf

    from tfbench.backends.tensorflow import input_pipeline

    finish = input_pipeline.finish

    def finish_later(*arguments: Any) -> Any:
        zero = tf.numpy_function(_nap, [seconds, log], tf.float32)
        zero.set_shape([])
        return finish(*arguments) + zero

    input_pipeline.finish = finish_later
