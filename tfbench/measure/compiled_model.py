"""A recipe's network: built to fit its data, compiled for its training, and counted."""

import contextlib
import dataclasses
import functools
import math
import random
import warnings
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tfbench import backends
from tfbench.datasets.sources.splits import Splits, count_steps_per_epoch, list_arrays
from tfbench.errors import DeviceError, Notice, RecipeError
from tfbench.measure import own_training, user_code
from tfbench.measure.initial_weights import Budget, drawn_by_keras, drawn_by_numpy
from tfbench.measure.own_training import JIT_COMPILERS
from tfbench.models.structure import foreign_model
from tfbench.recipe import registry
from tfbench.recipe.backend_support import COMPILERS, find_lacking
from tfbench.recipe.conflicts import find_unfit_loss
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import ModelConfig, TrainingConfig
from tfbench.runs.record import ModelSummary

_OWN = ("keras_file", "layers")  # networks that end as their author has it; all others give logits
Keywords = dict[str, Any]
_PROBABILITIES = (
    "the network gives probabilities (a softmax or sigmoid), so the loss applies no softmax of its"
    " own."
)


def build_model(
    config: ModelConfig,
    spec: DatasetSpec,
    *,
    allows_code: bool = False,
    limit_bytes: int | None = None,
) -> Any:
    """Builds the model as its own module, or the user's own function, does.

    The result is compiled where the user's function compiles it.

    Args:
        config: The model.
        spec: The data.
        allows_code: As of `build_compiled_model`.
        limit_bytes: As of `build_compiled_model`.

    Raises:
        RecipeError: Its output is not what the data's targets need, or its weights take more memory
            than there is.
    """
    count = functools.partial(_count_weight_bytes, config, spec)
    budget = Budget(config.name, limit_bytes, count)
    if registry.is_code(config.name):
        with drawn_by_keras(budget):
            return user_code.build_model(config, spec, allows_code=allows_code)
    with drawn_by_numpy(budget):
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


def _count_weight_bytes(config: ModelConfig, spec: DatasetSpec) -> int | None:
    """Counts by building the model once more, of which no weight is made.

    That is done in a thread, since each has its own names of layers and the like in Keras.

    Returns:
        None of a network of the user's, and where Keras needs a weight's values to build it.
    """
    import keras

    if registry.is_code(config.name) or config.name == "keras_file":
        return None
    policy = keras.config.dtype_policy()

    def count() -> int:
        keras.config.set_dtype_policy(policy)
        with keras.StatelessScope(initialize_variables=False):
            model = build_model(config, spec, limit_bytes=0)
        sizes = [
            math.prod(weight.shape) * np.dtype(weight.dtype).itemsize for weight in model.weights
        ]
        return sum(sizes)

    seeds = random.getstate()  # Keras draws a layer's seed from Python's own numbers
    try:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(count).result()
    except Exception:  # of whatever a layer does with values that are not there
        return None
    finally:
        random.setstate(seeds)


def _require_output(shape: tuple[int | None, ...], spec: DatasetSpec, name: str) -> None:
    """Raises RecipeError unless outputs fit the targets.

    Keras broadcasts outputs of another shape, and trains on nonsense.
    """
    expected = spec.output_shape
    if spec.num_classes is None:
        fits = shape == expected
        wanted = f"values of shape {expected}"
    else:
        is_alike = len(shape) == len(expected) and shape[:-1] == expected[:-1]
        # More classes than the data has are allowed.
        fits = is_alike and (shape[-1] or 0) >= spec.num_classes
        wanted = f"a logit for each of {spec.num_classes} classes"
        if spec.tokens_per_sample > 0:
            wanted += " at each position"
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
    limit_bytes: int | None = None,
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
        limit_bytes: More than that no weights can take; None: not known.

    Raises:
        RecipeError: The optimizer's groups do not fit the model, or its weights the memory.
        DeviceError: Keras would not use the compiler that was asked for.
    """
    from tfbench.measure import optimizer

    backend = backends.current()
    num_replicas = backend.count_replicas()
    replica_batch_size = training.global_batch_size // num_replicas
    spec = dataclasses.replace(
        spec, per_replica_batch_size=replica_batch_size, num_replicas=num_replicas
    )
    model = build_model(config, spec, allows_code=allows_code, limit_bytes=limit_bytes)
    is_own = registry.is_code(config.name) or config.name in _OWN
    problem = foreign_model.find_second_scaling(model, spec) if is_own else ""
    if problem:
        warnings.warn(problem, Notice, stacklevel=2)
    execution = {
        "jit_compile": training.compiler_used in JIT_COMPILERS,
        # Only TensorFlow needs it: the others run operation after operation where nothing compiles
        # them.
        "run_eagerly": training.backend == "tensorflow" and training.compiler_used == "eager",
        "steps_per_execution": training.steps_per_execution,
    }
    if model.compiled:
        own_training.keep(model, training, given, num_replicas)
        if splits is not None:
            own_training.build_variables(model, splits, spec, config)
        own_training.set_execution(model, training, execution, config.name, given)
    else:
        model = _compile(model, training, spec, execution, is_own=is_own)
    optimizer.require_same_clipping(model.optimizer, num_replicas)
    carries_state = bool(backend.carried_states(model))
    # A network's options do not always show that it carries state.
    is_option = "stateful" in config.options
    if lacking := find_lacking(training.backend, carries_state=carries_state, is_option=is_option):
        raise RecipeError("\n".join(lacking))
    _require_compiler(model, training, execution)
    return model


def _compile(
    model: Any,
    training: TrainingConfig,
    spec: DatasetSpec,
    execution: Keywords,
    *,
    is_own: bool,
) -> Any:
    """Compiles a network with the recipe's head, optimizer, loss and metrics."""
    from tfbench.measure import objective, optimizer

    if problem := find_unfit_loss(spec, training):
        raise RecipeError(problem)
    is_classifier = spec.num_classes is not None
    is_probable = is_own and is_classifier and objective.gives_probabilities(model)
    if is_probable:
        warnings.warn(_PROBABILITIES, Notice, stacklevel=3)
    model = objective.apply_head(model, training, is_probable=is_probable)
    steps_per_epoch = count_steps_per_epoch(spec.train_samples, training.global_batch_size)
    model.compile(
        optimizer=optimizer.build_optimizer(
            training.optimizer, model, total_steps=training.epochs * steps_per_epoch
        ),
        loss=objective.build_loss(training, is_probable=is_probable),
        metrics=objective.build_metrics(training),
        **execution,
    )
    return model


