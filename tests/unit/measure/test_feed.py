"""What `fit` is given where tfbench makes no batches."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from builders import build_recipe, build_request, build_spec
from tfbench import backends
from tfbench.datasets.sources.splits import Split, Splits
from tfbench.datasets.sources.user_arrays import splits_of_arrays
from tfbench.errors import DatasetError, RecipeError
from tfbench.measure import feed
from tfbench.runs.batch_sizes import BatchSizes
from tfbench.runs.record import RunRequest

X = np.arange(40, dtype="float32").reshape(10, 4)
Y = np.arange(10) % 3
W = np.linspace(0, 1, 10, dtype="float32")


def hand_over(training: Any, *, is_limited: bool = False) -> Any:
    splits = splits_of_arrays((training, (X[:5], Y[:5])), source="", where="")
    return feed.hand_to_fit(splits, build(4, steps=5 if is_limited else None))


def build(batch_size: int, **measurement: Any) -> RunRequest:
    training = {"global_batch_size": batch_size}
    return build_request(recipe=build_recipe(training=training, measurement=measurement))


def test_arguments_of_fit_are_those_of_a_script() -> None:
    splits = hand_over((X, Y, W))
    pipeline = splits.pipeline
    np.testing.assert_array_equal(pipeline.training, X)
    assert sorted(pipeline.arguments) == ["batch_size", "sample_weight", "shuffle", "y"]
    np.testing.assert_array_equal(pipeline.arguments["sample_weight"], W)
    assert pipeline.arguments["batch_size"] == 4
    assert pipeline.arguments["shuffle"]
    assert len(pipeline.validation) == 3
    assert not pipeline.is_users


def test_the_short_last_batch_of_an_epoch_counts_as_what_it_holds() -> None:
    pipeline = hand_over((X, Y)).pipeline
    assert pipeline.num_steps == 3
    assert pipeline.batches == BatchSizes(size=4, last_size=2, num_steps=3)


def test_a_run_limited_by_steps_or_seconds_has_full_batches_and_says_what_it_leaves_out() -> None:
    splits = hand_over((X, Y), is_limited=True)
    assert len(splits.pipeline.training) == len(splits.pipeline.arguments["y"]) == 8
    assert (splits.pipeline.num_steps, splits.pipeline.batches) == (2, BatchSizes(size=4))
    assert splits.notes
    assert "the last 2 of 10 training samples" in splits.notes[-1]


def test_images_are_scaled_as_tfbench_scales_them() -> None:
    images = np.random.default_rng(0).integers(0, 256, (8, 2, 2, 1)).astype("uint8")
    labels = np.arange(8) % 3
    spec = build_spec((2, 2, 1), 3, input_dtype="uint8", input_scale=1 / 255, mean="image")
    spec = dataclasses.replace(spec, shuffled=False)
    split = Split(inputs=images, targets=labels, num_samples=8)
    mean = images.mean(axis=0, dtype=np.float64).astype("float32")
    splits = Splits(spec=spec, train=split, validation=split, source="", mean=mean)
    batches = backends.current().build_training_dataset(splits, global_batch_size=8, seed=0)
    expected, _ = next(iter(batches))
    found = feed.hand_to_fit(splits, build(8)).pipeline
    assert found
    np.testing.assert_array_equal(found.training, np.asarray(expected))
    np.testing.assert_array_equal(found.validation[0], found.training)
    assert images.dtype == np.uint8


@pytest.mark.parametrize(
    "changes", [{"mirrors": True}, {"stored_shape": (3, 3, 1)}, {"drawn": True}, {"num_rows": 4}]
)
def test_samples_that_are_made_for_each_batch_are_refused(changes: dict[str, Any]) -> None:
    spec = dataclasses.replace(build_spec((2, 2, 1), 3), **changes)
    split = Split(inputs=np.zeros((8, 2, 2, 1)), targets=np.zeros(8), num_samples=8)
    splits = Splits(spec=spec, train=split, validation=split, source="here")
    with pytest.raises(DatasetError, match=r"Use --set training\.feed=pipeline"):
        feed.hand_to_fit(splits, build(4))


@pytest.mark.parametrize(
    "num_samples, steps, num_replicas, message",
    [
        (31, None, 2, r"--set training\.validation_batch_size=30\."),
        (1, None, 2, "Use another number of samples, such as 2"),
        (33, None, 3, r"--set training\.validation_batch_size=30\."),
        (63, None, 2, ""),
        (31, None, 1, ""),
        (31, 5, 2, ""),
    ],
)
def test_the_first_batch_of_a_validation_must_divide_among_replicas_of_tensorflow(
    num_samples: int, steps: int | None, num_replicas: int, message: str
) -> None:
    arrays = (np.zeros((96, 2)), np.zeros(96))
    validation = (np.zeros((num_samples, 2)), np.zeros(num_samples))
    splits = splits_of_arrays((arrays, validation), source="", where="")
    request = build(32, steps=steps)
    if not message:
        feed.require_parts(request, splits, num_replicas)
        return
    with pytest.raises(RecipeError, match=message):
        feed.require_parts(request, splits, num_replicas)


def test_strings_do_not_divide_among_replicas_of_tensorflow() -> None:
    arrays = Split(inputs=np.array(["a", "b"]), targets=None, num_samples=2)
    splits = SimpleNamespace(train=arrays)
    with pytest.raises(RecipeError, match="cannot divide strings"):
        feed.require_parts(build_request(), splits, 2)
