"""What `fit` is given where tfbench makes no batches: whole arrays, or batches of the user's."""

import dataclasses
import math
from typing import Any

import numpy as np

from tfbench.backends.array_feeding import finish
from tfbench.datasets.sources import fit_data
from tfbench.datasets.sources.splits import Pipeline, Split, Splits, list_arrays, map_arrays
from tfbench.errors import DatasetError, RecipeError
from tfbench.runs.batch_sizes import BatchSizes
from tfbench.runs.record import RunRequest

_SHORT = (
    "the last {} of {} training samples were left out: a run limited by steps or seconds has full"
    " batches only."
)

_SHUFFLED_ANEW = (
    "fit shuffles the samples as if the training began now: a resumed run has other batches than"
    " one that never stopped."
)


def hand_to_fit(splits: Splits, request: RunRequest) -> Splits:
    """Returns splits in memory with whole arrays for `fit`.

    A run that is limited by steps or seconds gets full batches only: a short last batch of an epoch
    would fall into some runs and not into others, and a compiler may make code for it.

    Raises:
        DatasetError: The samples are not arrays that `fit` can take.
    """
    _require_arrays(splits)
    recipe = request.recipe
    batch_size = recipe.training.global_batch_size
    num_samples = splits.train.num_samples
    notes = splits.notes
    num_short = num_samples % batch_size
    if recipe.measurement.is_limited and 0 < num_short < num_samples:
        notes = (*notes, _SHORT.format(num_short, num_samples))
        num_samples -= num_short
        num_short = 0
    if request.resume and splits.spec.shuffled:
        notes = (*notes, _SHUFFLED_ANEW)
    arrays = map_arrays(lambda array: array[:num_samples], _as_fed(splits.train, splits))
    inputs, *others = arrays
    arguments: dict[str, Any] = {"batch_size": batch_size, "shuffle": splits.spec.shuffled}
    arguments |= zip(("y", "sample_weight"), others, strict=False)
    num_steps = math.ceil(num_samples / batch_size)
    batches = BatchSizes(size=batch_size)
    if num_short:
        batches = BatchSizes(size=batch_size, last_size=num_short, num_steps=num_steps)
    pipeline = Pipeline(
        training=inputs,
        validation=_as_fed(splits.validation, splits),
        arguments=arguments,
        batches=batches,
        num_steps=num_steps,
        is_users=False,
    )
    return dataclasses.replace(splits, notes=notes, pipeline=pipeline)


def _require_arrays(splits: Splits) -> None:
    spec = splits.spec
    train = splits.train
    is_made_anew = train.read is not None or spec.stored_shape is not None or spec.mirrors
    is_pool = train.num_rows < train.num_samples
    has_own_order = spec.drawn or spec.num_rows is not None
    if is_made_anew or is_pool or has_own_order:
        raise DatasetError(
            f"training.feed: fit takes arrays in memory, and the samples of {splits.source} are"
            " read, cut, drawn or put in order for each batch. Use --set training.feed=pipeline."
        )


def _as_fed(split: Split, splits: Splits) -> tuple[Any, ...]:
    """Returns inputs, targets and weights as a script hands them over."""
    inputs, *others = split.arrays
    if splits.mean is None and splits.spec.input_scale == 1.0:
        return split.arrays
    return finish(np.array(inputs, np.float32), splits), *others


def require_parts(request: RunRequest, splits: Splits, num_replicas: int) -> None:
    """Raises RecipeError if Keras would fail to divide a batch among replicas of TensorFlow.

    To build a network, it takes the mean of the parts of a first batch, which must be numbers, and
    as many in each part. Parts of other batches may differ.
    """
    training = request.recipe.training
    if training.backend != "tensorflow" or num_replicas == 1:
        return
    if any(array.dtype.kind in "OSU" for array in list_arrays(splits.train.arrays)):
        raise RecipeError(
            "dataset.name: Keras cannot divide strings among replicas of TensorFlow: use one"
            " device, or make numbers of them in load_data()."
        )
    size = training.validation_batch_size or training.global_batch_size
    if splits.pipeline and splits.pipeline.is_users:
        size = splits.validation.num_rows  # of the first batch
    size = min(size, splits.validation.num_samples)
    num_left = size % num_replicas
    if request.recipe.measurement.is_limited or not num_left:
        return
    even = size - num_left
    advice = f"Use --set training.validation_batch_size={even}."
    if even == 0 or (splits.pipeline and fit_data.makes_batches(splits.pipeline.validation)):
        advice = f"Use another number of samples, such as {even + num_replicas}."
    raise RecipeError(
        "training.validation_batch_size: on TensorFlow, Keras must divide the first batch of a"
        f" validation among {num_replicas} replicas, and it has {size} samples. {advice}"
    )


def require_usable(splits: Splits, request: RunRequest) -> None:
    """Raises RecipeError if a run needs batches that tfbench makes, and others make them."""
    training = request.recipe.training
    are_users = splits.pipeline is not None and splits.pipeline.is_users
    num_steps = splits.pipeline.arguments.get("steps_per_epoch") if splits.pipeline else None
    if num_steps and num_steps % training.steps_per_execution:
        raise RecipeError(
            "training.steps_per_execution: must divide the steps_per_epoch that load_data returned,"
            f" {num_steps}. Received: {training.steps_per_execution}. Use --set"
            " training.steps_per_execution=1."
        )
    unusable = {
        "training.data_on_device": training.data_on_device,
        "training.evaluates_training": training.evaluates_training and are_users,
        "the number of batches that are made ahead": training.changes_pipeline and are_users,
        "distribution.strategy = multi_worker": request.worker_rank is not None,
        "a profile": request.profile,
    }
    for name, is_wanted in unusable.items():
        if not is_wanted:
            continue
        if are_users:
            raise RecipeError(
                f"{name}: needs samples in arrays, and load_data returned batches of its own. Leave"
                " it out, or return arrays."
            )
        raise RecipeError(
            f"{name}: needs batches that tfbench makes, and training.feed leaves them to fit. Use"
            " --set training.feed=pipeline."
        )
