"""Descriptions of data sets, and the sine wave."""

import math

import pytest

from tfbench.datasets import cifar10, sine
from tfbench.errors import RecipeError
from tfbench.schema import build


def test_sine_windows_hold_the_wave_and_its_next_values() -> None:
    splits = sine.load_splits(sine.Config(), None)

    def wave(point: int) -> float:
        return 0.8 * math.sin(2 * 6 * math.pi * point / 99)

    assert splits.train.inputs.shape == splits.train.targets.shape == (80, 10, 1)
    assert splits.train.inputs[3, :, 0] == pytest.approx([wave(p) for p in range(3, 13)], abs=1e-6)
    assert splits.train.targets[3, :, 0] == pytest.approx([wave(p) for p in range(4, 14)], abs=1e-6)
    # Training windows go on at the first point after the last.
    assert splits.train.targets[79, :, 0] == pytest.approx([wave(p) for p in range(10)], abs=1e-6)
    # Validation windows end with the wave: the last target of the last sample is the last point.
    assert len(splits.validation.inputs) == 10
    assert splits.validation.targets[-1, -1, 0] == pytest.approx(wave(99), abs=1e-6)


def test_sine_needs_room_for_a_validation_sample() -> None:
    with pytest.raises(RecipeError, match=r"^dataset: num_points must leave room .* Received: 100 with 90 \+ 10\.$"):
        build(sine.Config, {"train_points": 90}, "dataset")


def test_several_views_of_an_image_need_a_crop() -> None:
    with pytest.raises(RecipeError, match=r"^dataset: views = 9 needs a crop, such as crop = 24\."):
        build(cifar10.Config, {"views": 9}, "dataset")
    crops = cifar10.describe(cifar10.Config(crop=24, scaling="mean_image", views=9))
    assert (crops.input_shape, crops.stored_shape, crops.mean) == ((24, 24, 3), (32, 32, 3), "image")
