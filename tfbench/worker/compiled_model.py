"""A recipe's network: built to fit its data, compiled for its training, and counted."""

import dataclasses
import math
import warnings
from collections.abc import Collection
from typing import Any

from tfbench import backends
from tfbench.datasets.sources.splits import Splits, count_steps_per_epoch, list_arrays, map_arrays
from tfbench.errors import DeviceError, Notice, RecipeError
from tfbench.models.structure import foreign_model
from tfbench.recipe import registry
from tfbench.recipe.backend_support import COMPILERS, find_lacking
from tfbench.recipe.conflicts import find_unfit_loss
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import ModelConfig, TrainingConfig
from tfbench.records.run import ModelSummary
from tfbench.worker import user_code
from tfbench.worker.initial_weights import drawn_by_numpy

_JIT_COMPILERS = {
    "xla": "XLA",
    "inductor": "torch.compile",
}  # what Keras's `jit_compile` stands for
_OWN = ("keras_file", "layers")  # networks that end as their author has it; all others give logits
_PROBABILITIES = (
    "the network gives probabilities (a softmax or sigmoid), so the loss applies no softmax of its"
    " own."
)


def build_model(config: ModelConfig, spec: DatasetSpec, *, allows_code: bool = False) -> Any:
    """Builds the model as its own module, or the user's own function, does.

    Compiled where the user's is.

    Raises:
        RecipeError: Its output is not what the data's targets need.
    """
    with drawn_by_numpy():
        if registry.is_code(config.name):
            return user_code.build_model(config, spec, allows_code=allows_code)
        module = registry.load("models", config.name)
        if spec.is_structured and config.name != "keras_file":
            raise RecipeError(
                f"model {config.name}: takes one array of samples and one of targets. The data has"
                " several arrays, weights or several labels a sample: take a network of your own"
                " that comes compiled."
            )
        model = module.build_model(module.Config(**config.options), spec)
    if model.compiled:
        return model
    _require_output(tuple(model.output_shape[1:]), spec, config.name)
    return model


def _require_output(shape: tuple[int | None, ...], spec: DatasetSpec, name: str) -> None:
    """Raises RecipeError unless outputs fit the targets.

    Keras broadcasts those that differ, and trains on nonsense.
    """
    if spec.num_classes is None:
        fits = shape == spec.output_shape
        wanted = f"values of shape {spec.output_shape}"
    else:
        is_alike = len(shape) == len(spec.output_shape) and shape[:-1] == spec.output_shape[:-1]
        fits = (
            is_alike and (shape[-1] or 0) >= spec.num_classes
        )  # more: outputs that no sample is of
        wanted = (
            f"a logit for each of {spec.num_classes}"
            f" classes{' at each position' * (spec.tokens_per_sample > 0)}"
        )
    if not fits:
        raise RecipeError(
            f"model {name}: does not suit the data: expected {wanted}, received outputs of shape"
            f" {shape}. Take another model or data set."
        )


def build_compiled_model(
    config: ModelConfig,
    training: TrainingConfig,
    spec: DatasetSpec,
    *,
    allows_code: bool = False,
    splits: Splits | None = None,
    given: Collection[str] = (),
) -> Any:
    """Builds and compiles the model; to be called in the strategy's scope.

    A network of the user's may come compiled: it keeps its own optimizer, loss, metrics and
    training step.

    Everything that Keras would otherwise choose by device and strategy (XLA above all) is given
    explicitly.

    Args:
        config: The model.
        training: What it is compiled for.
        spec: The data.
        allows_code: The user allowed functions from outside of tfbench to be called.
        splits: The data itself, from whose shapes a network that comes compiled makes its
            variables.
        given: Keys of the recipe that somebody asked for.

    Raises:
        RecipeError: The optimizer's groups do not fit the model.
        DeviceError: Keras would not use the compiler that was asked for.
    """
    from tfbench.worker import objective, optimizer

    num_replicas = backends.current().count_replicas()
    spec = dataclasses.replace(
        spec, per_replica_batch_size=training.global_batch_size // num_replicas
    )
    model = build_model(config, spec, allows_code=allows_code)
    is_own = registry.is_code(config.name) or config.name in _OWN
    if is_own and (problem := foreign_model.find_second_scaling(model, spec)):
        warnings.warn(problem, Notice, stacklevel=2)
    compiles = training.compiler_used in _JIT_COMPILERS
    # Only TensorFlow has to be told: the others do operation after operation where nothing compiles
    # them.
    runs_eagerly = training.backend == "tensorflow" and training.compiler_used == "eager"
    how = {
        "jit_compile": compiles,
        "run_eagerly": runs_eagerly,
        "steps_per_execution": training.steps_per_execution,
    }
    if model.compiled:
        _require_own_training(model, given)
        if splits is not None:
            _build_variables(model, splits, spec, config)
        if model.run_eagerly and not runs_eagerly and training.backend == "tensorflow":
            raise RecipeError(
                f"model.name: {config.name} comes compiled with run_eagerly = True. Use --set"
                " training.compiler=eager, or leave run_eagerly out."
            )
        for name, value in how.items():
            setattr(model, name, value)
    else:
        if problem := find_unfit_loss(spec, training):
            raise RecipeError(problem)
        is_probable = (
            is_own and spec.num_classes is not None and objective.gives_probabilities(model)
        )
        if is_probable:
            warnings.warn(_PROBABILITIES, Notice, stacklevel=2)
        model = objective.apply_head(model, training, is_probable=is_probable)
        steps_per_epoch = count_steps_per_epoch(spec.train_samples, training.global_batch_size)
        model.compile(
            optimizer=optimizer.build_optimizer(
                training.optimizer, model, total_steps=training.epochs * steps_per_epoch
            ),
            loss=objective.build_loss(training, is_probable=is_probable),
            metrics=objective.build_metrics(training),
            **how,
        )
    optimizer.require_same_clipping(model.optimizer, num_replicas)
    if lacking := find_lacking(
        training.backend, carries_state=bool(backends.current().carried_states(model))
    ):
        raise RecipeError("\n".join(lacking))  # of a network whose options do not tell
    if (bool(model.jit_compile), bool(model.run_eagerly)) != (
        compiles,
        runs_eagerly,
    ):  # Keras only warns, in Python
        names = (
            ", ".join(layer.name for layer in model.layers if not layer.supports_jit) or "the model"
        )
        other = next(one for one in COMPILERS[training.backend] if one not in _JIT_COMPILERS)
        raise DeviceError(
            f"training.compiler: Keras does not compile {names} with"
            f" {_JIT_COMPILERS[training.compiler_used]} on this "
            f'device. Use compiler = "{other}".'
        )
    return model


