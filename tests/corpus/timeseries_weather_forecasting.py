"""Forecasts the temperature some hours ahead with an LSTM on past weather."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
from keras import layers

HOURS = 1100
TRAIN_HOURS = 800
PAST = 48
AHEAD = 6
SAMPLING_RATE = 2
BATCH_SIZE = 32


def build_model():
    inputs = keras.Input((PAST // SAMPLING_RATE, 3))
    x = layers.LSTM(16)(inputs)
    outputs = layers.Dense(1)(x)
    model = keras.Model(inputs, outputs)
    model.compile(optimizer=keras.optimizers.Adam(learning_rate=2e-3), loss="mse")
    return model


def make_weather():
    """Hours of temperature, air pressure and wind, scaled by the training part."""
    rng = np.random.default_rng(31)
    hours = np.arange(HOURS)
    pressure = np.cumsum(rng.normal(0, 0.2, HOURS))
    pressure -= np.linspace(0, pressure[-1], HOURS)
    wind = np.abs(rng.normal(3, 1, HOURS)) + np.abs(np.gradient(pressure))
    day = 6 * np.sin(2 * np.pi * hours / 24)
    temperature = 10 + day + pressure - 0.3 * wind + rng.normal(0, 0.3, HOURS)
    weather = np.stack([temperature, pressure, wind], axis=1)
    mean = weather[:TRAIN_HOURS].mean(axis=0)
    spread = weather[:TRAIN_HOURS].std(axis=0)
    return ((weather - mean) / spread).astype("float32")


def make_windows(weather, **kwargs):
    """Windows of the past, each with the temperature that follows AHEAD hours later."""
    return keras.utils.timeseries_dataset_from_array(
        weather[: -(PAST + AHEAD)],
        weather[PAST + AHEAD :, :1],
        sequence_length=PAST // SAMPLING_RATE,
        sampling_rate=SAMPLING_RATE,
        batch_size=BATCH_SIZE,
        **kwargs,
    )


def load_data():
    weather = make_weather()
    training = make_windows(weather[:TRAIN_HOURS], shuffle=True, seed=14)
    return training, make_windows(weather[TRAIN_HOURS:])


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    training, validation = load_data()
    history = model.fit(training, validation_data=validation, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)
