"""Descriptions of data sets, and those that are generated or of one file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.spatial

from kinds import Fields
from outcomes import error_of
from tfbench.datasets import cifar10, features, imagenet, sine, text
from tfbench.errors import DatasetError, RecipeError
from tfbench.schema import build


def test_sine_windows_hold_the_wave_and_its_next_values() -> None:
    splits = sine.load_splits(sine.Config(), None)
    wave = 0.8 * np.sin(2 * 6 * np.pi * np.arange(100) / 99)
    inputs = splits.train.inputs[..., 0]
    targets = splits.train.targets[..., 0]
    assert inputs.shape == targets.shape == (80, 10)
    assert inputs[3] == pytest.approx(wave[3:13], abs=1e-6)
    assert targets[3] == pytest.approx(wave[4:14], abs=1e-6)
    # Training windows go on at the first point after the last.
    assert targets[79] == pytest.approx(wave[:10], abs=1e-6)
    # Validation windows end with the wave: the last target of the last sample is the last point.
    assert len(splits.validation.inputs) == 10
    assert splits.validation.targets[-1, -1, 0] == pytest.approx(wave[99], abs=1e-6)


def test_a_crop_is_what_the_network_sees_of_an_image() -> None:
    crops = cifar10.describe(cifar10.Config(crop=24, scaling="mean_image", views=9))
    assert (crops.input_shape, crops.stored_shape) == ((24, 24, 3), (32, 32, 3))
    assert crops.mean == "image"


def test_windows_of_a_text_lie_at_even_distances_and_validation_is_its_last_tenth(
    tmp_path: Path,
) -> None:
    data = bytes(range(100)) + "äöü".encode() * 10
    (tmp_path / "text").write_bytes(data)
    config = text.Config(context=4, num_samples=3, validation_samples=2)
    splits = text.load_splits(config, str(tmp_path / "text"))
    # 144 bytes of 160: the last window of five begins at 139
    for row, start in enumerate((0, 69, 139)):
        assert bytes(splits.train.inputs[row].tolist()) == data[start : start + 4]
        assert bytes(splits.train.targets[row].tolist()) == data[start + 1 : start + 5]
    for row, start in enumerate((145, 156)):
        assert bytes(splits.validation.targets[row].tolist()) == data[start : start + 4]
    assert splits.source.startswith("text, 160 bytes, SHA-256 ")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            None,
            "needs a file. Name one UTF-8 text file (--data-dir FILE), or use --data synthetic.",
        ),
        (b"", "must hold 50 bytes or more, since dataset.context = 4. Received: 0."),
        (b"a\xff" * 50, "is not UTF-8 text, from byte 1 on. Name one"),
        ("folder", "cannot be read (Is a directory). Name one"),
    ],
)
def test_what_is_no_text_is_rejected(
    tmp_path: Path, data: bytes | str | None, message: str
) -> None:
    path = tmp_path / "text"
    if isinstance(data, bytes):
        path.write_bytes(data)
    folder = None if data is None else str(tmp_path if data == "folder" else path)
    assert message in error_of(DatasetError, text.load_splits, text.Config(context=4), folder)


def test_targets_of_features_are_one_function_of_the_inputs_in_training_and_validation() -> None:
    config = features.Config(num_samples=3000, validation_samples=300)
    splits = features.load_splits(config, None)
    train = splits.train
    assert (train.inputs.shape, train.targets.shape) == ((3000, 1, 4), (3000, 1))
    assert train.targets.dtype == train.inputs.dtype == np.float32
    assert 0.6 < train.targets.std() < 1.4
    # Near inputs have near targets: the nearest training sample tells most of a validation sample's
    # target.
    distances = scipy.spatial.distance.cdist(splits.validation.inputs[:, 0], train.inputs[:, 0])
    error = splits.validation.targets - train.targets[distances.argmin(1)]
    assert np.var(error) < 0.5 * np.var(splits.validation.targets)


def test_the_seed_decides_about_features() -> None:
    one = features.load_splits(features.Config(seed=1), None)
    same = features.load_splits(features.Config(seed=1), None)
    other = features.load_splits(features.Config(seed=2), None)
    assert np.array_equal(one.train.targets, same.train.targets)
    assert not np.array_equal(one.train.targets, other.train.targets)
    assert not np.array_equal(one.train.inputs[:10], one.validation.inputs[:10])


@pytest.mark.parametrize(
    ("module", "values", "problem"),
    [
        (
            features,
            {"num_features": 1_000_000},
            "(num_samples + validation_samples) * time_steps * num_features must be at most"
            " 2,147,483,648 values. Received: 11,000,000,000.",
        ),
        (
            sine,
            {"train_points": 90},
            "num_points must leave room for a validation sample: more than train_points +"
            " sequence_length. Received: 100 with 90 + 10.",
        ),
        (cifar10, {"views": 9}, "views = 9 needs a crop, such as --set dataset.crop=24."),
        (
            imagenet,
            {"image_size": 300},
            "image_size must be at most stored_size. Received: 300 with 256.",
        ),
        (
            imagenet,
            {"image_size": 256, "views": 10},
            "views = 10 needs an image_size below stored_size = 256.",
        ),
    ],
)
def test_options_that_do_not_fit_together_are_rejected(
    module: Any, values: Fields, problem: str
) -> None:
    message = error_of(RecipeError, build, module.Config, values, "dataset")
    assert message == f"dataset: {problem}"
