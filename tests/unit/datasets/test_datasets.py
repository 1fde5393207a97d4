"""Descriptions of data sets, and the sine wave."""

import math
from pathlib import Path

import pytest

from outcomes import error_of
from tfbench.datasets import cifar10, sine, text
from tfbench.errors import DatasetError, RecipeError
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
    with pytest.raises(
        RecipeError, match=r"^dataset: num_points must leave room .* Received: 100 with 90 \+ 10\.$"
    ):
        build(sine.Config, {"train_points": 90}, "dataset")


def test_several_views_of_an_image_need_a_crop() -> None:
    with pytest.raises(
        RecipeError, match=r"^dataset: views = 9 needs a crop, such as --set dataset\.crop=24\."
    ):
        build(cifar10.Config, {"views": 9}, "dataset")
    crops = cifar10.describe(cifar10.Config(crop=24, scaling="mean_image", views=9))
    assert (crops.input_shape, crops.stored_shape, crops.mean) == (
        (24, 24, 3),
        (32, 32, 3),
        "image",
    )


def test_windows_of_a_text_lie_at_even_distances_and_validation_is_its_last_tenth(
    tmp_path: Path,
) -> None:
    data = bytes(range(100)) + "äöü".encode() * 10
    (tmp_path / "text").write_bytes(data)
    splits = text.load_splits(
        text.Config(context=4, num_samples=3, validation_samples=2), str(tmp_path / "text")
    )
    # 144 bytes of 160: the last window of five begins at 139
    assert splits.train.inputs.tolist() == [list(data[start : start + 4]) for start in (0, 69, 139)]
    assert splits.train.targets.tolist() == [
        list(data[start + 1 : start + 5]) for start in (0, 69, 139)
    ]
    assert splits.validation.targets.tolist() == [
        list(data[start : start + 4]) for start in (145, 156)
    ]
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
