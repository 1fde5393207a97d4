"""The training that a network of the user's brings along: kept whole, or refused by name."""

import inspect
import warnings
from collections.abc import Collection
from typing import Any

from tfbench.datasets.sources.splits import Splits, map_arrays
from tfbench.errors import Notice, RecipeError
from tfbench.models.structure import foreign_model
from tfbench.recipe.backend_support import COMPILERS, ONE_STEP_A_CALL
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import ModelConfig, TrainingConfig

# That a training gives to `fit`.
_FIT_ARGUMENTS = dict.fromkeys(
    (
        "x",
        "validation_data",
        "steps_per_epoch",
        "shuffle",
        "initial_epoch",
        "epochs",
        "callbacks",
        "verbose",
    )
)
# what Keras's `jit_compile` stands for
JIT_COMPILERS = {"xla": "XLA", "inductor": "torch.compile"}


def keep(model: Any, training: TrainingConfig, given: Collection[str], num_replicas: int) -> None:
    """Has a compiled network train with its own optimizer, loss and metrics.

    Args:
        model: The network.
        training: Of the recipe.
        given: Keys of the recipe that somebody asked for.
        num_replicas: That it is trained on.

    Raises:
        RecipeError: It has no optimizer, is to train in another way, or cannot be trained so.
    """
    _require_own_training(model, given)
    _require_possible_accumulation(model, training.backend, num_replicas)
    model._comes_compiled = True


def _require_own_training(model: Any, given: Collection[str]) -> None:
    """Raises RecipeError if a compiled network cannot train by itself, or is to train otherwise."""
    if model.optimizer is None:
        raise RecipeError(
            "model.name: the network comes compiled without an optimizer. Give model.compile one."
        )
    try:
        inspect.signature(model.fit).bind_partial(**_FIT_ARGUMENTS)
    except TypeError as error:
        raise RecipeError(
            f"model.name: the network's own fit does not take all that Keras's does: {error}. Let"
            " it take **arguments, and hand them on to super().fit."
        ) from error
    replaced = ("training.optimizer", "training.loss", "training.head", "training.validation_head")
    unused_keys = [key for key in given if key.startswith(replaced)]
    if unused_keys:
        raise RecipeError(
            f"{', '.join(unused_keys)}: the network comes compiled, and trains with its own"
            f" optimizer and loss. Leave {'it' if len(unused_keys) == 1 else 'them'} out, or return"
            " the network without compiling it."
        )


