"""Training batches are bit for bit as they always were, on every backend.

The digests of what is not shuffled or cropped were recorded with the pipeline of the first
releases, which gathered sample by sample; the others when orders and crops became the same for
every backend.
"""

import dataclasses
import hashlib
import itertools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

from builders import build_spec
from kinds import Fields
from tfbench.backends.array_feeding import ArrayFeeding
from tfbench.backends.tensorflow import input_pipeline
from tfbench.datasets.sources.splits import Split, Splits, mean_of

NUM_BATCHES = 12

IMAGES = {"shape": (6, 6, 3), "validation_samples": 23, "input_scale": 1 / 255}
CROPPED = IMAGES | {"stored_shape": (8, 8, 3), "mirrors": True}
VALUES = {
    "shape": (4,),
    "num_classes": None,
    "target_shape": (2,),
    "train_samples": 37,
    "validation_samples": 20,
}


def of_training(batch: int = 16, seed: int = 3, **options: Any) -> Fields:
    return {"global_batch_size": batch, "seed": seed, **options}


# What the data are, how they are asked for, and the digest of the batches.
CASES = {
    "shuffled, wraps inside a batch": (IMAGES, of_training(), "9ea8919f12cf2166"),
    "a batch of several passes": (IMAGES, of_training(128), "e9e5e0c2b6678f04"),
    "gone on with in the first pass": (IMAGES, of_training(first_step=2), "b3ab5c5f0da3b301"),
    "gone on with far away": (IMAGES, of_training(first_step=1_000_003), "b5ac427ebfe53287"),
    "gone on with at the end of a pass": (
        IMAGES,
        of_training(25, first_step=4),
        "0ec8a8df6ec7e8cb",
    ),
    "in order": (IMAGES | {"shuffled": False}, of_training(first_step=5), "472d9ee73576e7cb"),
    "drawn": (IMAGES | {"drawn": True}, of_training(), "b44fbf0d3e56660f"),
    "crops and mirrors": (CROPPED, of_training(), "a09baf830f33375e"),
    "crops of a run gone on with": (CROPPED, of_training(first_step=7), "7757d5c4e21f0d17"),
    "less the mean of each pixel": (CROPPED | {"mean": "image"}, of_training(), "83c60604ba532380"),
    "less the mean of each channel": (
        IMAGES | {"mean": "channel"},
        of_training(),
        "31d5465e38b2d182",
    ),
    "a pool": (IMAGES | {"train_samples": 1000}, of_training(64), "5219ef699ee3ca50"),
    "values": (VALUES, of_training(10), "1f1b09ca171c9784"),
    "validation": (IMAGES, {"batch_size": 16}, "c41bbab0bde751f6"),
    "validation of the training samples": (
        CROPPED,
        {"batch_size": 16, "split": "train"},
        "73bca88c9fc28338",
    ),
    "a view": (CROPPED | {"views": 10}, {"batch_size": 16, "view": 6}, "b28d5e0d38d7806c"),
}


def make_splits(fields: Fields) -> Splits:
    """Makes data of known bytes; of a pool of 50 samples where there are more."""
    spec = build_spec(**fields)
    rng = np.random.default_rng(11)
    splits = {}
    for name, count in (("train", spec.train_samples), ("validation", spec.validation_samples)):
        shape = min(count, 50), *(spec.stored_shape or spec.input_shape)
        if spec.num_classes is None:
            inputs = rng.normal(size=shape).astype(np.float32)
            targets = inputs[:, :2] * 2
        else:
            inputs = rng.integers(0, 256, shape, np.uint8)
            targets = rng.integers(0, 10, len(inputs))
        splits[name] = Split(inputs=inputs, targets=targets, num_samples=count)
    mean = mean_of(splits["train"].inputs, spec)
    return Splits(spec=spec, source="test", mean=mean, **splits)


def build(fields: Fields, options: Fields, feeding: Any = input_pipeline) -> Any:
    make = feeding.build_training_dataset if "seed" in options else feeding.build_validation_dataset
    return make(make_splits(fields), **options)


def digest(batches: Iterator[tuple[Any, Any]]) -> str:
    """Returns what differs where a bit, a shape or a type of the first batches does."""
    found = hashlib.sha256()
    for batch in itertools.islice(batches, NUM_BATCHES):
        for values in batch:
            array = np.asarray(values)
            found.update(f"{array.dtype.name} {array.shape}".encode())
            found.update(array.tobytes())
    return found.hexdigest()[:16]


@pytest.mark.parametrize("feeding", [input_pipeline, ArrayFeeding()], ids=["TensorFlow", "NumPy"])
@pytest.mark.parametrize("name", CASES)
def test_batches_are_the_same_bit_for_bit(name: str, feeding: Any) -> None:
    fields, options, expected = CASES[name]
    assert digest(iter(build(fields, options, feeding))) == expected


@pytest.mark.parametrize("name", ["shuffled, wraps inside a batch", "validation"])
def test_batches_too_heavy_for_one_thread_are_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_pipeline, "LIGHT_BYTES", 0)
    test_batches_are_the_same_bit_for_bit(name, input_pipeline)


@pytest.mark.parametrize(("kept_bytes", "times"), [(input_pipeline.KEPT_BYTES, 1), (0, 2)])
def test_batches_of_a_small_validation_set_are_made_once(
    kept_bytes: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = mock.Mock(side_effect=lambda row: row)
    splits = make_splits(IMAGES)
    noted = dataclasses.replace(splits.validation, read=read)
    splits = dataclasses.replace(splits, validation=noted)
    monkeypatch.setattr(input_pipeline, "KEPT_BYTES", kept_bytes)
    batches = input_pipeline.build_validation_dataset(splits, batch_size=16)
    assert digest(iter(batches)) == digest(iter(batches))
    assert read.call_count == times * noted.num_samples


def test_shapes_and_numbers_of_batches_are_known_beforehand() -> None:
    training = build(IMAGES, of_training())
    validation = build(IMAGES, {"batch_size": 16})
    assert training.element_spec[0].shape == [16, 6, 6, 3]
    assert validation.element_spec[0].shape.as_list() == [None, 6, 6, 3]
    assert training.cardinality().numpy() < 0  # Keras: not known, or infinite
    assert validation.cardinality().numpy() == 2