def _require_compiler(model: Any, training: TrainingConfig, execution: Keywords) -> None:
    """Raises DeviceError if Keras took another compiler, for which it only warns, in Python."""
    if (
        bool(model.jit_compile) == execution["jit_compile"]
        and bool(model.run_eagerly) == execution["run_eagerly"]
    ):
        return
    layers = [layer.name for layer in model.layers if not layer.supports_jit]
    names = ", ".join(layers) or "the model"
    others = [name for name in COMPILERS[training.backend] if name not in JIT_COMPILERS]
    raise DeviceError(
        f"training.compiler: Keras does not compile {names} with"
        f" {JIT_COMPILERS[training.compiler_used]} on this device. Use --set"
        f" training.compiler={others[0]}."
    )


@contextlib.contextmanager
def notices_kept() -> Iterator[list[str]]:
    """Yields a list that holds the block's notices once the block is over."""
    notices: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Notice)
        yield notices
    for warning in caught:
        if issubclass(warning.category, Notice):
            notices.append(str(warning.message))


def summarize_model(model: Any, digest: str, files: dict[str, str]) -> ModelSummary:
    """Counts a built network; what cannot be counted is named.

    Args:
        model: Compiled.
        digest: Of the network, if it is the user's.
        files: Of the user's that it is from, with their digests.
    """
    from tfbench.models.structure import flops

    outputs: Any = getattr(model, "outputs", None) or ()
    own_optimizer = ""
    if foreign_model.comes_compiled(model):
        own_optimizer = type(model.optimizer).__name__
    counts: Keywords = {
        "digest": digest,
        "files": files,
        "own_optimizer": own_optimizer,
        "num_parameters": count_values(model.weights),
        "num_trainable_parameters": count_values(model.trainable_variables),
        "is_built": foreign_model.is_built(model),
        "num_outputs": outputs[0].shape[-1] if len(outputs) == 1 else None,
    }
    has_own_step = foreign_model.has_own_step(model)
    if has_own_step or not outputs:  # it may pass through its layers as often as it likes
        code = ".train_step" if has_own_step else ".call"
        uncounted = f"{model.name} ({type(model).__name__}{code})"
        return ModelSummary(**counts, uncounted_layers=(uncounted,))
    model_flops = flops.count_model(model)
    return ModelSummary(
        **counts,
        flops_per_sample=model_flops.forward,
        training_flops_per_sample=model_flops.training,
        main_product=flops.find_main_product(model) or (),
        uncounted_layers=model_flops.unknown,
    )


def count_values(variables: Collection[Any]) -> int:
    """Returns how many numbers variables hold."""
    return sum(math.prod(variable.shape) for variable in variables)


def require_apart(model: Any, splits: Splits) -> None:
    """Raises RecipeError unless a profile can take the step apart.

    A profile knows Keras's own step, of a graph of layers.
    """
    is_simple = all(len(getattr(model, name, None) or ()) == 1 for name in ("inputs", "outputs"))
    num_arrays = len(list_arrays(splits.train.arrays))
    if foreign_model.has_own_step(model) or not is_simple or num_arrays != 2:
        raise RecipeError(
            "a profile takes Keras's own training step of one input, one output and one array of"
            " targets apart. The network has a train_step of its own, no graph of layers, or"
            " several arrays. `tfbench run` measures its steps as a whole."
        )
