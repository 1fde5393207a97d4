"""Initialisers by the name that a recipe gives them."""

from typing import Literal

import keras

KernelInitializer = Literal["lecun_normal_untruncated", "he_normal_untruncated", "glorot_uniform"]


def build_initializer(name: KernelInitializer) -> keras.initializers.Initializer:
    """Builds a kernel initialiser.

    "lecun_normal_untruncated" is N(0, 1 / fan_in) and "he_normal_untruncated" N(0, 2 / fan_in), as
    in Chainer; Keras's own `lecun_normal` and `he_normal` cut the tails off at two deviations.

    A normal distribution of a given deviation is `keras.initializers.RandomNormal(stddev=...)`, as
    it is: nothing is cut off there (Keras's `TruncatedNormal` does that).
    """
    if name == "glorot_uniform":
        return keras.initializers.GlorotUniform()
    scale = 1.0 if name == "lecun_normal_untruncated" else 2.0
    return keras.initializers.VarianceScaling(
        scale=scale, mode="fan_in", distribution="untruncated_normal"
    )