def _require_possible_accumulation(model: Any, backend: str, num_replicas: int) -> None:
    """Raises RecipeError if Keras cannot accumulate gradients over several replicas."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)  # of a scaled loss
    num_steps = getattr(optimizer, "gradient_accumulation_steps", None)
    if num_steps and num_replicas > 1 and backend == "tensorflow":
        raise RecipeError(
            f"model.name: the optimizer accumulates gradients over {num_steps} steps, which Keras"
            " cannot do over several replicas of TensorFlow. Use one device, or leave"
            " gradient_accumulation_steps out of the optimizer and multiply --global-batch-size by"
            f" {num_steps}."
        )


def build_variables(model: Any, splits: Splits, spec: DatasetSpec, config: ModelConfig) -> None:
    """Makes the variables of a compiled model, its loss, metrics and optimizer, as `fit` does.

    Raises:
        RecipeError: It does not suit the data.
    """
    import keras

    split = splits.train
    if split.read or spec.stored_shape:
        return  # images that are read or cut: the first step makes the variables

    def describe(array: Any) -> Any:
        dtype = "string" if array.dtype.kind in "OSU" else array.dtype.name
        if array is split.inputs and not spec.is_fed_as_stored and not splits.pipeline:
            dtype = "float32"
        return keras.KerasTensor((spec.per_replica_batch_size, *array.shape[1:]), dtype)

    if splits.pipeline is None or not splits.pipeline.is_users:
        foreign_model.hand_over_as_fit(model, split.arrays)
    has_own_step = foreign_model.has_own_step(model)
    is_built = foreign_model.is_built(model)
    is_built_by_fit = keras.backend.backend() != "tensorflow" or model._distribute_strategy
    if has_own_step and not is_built and not is_built_by_fit:
        return  # its first step builds it, as in `fit`
    has_all_state = _has_all_state(model)
    try:
        model._symbolic_build(data_batch=map_arrays(describe, split.arrays))
    except Exception as error:  # Keras and the user's loss raise what they like
        if is_built and has_own_step:
            return  # its own step calls the layers in its own way
        where = f"model.name: {config.name}"
        hint = ""
        if config.name == "keras_file":
            where = f"model.file: {config.options['file']}"
            hint = " --set model.compiled=false trains it as the recipe does."
        reason = foreign_model.reason_of(error)
        raise RecipeError(
            f"{where}: does not suit the data as it was compiled: {reason}{hint}"
        ) from error
    if splits.pipeline and not has_all_state and _has_all_state(model):
        _have_fit_take_a_batch(model)


def _has_all_state(model: Any) -> bool:
    """Says whether `fit` finds nothing to build but the optimizer, as Keras decides it."""
    of_compile = [model._compile_metrics, model._compile_loss]
    parts = [*model._flatten_layers(), *(part for part in of_compile if part is not None)]
    return all(part.built for part in parts)


def _have_fit_take_a_batch(model: Any) -> None:
    """Has `fit` take a batch of its data before it trains, as it does to build a network.

    The order of samples, or a data set's own count of epochs, may hang on that.
    """
    build = model._symbolic_build

    def take_and_build(iterator: Any = None, data_batch: Any = None) -> None:
        if iterator is not None:  # of `fit`, and no batch of tfbench's checks
            model._symbolic_build = build
            for _, _, batches in iterator:
                if not isinstance(batches, list | tuple):
                    next(batches)
                break
        build(iterator=iterator, data_batch=data_batch)

    model._symbolic_build = take_and_build


def set_execution(
    model: Any,
    training: TrainingConfig,
    execution: dict[str, Any],
    name: str,
    given: Collection[str],
) -> None:
    """Gives a network that comes compiled the recipe's way to execute steps.

    It is the way of all setups of a comparison. Where `fit` would compile on this device alone, a
    notice says so.

    Raises:
        RecipeError: The network was compiled for another way, and nobody has chosen between them.
    """
    compilers = COMPILERS[training.backend]
    by_jit = next(compiler for compiler in compilers if compiler in JIT_COMPILERS)
    of_compile = model._compile_config.config  # Keras publishes it only as text
    wished: dict[str, tuple[str, object]] = {}  # argument of `compile`: key, and its value
    is_chosen = not foreign_model.chose_compiler_itself(model)
    if of_compile["run_eagerly"]:
        wished["run_eagerly=True"] = ("training.compiler", "eager")
    elif of_compile["jit_compile"] and is_chosen:
        wished["jit_compile=True"] = ("training.compiler", by_jit)
    elif is_chosen and training.compiler_used == by_jit:
        others = [compiler for compiler in compilers if compiler != by_jit]
        wished["jit_compile=False"] = ("training.compiler", others[0])
    num_steps = of_compile["steps_per_execution"]
    if num_steps == "auto" and "training.steps_per_execution" not in given:
        raise RecipeError(
            f"model.name: {name} comes compiled with steps_per_execution='auto': Keras changes"
            " them while it trains. Use --set training.steps_per_execution=N."
        )
    if num_steps not in (1, "auto"):
        if training.backend in ONE_STEP_A_CALL and "training.steps_per_execution" not in given:
            raise RecipeError(
                f"model.name: {name} comes compiled with steps_per_execution={num_steps}, and Keras"
                f" does one step per call on backend {training.backend}. Use --set"
                " training.steps_per_execution=1, or another backend."
            )
        wished[f"steps_per_execution={num_steps}"] = ("training.steps_per_execution", num_steps)
    used = {
        "training.compiler": training.compiler_used,
        "training.steps_per_execution": training.steps_per_execution,
    }
    for argument, (key, value) in wished.items():
        if value != used[key] and key not in given:
            raise RecipeError(
                f"model.name: {name} comes compiled with {argument}. Say which counts: --set"
                f" {key}={value} as it was compiled, or --set {key}={used[key]} as the recipe has"
                " it."
            )
    if (
        of_compile["jit_compile"]
        and not is_chosen
        and not execution["jit_compile"]
        and "training.compiler" not in given
    ):
        warnings.warn(
            f"fit may compile this network with {JIT_COMPILERS[by_jit]} on this device"
            " (jit_compile='auto'). tfbench uses one compiler in all setups:"
            f" {training.compiler_used}. --set training.compiler={by_jit} changes it, for setups of"
            " one replica.",
            Notice,
            stacklevel=3,
        )
    for key, value in execution.items():
        setattr(model, key, value)
