"""Optimizers, as the tables of a recipe that name them."""

import dataclasses
from typing import Annotated, Any, Literal

import pydantic

from tfbench.schema import (
    Flag,
    Fraction,
    NonNegativeNumber,
    Number,
    PositiveNumber,
    Rate,
    Text,
    schema,
)

CLIPPING = ("clipnorm", "global_clipnorm", "clipvalue")


@schema
class KerasArguments:
    """What every optimizer of Keras takes."""

    name: Text
    learning_rate: Rate = 0.001
    """Learning rate, as in Keras."""
    learning_rate_schedule: dict[str, Any] | None = None
    """One of Keras's learning rate schedules, by its class `name`, and its arguments.

    `{ name = "CosineDecay", warmup_steps = 500 }`. By default a warm-up ends at `learning_rate`,
    and a decay with the training.
    """
    clipnorm: PositiveNumber | None = None
    """Largest norm of each weight's gradient. On `tensorflow`, clipping needs a single replica."""
    global_clipnorm: PositiveNumber | None = None
    """Largest norm of all gradients together."""
    clipvalue: PositiveNumber | None = None
    """Largest absolute value of a gradient."""

    def __post_init__(self) -> None:
        named = [key for key in CLIPPING if getattr(self, key) is not None]
        if len(named) > 1:
            raise ValueError(
                f"only one of {', '.join(CLIPPING)} can be set. Received: {', '.join(named)}."
            )


@schema
class AdamConfig(KerasArguments):
    """Keras's Adam (Kingma & Ba 2014)."""

    name: Literal["adam"] = "adam"
    """Chooses Adam."""
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
    """Weights that are trained otherwise than the rest.

    Where two groups name a weight, the later one counts. What is left out stays as it is for all
    weights.
    """

    variables: Text
    """A pattern with `*` for "LAYER/WEIGHT", such as "*/bias" or "local3/kernel".

    One that fits no weight is an error.
    """
    learning_rate: Rate | None = None
    """Learning rate of these weights."""
    weight_decay: NonNegativeNumber | None = None
    """Weight decay of these weights."""
    schedule: StepDecay | None = None
    """How the learning rate of these weights falls."""


@schema
class SgdConfig(KerasArguments):
    """Stochastic gradient descent: Keras's own, unless weights are grouped or a schedule is set.

    With weight decay, v = momentum v - learning_rate (gradient + weight_decay w) and w = w + v, as
    in cuda-convnet.
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
    """How strongly weights are drawn to zero.

    Added to the gradient as `weight_decay` times the weight.
    """
    schedule: StepDecay | None = None
    """How the learning rate falls."""
    groups: tuple[ParameterGroup, ...] = ()
    """Weights with a rate, decay or schedule of their own."""

    def __post_init__(self) -> None:
        KerasArguments.__post_init__(self)
        if self.learning_rate_schedule and (self.schedule or self.groups):
            raise ValueError(
                "learning_rate_schedule does not go with schedule or groups. Leave one of them out."
            )


@schema
class AdadeltaConfig(KerasArguments):
    """Keras's Adadelta (Zeiler 2012)."""

    name: Literal["adadelta"] = "adadelta"
    """Chooses Adadelta."""
    rho: Fraction = 0.95
    """Decay of the means of squared gradients and steps."""
    epsilon: Rate = 1e-7
    """Added within the square roots."""


@schema
class KerasConfig(KerasArguments):
    """Any other optimizer of Keras."""

    name: Literal["keras"] = "keras"
    """Chooses the one that `class_name` names."""
    class_name: Text
    """Its class in `keras.optimizers`, such as "AdamW"."""
    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Its other arguments, as in Keras."""


OptimizerConfig = AdamConfig | SgdConfig | AdadeltaConfig | KerasConfig
AnyOptimizer = Annotated[OptimizerConfig, pydantic.Field(discriminator="name")]
