"""Optimizers by the values of a recipe, and the one that Keras lacks: SGD with groups of weights."""

import fnmatch
from collections.abc import Sequence
from typing import Any

import keras

from tfbench.errors import RecipeError
from tfbench.recipe.optimizers import OptimizerConfig, ParameterGroup, SgdConfig, StepDecay
from tfbench.schema import to_plain

_CLASSES = {
    "adam": keras.optimizers.Adam,
    "sgd": keras.optimizers.SGD,
    "adadelta": keras.optimizers.Adadelta,
    "rmsprop": keras.optimizers.RMSprop,
}


def build_optimizer(config: OptimizerConfig, model: keras.Model, *, total_steps: int) -> keras.optimizers.Optimizer:
    """Builds the optimizer of a model.

    Args:
        config: Its kind and values.
        model: Whose weights the groups name; built.
        total_steps: Training steps of the whole recipe, which schedules are fractions of.

    Raises:
        RecipeError: A group's pattern fits no weight of the model.
    """
    if isinstance(config, SgdConfig):
        if config.groups or config.schedule or config.weight_decay:
            return GroupedSgd(config, _assign_groups(config, model.trainable_variables), total_steps=total_steps)
        return keras.optimizers.SGD(config.learning_rate, momentum=config.momentum, nesterov=config.nesterov)
    arguments = to_plain(config)
    return _CLASSES[arguments.pop("name")](**arguments)


class GroupedSgd(keras.optimizers.SGD):  # type: ignore[misc]  # Keras has no types
    """SGD whose weights have learning rates, schedules and weight decay of their own.

    v = momentum v - rate (gradient + decay w) and w = w + v, so that the decay goes through the momentum, as in
    cuda-convnet: inc = mom inc - eps wc w + eps gradient / batch (there the gradient points uphill).

    Args:
        config: Momentum, and the values of weights that no group names.
        groups: What holds for each trainable weight of the model, in the order of `model.trainable_variables`.
        total_steps: Training steps that schedules are fractions of.
    """

    def __init__(self, config: SgdConfig, groups: Sequence[ParameterGroup], *, total_steps: int) -> None:
        super().__init__(config.learning_rate, momentum=config.momentum, nesterov=config.nesterov)
        self._groups = groups
        self._total_steps = total_steps

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates one weight."""
        group = self._groups[self._get_variable_index(variable)]
        if group.weight_decay:
            gradient = gradient + group.weight_decay * keras.ops.cast(variable, gradient.dtype)
        rate = learning_rate if group.learning_rate is None else group.learning_rate
        if group.schedule:
            rate = rate / self._divisor(group.schedule)
        super().update_step(gradient, variable, rate)

    def _divisor(self, schedule: StepDecay) -> Any:
        """Returns divide_by ^ (number of boundaries reached)."""
        boundaries = [round(share * self._total_steps) for share in schedule.at]
        reached = keras.ops.cast(
            self.iterations >= keras.ops.convert_to_tensor(boundaries, self.iterations.dtype), "float32"
        )
        return keras.ops.power(float(schedule.divide_by), keras.ops.sum(reached))


def _assign_groups(config: SgdConfig, variables: Sequence[Any]) -> list[ParameterGroup]:
    """Returns what holds for each weight once the groups are laid over the optimizer's own values, one by one."""
    values: list[dict[str, Any]] = [
        {"learning_rate": None, "weight_decay": config.weight_decay, "schedule": config.schedule} for _ in variables
    ]
    for group in config.groups:
        fitting = [index for index, variable in enumerate(variables) if _fits(group.variables, variable.path)]
        if not fitting:
            known = ", ".join(dict.fromkeys("/".join(variable.path.split("/")[-2:]) for variable in variables))
            raise RecipeError(
                f"training.optimizer.groups: '{group.variables}' fits no weight of the model. Its weights: {known}."
            )
        named = {key: value for key in values[0] if (value := getattr(group, key)) is not None}
        for index in fitting:
            values[index] |= named
    return [
        ParameterGroup(variables=variable.path, **fields) for variable, fields in zip(variables, values, strict=True)
    ]


def _fits(pattern: str, path: str) -> bool:
    """Says whether a pattern fits a weight's path, or the end of it from a slash on."""
    steps = path.split("/")
    return any(fnmatch.fnmatchcase("/".join(steps[start:]), pattern) for start in range(len(steps)))
