import numpy as np
import pytest

from tfbench import synthetic
from tfbench.results import DatasetSpec
from tfbench.splits import is_plausible

DIGITS = DatasetSpec(
    input_shape=(28, 28, 1),
    input_dtype="uint8",
    target_shape=(),
    num_classes=10,
    train_samples=600,
    validation_samples=100,
    input_scale=1 / 255,
)
SERIES = DatasetSpec(
    input_shape=(10, 1),
    input_dtype="float32",
    target_shape=(10, 1),
    num_classes=None,
    train_samples=80,
    validation_samples=20,
)


@pytest.mark.parametrize("spec", [DIGITS, SERIES])
def test_has_shapes_types_and_sizes_of_the_real_set(spec: DatasetSpec) -> None:
    splits = synthetic.generate_splits(spec, seed=1)
    assert splits.synthetic
    assert splits.source == "synthetic, seed 1"
    for split, count in ((splits.train, spec.train_samples), (splits.validation, spec.validation_samples)):
        assert is_plausible(split, spec) is None
        assert split.num_samples == len(split.inputs) == count
        assert split.targets.shape == (count, *spec.target_shape)


@pytest.mark.parametrize("spec", [DIGITS, SERIES])
def test_is_a_function_of_the_seed(spec: DatasetSpec) -> None:
    one, same, other = (synthetic.generate_splits(spec, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.train.inputs, same.train.inputs)
    assert np.array_equal(one.validation.targets, same.validation.targets)
    assert not np.array_equal(one.train.inputs, other.train.inputs)


def test_can_be_learned_but_not_by_chance() -> None:
    splits = synthetic.generate_splits(DIGITS, seed=0)
    means = np.stack([splits.train.inputs[splits.train.targets == c].mean(0) for c in range(10)]).reshape(10, -1)
    images = splits.validation.inputs.reshape(100, -1).astype(float)
    nearest = ((images[:, None] - means[None]) ** 2).sum(-1).argmin(1)
    assert (nearest == splits.validation.targets).mean() > 0.5


def test_training_and_validation_share_no_sample() -> None:
    splits = synthetic.generate_splits(DIGITS, seed=0)
    train = {image.tobytes() for image in splits.train.inputs}
    assert not any(image.tobytes() in train for image in splits.validation.inputs)


def test_a_large_set_is_drawn_from_a_pool_that_fits_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "POOL_BYTES", 784 * 100)
    splits = synthetic.generate_splits(DIGITS, seed=0)
    assert (len(splits.train.inputs), len(splits.validation.inputs)) == (80, 20)
    assert (splits.train.num_samples, splits.validation.num_samples) == (600, 100)
    assert splits.source == "synthetic, seed 0, drawn from 100 in memory"
