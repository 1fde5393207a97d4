"""Optimizers by the values of a recipe, and one that Keras lacks: SGD with groups of weights."""

import dataclasses
import fnmatch
import inspect
from collections.abc import Sequence
from typing import Any

import keras

from tfbench.errors import RecipeError, did_you_mean
from tfbench.models.structure.foreign_model import reason_of
from tfbench.recipe.optimizers import (
    CLIPPING,
    KerasArguments,
    KerasConfig,
    OptimizerConfig,
    ParameterGroup,
    SgdConfig,
    StepDecay,
)
from tfbench.schema import to_plain

_NOT_KERAS = (
    "name",
    "class_name",
    "arguments",
    "learning_rate_schedule",
    "weight_decay",
    "schedule",
    "groups",
)


def require_same_clipping(optimizer: keras.optimizers.Optimizer, num_replicas: int) -> None:
    """Raises RecipeError if several replicas would clip otherwise than one does."""
    clips = [key for key in CLIPPING if getattr(optimizer, key, None)]
    if clips and num_replicas > 1 and keras.backend.backend() == "tensorflow":
        raise RecipeError(
            f"training.optimizer: {clips[0]} cannot be used with {num_replicas} replicas on"
            " TensorFlow, where Keras clips each replica's gradients before it adds them up. Use"
            " one device, or --backend jax."
        )


def build_optimizer(
    config: OptimizerConfig, model: keras.Model, *, total_steps: int
) -> keras.optimizers.Optimizer:
    """Builds the optimizer of a model.

    Args:
        config: Its kind and values.
        model: Whose weights the groups name; built.
        total_steps: Training steps of the whole recipe, which schedules are fractions of.

    Raises:
        RecipeError: A group's pattern fits no weight of the model, or Keras does not take the
            values.
    """
    values = to_plain(config)
    for key in _NOT_KERAS:
        values.pop(key, None)
    values = {key: value for key, value in values.items() if value is not None}
    if config.learning_rate_schedule:
        values["learning_rate"] = _build_schedule(config, total_steps)
    if isinstance(config, SgdConfig) and (config.groups or config.schedule or config.weight_decay):
        groups = _assign_groups(config, model.trainable_variables)
        return GroupedSgd(groups, total_steps=total_steps, **values)
    name: str = config.name
    if isinstance(config, KerasConfig):
        name = config.class_name
        values = values | config.arguments
    try:
        return type(keras.optimizers.get(name))(**values)
    except (TypeError, ValueError) as error:
        raise RecipeError(
            f"training.optimizer: Keras does not take {name} like this: {reason_of(error)}"
        ) from error


def _build_schedule(
    config: KerasArguments, total_steps: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Builds one of Keras's schedules; the rate and the training's length give its defaults."""
    where = "training.optimizer.learning_rate_schedule"
    arguments = dict(config.learning_rate_schedule or {})
    names = vars(keras.optimizers.schedules).items()
    schedules = {name: kind for name, kind in names if isinstance(kind, type)}
    del schedules["LearningRateSchedule"]
    name = arguments.pop("name", None)
    if name not in schedules:
        raise RecipeError(
            f"{where}.name: must be one of {', '.join(schedules)}. Received:"
            f" {name}.{did_you_mean(str(name), schedules)}"
        )
    warmup_steps = arguments.get("warmup_steps", 0)
    decay_steps = total_steps - warmup_steps if isinstance(warmup_steps, int) else None
    defaults = {"initial_learning_rate": config.learning_rate, "decay_steps": decay_steps}
    if warmup_steps:
        defaults["initial_learning_rate"] = 0.0
        defaults["warmup_target"] = config.learning_rate
    build = schedules[name]
    parameters = inspect.signature(build).parameters
    arguments = {key: defaults[key] for key in defaults if key in parameters} | arguments
    try:
        schedule = build(**arguments)
        schedule(0)  # some reject values only now
    except (TypeError, ValueError) as error:
        raise RecipeError(
            f"{where}: Keras does not take {name} like this: {reason_of(error)}"
        ) from error
    return schedule


class GroupedSgd(keras.optimizers.SGD):  # type: ignore[misc]  # Keras has no types
    """SGD whose weights have learning rates, schedules and weight decay of their own.

    v = momentum v - rate (gradient + decay w) and w = w + v, so that the decay goes through the
    momentum, as in cuda-convnet: inc = mom inc - eps wc w + eps gradient / batch (there the
    gradient points uphill).

    Args:
        groups: What holds for each trainable weight of the model, in the order of
            `model.trainable_variables`.
        total_steps: Training steps that schedules are fractions of.
        values: As of Keras's SGD, for weights that no group names.
    """

    def __init__(
        self, groups: Sequence[ParameterGroup], *, total_steps: int, **values: Any
    ) -> None:
        super().__init__(**values)
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
        ops = keras.ops
        steps = [round(share * self._total_steps) for share in schedule.at]
        boundaries = ops.convert_to_tensor(steps, self.iterations.dtype)
        is_reached = ops.cast(self.iterations >= boundaries, "float32")
        return ops.power(float(schedule.divide_by), ops.sum(is_reached))


def _assign_groups(config: SgdConfig, variables: Sequence[Any]) -> list[ParameterGroup]:
    """Returns the settings of each weight, with groups laid over the defaults.

    The defaults are the optimizer's own values; later groups take precedence.
    """
    defaults: dict[str, Any] = {
        "weight_decay": config.weight_decay,
        "schedule": config.schedule,
    }
    settings = [ParameterGroup(variables=variable.path, **defaults) for variable in variables]
    for group in config.groups:
        pattern = f"*/{group.variables}"  # of a path, or of its end from a slash on
        values = {key: getattr(group, key) for key in ("learning_rate", *defaults)}
        changes = {key: value for key, value in values.items() if value is not None}
        paths = [f"/{variable.path}" for variable in variables]
        fitting = [index for index, path in enumerate(paths) if fnmatch.fnmatchcase(path, pattern)]
        for index in fitting:
            settings[index] = dataclasses.replace(settings[index], **changes)
        if not fitting:
            names = ["/".join(variable.path.split("/")[-2:]) for variable in variables]
            raise RecipeError(
                f"training.optimizer.groups: '{group.variables}' fits no weight of the model. Its"
                f" weights: {', '.join(dict.fromkeys(names))}."
            )
    return settings
