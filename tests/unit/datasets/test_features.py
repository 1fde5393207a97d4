"""Generated vectors: what their targets are a function of."""

import numpy as np

from outcomes import error_of
from tfbench.datasets import features
from tfbench.errors import RecipeError
from tfbench.schema import build


def test_targets_are_the_same_function_of_the_inputs_in_training_and_validation() -> None:
    config = features.Config(num_samples=3000, validation_samples=300)
    splits = features.load_splits(config, None)
    assert splits.train.inputs.shape == (3000, 1, 4)
    assert splits.train.targets.shape == (3000, 1)
    assert splits.train.targets.dtype == splits.train.inputs.dtype == np.float32
    assert 0.6 < splits.train.targets.std() < 1.4
    # Near inputs have near targets: the nearest training sample tells most of a validation sample's
    # target.
    distances = ((splits.validation.inputs[:, None, 0] - splits.train.inputs[None, :, 0]) ** 2).sum(
        -1
    )
    error = splits.validation.targets - splits.train.targets[distances.argmin(1)]
    assert np.var(error) < 0.5 * np.var(splits.validation.targets)


def test_the_seed_decides() -> None:
    one, same, other = (
        features.load_splits(features.Config(seed=seed), None) for seed in (1, 1, 2)
    )
    assert np.array_equal(one.train.targets, same.train.targets)
    assert not np.array_equal(one.train.targets, other.train.targets)
    assert not np.array_equal(one.train.inputs[:10], one.validation.inputs[:10])


def test_more_than_fits_in_memory_is_rejected() -> None:
    assert (
        error_of(RecipeError, build, features.Config, {"num_features": 1_000_000}, "dataset")
        == "dataset: (num_samples + validation_samples) * time_steps * num_features must be at most"
        " 2,147,483,648 values. Received: 11,000,000,000."
    )
