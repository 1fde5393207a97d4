"""The batches that a model is fed with, against what plain NumPy makes of the same samples."""

import dataclasses
import itertools
import os
from typing import Any

import numpy as np
import pytest

from builders import build_spec
from tfbench.backends.array_feeding import ArrayFeeding
from tfbench.backends.tensorflow import input_pipeline
from tfbench.backends.tensorflow.input_pipeline import (
    build_training_dataset,
    build_validation_dataset,
)
from tfbench.datasets.sources.splits import ALIGNMENT, Split, Splits, allocate, mean_of
from tfbench.recipe.sections import TrainingConfig
from tfbench.runs.placement_record import BatchPart

# pixels a side
STORED = 8
SEEN = 4


def build_images(count: int, **fields: Any) -> Splits:
    """Builds images of random bytes, each with its own number as label.

    `fields` are those of the description.
    """
    images = np.random.default_rng(7).integers(0, 256, (count, STORED, STORED, 3), np.uint8)
    sizes = {"train_samples": count, "validation_samples": count}
    spec = build_spec((SEEN, SEEN, 3), count, **{"stored_shape": images.shape[1:]} | sizes | fields)
    split = Split(inputs=images, targets=np.arange(count), num_samples=count)
    mean = mean_of(images, spec)
    return Splits(spec=spec, train=split, validation=split, source="test", mean=mean)


def take(dataset: Any, count: int) -> list[tuple[Any, Any]]:
    """Returns the first batches as arrays."""
    return [
        (np.asarray(inputs), np.asarray(targets))
        for inputs, targets in itertools.islice(dataset, count)
    ]


def find_crop(seen: Any, stored: Any) -> list[tuple[int, int, bool]]:
    """Returns every (top, left, turned) at which the stored image looks like this."""
    found = []
    for y, x in np.ndindex(STORED - SEEN + 1, STORED - SEEN + 1):
        part = stored[y : y + SEEN, x : x + SEEN]
        for turned, image in ((False, part), (True, part[:, ::-1])):
            if np.allclose(seen, image, atol=1e-4):
                found.append((y, x, turned))
    return found


@pytest.mark.parametrize("mean", ["none", "image"])
def test_a_training_image_is_a_part_of_the_stored_one_less_its_mean_and_may_be_turned(
    mean: str,
) -> None:
    splits = build_images(16, mean=mean, mirrors=True, input_scale=0.5)
    expected = (splits.train.inputs - (splits.mean if mean == "image" else 0.0)) * 0.5
    places = []
    for images, labels in take(build_training_dataset(splits, global_batch_size=8, seed=1), 8):
        assert images.dtype == np.float32
        for image, label in zip(images, labels, strict=True):
            (place,) = find_crop(image, expected[label])
            places.append(place)
    tops, lefts, turned = zip(*places, strict=True)
    assert set(tops) == set(lefts) == set(range(STORED - SEEN + 1))
    assert 16 < sum(turned) < 48  # of 64
    assert len({(y, x) for y, x, _ in places}) > 15  # of 25: rows and columns are drawn apart


def test_memory_that_tensorflow_can_use_is_not_copied() -> None:
    array = allocate((3, 5), np.int64)
    assert array.ctypes.data % ALIGNMENT == 0
    array[:] = np.arange(15).reshape(3, 5)
    shared = input_pipeline.on_host(array)
    copied = input_pipeline.on_host(array[1:])
    array[:] = 0
    assert shared.numpy().sum() == 0
    assert copied.numpy().tolist() == [[5, 6, 7, 8, 9], [10, 11, 12, 13, 14]]


def build_read(count: int) -> Splits:
    """Builds images that are read one by one, by their numbers, in batches like those in memory."""
    stored = build_images(count, mirrors=True)
    images = stored.train.inputs
    numbered = dataclasses.replace(stored.train, inputs=np.arange(count), read=images.__getitem__)
    return dataclasses.replace(stored, train=numbered, validation=numbered)


THIRDS = [BatchPart(index, 3) for index in range(3)]
SOURCES = {
    "in memory": lambda count: build_images(count, mirrors=True),
    "read one by one": build_read,
}


def joined(*parts: list[tuple[Any, Any]]) -> list[tuple[bytes, bytes]]:
    """Returns the batches that the parts of several workers make together."""
    batches = []
    for batch in itertools.zip_longest(*parts, fillvalue=(np.zeros(0), np.zeros(0))):
        inputs = b"".join(inputs.tobytes() for inputs, _ in batch)
        batches.append((inputs, b"".join(labels.tobytes() for _, labels in batch)))
    return batches


@pytest.mark.parametrize(
    ("source", "feeding"),
    [*((name, input_pipeline) for name in SOURCES), ("in memory", ArrayFeeding())],
)
def test_the_parts_of_several_workers_are_together_the_batches_of_one(
    source: str, feeding: Any
) -> None:
    splits = SOURCES[source](10)
    options = {"global_batch_size": 6, "seed": 3, "first_step": 2}
    whole = take(feeding.build_training_dataset(splits, **options), 7)
    parts = [
        take(feeding.build_training_dataset(splits, **options, part=part), 7) for part in THIRDS
    ]
    assert [len(labels) for _, labels in parts[1]] == [2] * 7
    assert joined(*parts) == joined(whole)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("num_prefetched", "num_parallel"), [(1, 1), (2, 3), (4, 0)])
def test_batches_are_the_same_however_many_are_made_ahead(
    source: str, num_prefetched: int, num_parallel: int
) -> None:
    splits = SOURCES[source](10)
    how = {"num_prefetched": num_prefetched, "num_parallel": num_parallel}
    whole = take(build_training_dataset(splits, global_batch_size=6, seed=3), 7)
    ahead = take(build_training_dataset(splits, global_batch_size=6, seed=3, **how), 7)
    assert joined(ahead) == joined(whole)


@pytest.mark.parametrize(
    ("keys", "num_ahead"),
    [
        ({}, 4 + 2),  # images that are cut and turned take work
        ({"parallel_batches": 1}, 4),
        ({"parallel_batches": 3, "prefetched_batches": 2}, 2 + 3),
        ({"parallel_batches": 0}, 4 + len(os.sched_getaffinity(0))),
    ],
)
def test_a_recipe_says_how_many_batches_are_made_ahead(
    keys: dict[str, int], num_ahead: int
) -> None:
    training = TrainingConfig(global_batch_size=6, epochs=1, **keys)
    assert input_pipeline.count_ahead(build_images(10, mirrors=True), training) == num_ahead
    if "parallel_batches" not in keys:
        light = build_images(10, stored_shape=None)
        assert input_pipeline.count_ahead(light, training) == 4


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("count", "sizes"), [(13, ([2, 2], [2, 2], [2, 2, 1])), (2, ([0], [1], [1]))]
)
def test_several_workers_together_evaluate_every_sample_once(
    source: str, count: int, sizes: Any
) -> None:
    splits = SOURCES[source](count)
    whole = take(build_validation_dataset(splits, batch_size=6), 9)
    parts = [take(build_validation_dataset(splits, batch_size=6, part=part), 9) for part in THIRDS]
    assert tuple([len(inputs) for inputs, _ in part] for part in parts) == sizes
    assert joined(*parts) == joined(whole)
