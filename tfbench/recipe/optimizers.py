"""Optimizers, as the tables of a recipe that name them."""

from typing import Annotated, Literal

import pydantic

from tfbench.schema import Flag, Fraction, NonNegativeNumber, Number, Rate, Text, schema


@schema
class AdamConfig:
    """Keras's Adam (Kingma & Ba 2014); `epsilon` is Keras's default, Chainer's is 1e-8."""

    name: Literal["adam"] = "adam"
    learning_rate: Rate = 0.001
    beta_1: Fraction = 0.9
    beta_2: Fraction = 0.999
    epsilon: Rate = 1e-7


@schema
class StepDecay:
    """Divides a learning rate by `divide_by` at each of `at`, given as fractions of the recipe's training steps."""

    at: Annotated[tuple[Fraction, ...], pydantic.Field(min_length=1)]
    divide_by: Annotated[Number, pydantic.Field(gt=1, le=1e6)]


@schema
class ParameterGroup:
    """Weights that are trained otherwise than the rest; where two groups name a weight, the later one counts.

    `variables` is a pattern with `*` for "LAYER/WEIGHT", such as "*/bias" or "local3/kernel"; a pattern that fits no
    weight is an error. What is left out stays as it is for all weights.
    """

    variables: Text
    learning_rate: Rate | None = None
    weight_decay: NonNegativeNumber | None = None
    schedule: StepDecay | None = None


@schema
class SgdConfig:
    """Stochastic gradient descent: Keras's own, until weights are grouped or the learning rate has a schedule.

    With weight decay, v = momentum v - learning_rate (gradient + weight_decay w) and w = w + v, as in cuda-convnet.
    """

    name: Literal["sgd"] = "sgd"
    learning_rate: Rate = 0.01
    momentum: Fraction = 0.0
    nesterov: Flag = False
    weight_decay: NonNegativeNumber = 0.0
    schedule: StepDecay | None = None
    groups: tuple[ParameterGroup, ...] = ()


@schema
class AdadeltaConfig:
    """Keras's Adadelta (Zeiler 2012)."""

    name: Literal["adadelta"] = "adadelta"
    learning_rate: Rate = 0.001
    rho: Fraction = 0.95
    epsilon: Rate = 1e-7


@schema
class RmspropConfig:
    """Keras's RMSprop."""

    name: Literal["rmsprop"] = "rmsprop"
    learning_rate: Rate = 0.001
    rho: Fraction = 0.9
    momentum: Fraction = 0.0
    epsilon: Rate = 1e-7


OptimizerConfig = AdamConfig | SgdConfig | AdadeltaConfig | RmspropConfig
