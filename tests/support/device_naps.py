"""A network whose step takes a nap on the device.

The host gives it out, and the result comes later.
"""

import os
import time
from typing import Any

import numpy as np

NAME = os.environ.get("KERAS_BACKEND", "tensorflow")
NAP_SECONDS = 0.02
NUM_FEATURES = 4
naps: list[float] = []  # that are over, by the clock


def build_slow_model(**compiled: Any) -> Any:
    """Builds a network whose forward pass takes a nap."""
    import keras

    class Nap(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            return nap(inputs)

    inputs = keras.Input((NUM_FEATURES,))
    model = keras.Model(inputs, keras.layers.Dense(3)(Nap()(inputs)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss=loss, **compiled)
    return model


def nap(inputs: Any) -> Any:
    """Returns its inputs after a nap in the computation itself.

    Gradients pass as if it were not there.
    """
    if NAME == "torch":
        if str(inputs.device.type) != "meta":
            _sleep()
        return inputs

    def sleep(values: Any) -> Any:
        _sleep()
        return np.asarray(values)

    if NAME == "tensorflow":
        import tensorflow as tf

        done = tf.ensure_shape(
            tf.numpy_function(sleep, [tf.stop_gradient(inputs)], inputs.dtype), inputs.shape
        )
        return inputs + tf.stop_gradient(done - inputs)
    import jax

    shape = jax.ShapeDtypeStruct(inputs.shape, inputs.dtype)
    slept = jax.pure_callback(sleep, shape, jax.lax.stop_gradient(inputs))
    return inputs + jax.lax.stop_gradient(slept - inputs)


def _sleep() -> None:
    time.sleep(NAP_SECONDS)
    naps.append(time.perf_counter())
