"""Trains a character-level encoder and decoder to write out numbers as words."""

BACKENDS = ("tensorflow", "jax", "torch")

import keras
import numpy as np
from keras import layers

UNITS = 32
BATCH_SIZE = 32
SAMPLES = 400
DIGITS = "zero one two three four five six seven eight nine".split()
INPUT_CHARACTERS = " 0123456789"
START, END = "<", ">"
TARGET_CHARACTERS = " " + START + END + "".join(sorted(set("".join(DIGITS))))
INPUT_LENGTH = 3
TARGET_LENGTH = INPUT_LENGTH * 6 + 1


def build_model():
    # The encoder keeps only its last states.
    encoder_inputs = keras.Input((None, len(INPUT_CHARACTERS)), name="encoder")
    _, state_h, state_c = layers.LSTM(UNITS, return_state=True)(encoder_inputs)

    # The decoder starts from them and predicts the next character at each step.
    decoder_inputs = keras.Input((None, len(TARGET_CHARACTERS)), name="decoder")
    decoder = layers.LSTM(UNITS, return_sequences=True, return_state=True)
    x, _, _ = decoder(decoder_inputs, initial_state=[state_h, state_c])
    outputs = layers.Dense(len(TARGET_CHARACTERS), activation="softmax")(x)

    model = keras.Model([encoder_inputs, decoder_inputs], outputs)
    model.compile(optimizer="rmsprop", loss="categorical_crossentropy", metrics=["accuracy"])
    return model


def one_hot(texts, characters, length):
    encoded = np.zeros((len(texts), length, len(characters)), "float32")
    for i, text in enumerate(texts):
        for t, character in enumerate(text.ljust(length)):
            encoded[i, t, characters.index(character)] = 1.0
    return encoded


def load_data():
    rng = np.random.default_rng(60)
    numbers = [str(number) for number in rng.integers(0, 1000, SAMPLES)]
    words = [" ".join(DIGITS[int(digit)] for digit in number) for number in numbers]
    encoder_input = one_hot(numbers, INPUT_CHARACTERS, INPUT_LENGTH)
    # The target is one character ahead of the input of the decoder.
    decoder_input = one_hot([START + text for text in words], TARGET_CHARACTERS, TARGET_LENGTH)
    decoder_target = one_hot([text + END for text in words], TARGET_CHARACTERS, TARGET_LENGTH)
    return {
        "x": [encoder_input, decoder_input],
        "y": decoder_target,
        "validation_split": 0.2,
        "shuffle": False,
    }


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    history = model.fit(**load_data(), batch_size=BATCH_SIZE, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)
