"""Optimizers, as the tables of a recipe that name them."""

from typing import Annotated, Literal

import pydantic

from tfbench.schema import Flag, Fraction, NonNegativeNumber, Number, Rate, Text, schema


@schema
class AdamConfig:
    """Keras's Adam (Kingma & Ba 2014)."""

    name: Literal["adam"] = "adam"
    """Chooses Adam."""
    learning_rate: Rate = 0.001
    """Learning rate, as in Keras."""
    beta_1: Fraction = 0.9
    """Decay of the mean of the gradients."""
    beta_2: Fraction = 0.999
    """Decay of the mean of the squared gradients."""
    epsilon: Rate = 1e-7
    """Added to the divisor; Chainer's default is 1e-8."""


@schema
class StepDecay:
    """A learning rate that falls in steps."""

    at: Annotated[tuple[Fraction, ...], pydantic.Field(min_length=1)]
    """When it falls, as fractions of the recipe's training steps."""
    divide_by: Annotated[Number, pydantic.Field(gt=1, le=1e6)]
    """What it is divided by each time."""


@schema
class ParameterGroup:
    """Weights that are trained otherwise than the rest; where two groups name a weight, the later one counts.

    What is left out stays as it is for all weights.
    """

    variables: Text
    """A pattern with `*` for "LAYER/WEIGHT", such as "*/bias" or "local3/kernel"; one that fits no weight is an
    error."""
    learning_rate: Rate | None = None
    """Learning rate of these weights."""
    weight_decay: NonNegativeNumber | None = None
    """Weight decay of these weights."""
    schedule: StepDecay | None = None
    """How the learning rate of these weights falls."""


@schema
class SgdConfig:
    """Stochastic gradient descent: Keras's own, until weights are grouped or the learning rate has a schedule.

    With weight decay, v = momentum v - learning_rate (gradient + weight_decay w) and w = w + v, as in cuda-convnet.
    """

    name: Literal["sgd"] = "sgd"
    """Chooses stochastic gradient descent."""
    learning_rate: Rate = 0.01
    """Learning rate, as in Keras."""
    momentum: Fraction = 0.0
    """How much of the last step goes into the next one."""
    nesterov: Flag = False
    """Nesterov's form of momentum."""
    weight_decay: NonNegativeNumber = 0.0
    """How strongly weights are drawn to zero: added to the gradient as `weight_decay` times the weight."""
    schedule: StepDecay | None = None
    """How the learning rate falls."""
    groups: tuple[ParameterGroup, ...] = ()
    """Weights with a rate, decay or schedule of their own."""


@schema
class AdadeltaConfig:
    """Keras's Adadelta (Zeiler 2012)."""

    name: Literal["adadelta"] = "adadelta"
    """Chooses Adadelta."""
    learning_rate: Rate = 0.001
    """Learning rate, as in Keras."""
    rho: Fraction = 0.95
    """Decay of the means of squared gradients and steps."""
    epsilon: Rate = 1e-7
    """Added within the square roots."""


@schema
class RmspropConfig:
    """Keras's RMSprop."""

    name: Literal["rmsprop"] = "rmsprop"
    """Chooses RMSprop."""
    learning_rate: Rate = 0.001
    """Learning rate, as in Keras."""
    rho: Fraction = 0.9
    """Decay of the mean of the squared gradients."""
    momentum: Fraction = 0.0
    """How much of the last step goes into the next one."""
    epsilon: Rate = 1e-7
    """Added within the square root of the divisor."""


OptimizerConfig = AdamConfig | SgdConfig | AdadeltaConfig | RmspropConfig
