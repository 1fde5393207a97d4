"""Synthetic data: shaped as the real one, learnable, and a function of the seed."""

import dataclasses

import numpy as np
import pytest
import scipy.spatial

from tfbench.datasets import cifar10, text
from tfbench.datasets.sources import synthetic
from tfbench.datasets.sources.splits import find_mismatch
from tfbench.recipe.dataset_spec import DatasetSpec

DIGITS = DatasetSpec(
    input_shape=(28, 28, 1),
    input_dtype="uint8",
    num_classes=10,
    train_samples=600,
    validation_samples=100,
    input_scale=1 / 255,
)
CROPS = dataclasses.replace(
    cifar10.describe(cifar10.Config(crop=24, mirror=True, scaling="mean_image")),
    train_samples=600,
    validation_samples=100,
)
SERIES = DatasetSpec(
    input_shape=(10, 1), target_shape=(10, 1), train_samples=80, validation_samples=20
)

TEXT = text.describe(text.Config(context=20, num_samples=600, validation_samples=100))


@pytest.mark.parametrize("spec", [DIGITS, CROPS, SERIES, TEXT])
def test_has_the_sizes_of_the_real_set_and_is_a_function_of_the_seed(spec: DatasetSpec) -> None:
    one = synthetic.generate_splits(spec, seed=1)
    same = synthetic.generate_splits(spec, seed=1)
    other = synthetic.generate_splits(spec, seed=2)
    assert (one.synthetic, one.source) == (True, "synthetic, seed 1")
    assert find_mismatch(one.train, spec, spec.train_samples) is None
    assert find_mismatch(one.validation, spec, spec.validation_samples) is None
    if spec.mean == "image":  # of whole images
        np.testing.assert_allclose(one.mean, one.train.inputs.mean(axis=0), rtol=1e-5)
    assert np.array_equal(one.train.inputs, same.train.inputs)
    assert np.array_equal(one.validation.targets, same.validation.targets)
    assert not np.array_equal(one.train.inputs, other.train.inputs)


@pytest.mark.parametrize("name", ["validation", "test"])
def test_what_is_learned_holds_for_other_samples(name: str) -> None:
    splits = synthetic.generate_splits(dataclasses.replace(DIGITS, test_samples=100), seed=0)
    held_out = getattr(splits, name)
    trained = splits.train.inputs.reshape(600, -1)
    images = held_out.inputs.reshape(100, -1)
    means = [trained[splits.train.targets == digit].mean(axis=0) for digit in range(10)]
    nearest = scipy.spatial.distance.cdist(images, means).argmin(axis=1)
    assert (nearest == held_out.targets).mean() > 0.5
    assert len(np.unique(np.concatenate([trained, images]), axis=0)) == 700


def test_most_tokens_of_a_text_are_followed_by_the_same_one_again() -> None:
    splits = synthetic.generate_splits(TEXT, seed=0)
    follows = dict(zip(splits.train.inputs.flat, splits.train.targets.flat, strict=True))
    inputs = splits.validation.inputs
    targets = splits.validation.targets
    assert np.array_equal(inputs[:, 1:], targets[:, :-1])
    pairs = zip(inputs.flat, targets.flat, strict=True)
    assert 0.5 < np.mean([follows[token] == after for token, after in pairs]) < 0.9


def test_a_large_set_is_drawn_from_a_pool_that_fits_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(synthetic, "POOL_BYTES", 784 * 100)
    splits = synthetic.generate_splits(DIGITS, seed=0)
    assert (len(splits.train.inputs), len(splits.validation.inputs)) == (80, 20)
    assert (splits.train.num_samples, splits.validation.num_samples) == (600, 100)
    assert splits.source == "synthetic, seed 0, drawn from 100 in memory"