def summarize_model(model: Any, digest: str) -> ModelSummary:
    """Counts a built network; what cannot be counted is named.

    `digest` is of the file that it is from.
    """
    from tfbench.models.structure import flops

    outputs: Any = getattr(model, "outputs", None) or ()
    known: dict[str, Any] = {
        "digest": digest,
        "own_optimizer": (
            type(model.optimizer).__name__ if foreign_model.comes_compiled(model) else ""
        ),
        "num_parameters": sum(math.prod(variable.shape) for variable in model.weights),
        "num_trainable_parameters": sum(
            math.prod(variable.shape) for variable in model.trainable_variables
        ),
        "num_outputs": outputs[0].shape[-1] if len(outputs) == 1 else None,
    }
    has_own_step = foreign_model.has_own_step(model)
    if has_own_step or not outputs:  # may pass through its layers as often, and as it likes
        code = ".train_step" if has_own_step else ".call"
        return ModelSummary(
            **known, uncounted_layers=(f"{model.name} ({type(model).__name__}{code})",)
        )
    counted = flops.count_model(model)
    return ModelSummary(
        **known,
        flops_per_sample=counted.forward,
        training_flops_per_sample=counted.training,
        main_product=flops.find_main_product(model) or (),
        uncounted_layers=counted.unknown,
    )


def require_apart(model: Any, splits: Splits) -> None:
    """Raises RecipeError unless a profile can take the step apart.

    It knows Keras's own, of a graph of layers.
    """
    has_one_each = all(len(getattr(model, name, None) or ()) == 1 for name in ("inputs", "outputs"))
    is_plain = len(list_arrays(splits.train.arrays)) == 2  # inputs and targets
    if foreign_model.has_own_step(model) or not has_one_each or not is_plain:
        raise RecipeError(
            "a profile takes Keras's own training step of one input, one output and one array of"
            " targets apart. The network has a train_step of its own, no graph of layers, or"
            " several arrays. `tfbench run` measures its steps as a whole."
        )


def _require_own_training(model: Any, given: Collection[str]) -> None:
    """Rejects a compiled network that has no optimizer, or that is to train in another way.

    Raises:
        RecipeError: It is so.
    """
    if model.optimizer is None:
        raise RecipeError(
            "model.name: the network comes compiled without an optimizer. Give model.compile one."
        )
    others = ("training.optimizer", "training.loss", "training.head", "training.validation_head")
    if unheard := [key for key in given if key.startswith(others)]:
        raise RecipeError(
            f"{', '.join(unheard)}: the network comes compiled, and trains with its own optimizer"
            f" and loss. Leave {'it' if len(unheard) == 1 else 'them'} out, or return the network"
            " without compiling it."
        )
    model._comes_compiled = True


def _build_variables(model: Any, splits: Splits, spec: DatasetSpec, config: ModelConfig) -> None:
    """Makes the variables of a compiled model, its loss, metrics and optimizer, as `fit` does.

    Raises:
        RecipeError: It does not suit the data.
    """
    import keras

    split = splits.train
    if split.read or spec.stored_shape:
        return  # images that are read or cut: the first step makes the variables

    def describe(array: Any) -> Any:
        is_input = array is split.inputs
        dtype = "float32" if is_input and not spec.is_fed_as_stored else array.dtype.name
        return keras.KerasTensor((spec.per_replica_batch_size, *array.shape[1:]), dtype)

    batch = map_arrays(describe, split.arrays)
    try:
        with drawn_by_numpy():
            model._symbolic_build(data_batch=batch)
    except Exception as error:  # of Keras or of the user's loss, whatever it is
        is_built = model.weights and all(
            layer.built for layer in model._flatten_layers(include_self=False)
        )
        if is_built and foreign_model.has_own_step(model):
            return  # which calls its layers in its own way
        where = f"model.name: {config.name}"
        hint = ""
        if config.name == "keras_file":
            where = f"model.file: {config.options['file']}"
            hint = " --set model.compiled=false trains it as the recipe does."
        reason = foreign_model.reason_of(error)
        raise RecipeError(
            f"{where}: does not suit the data as it was compiled: {reason}{hint}"
        ) from error
