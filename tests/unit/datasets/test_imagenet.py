"""ImageNet-shaped data from folders of tiny images, made here."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from outcomes import error_of
from tfbench.backends.array_feeding import ArrayFeeding
from tfbench.backends.tensorflow.input_pipeline import (
    broken_samples_named,
    build_validation_dataset,
)
from tfbench.datasets import imagenet
from tfbench.datasets.imagenet import read_array
from tfbench.datasets.sources.splits import Splits
from tfbench.errors import DatasetError

SMALL = imagenet.Config(num_classes=2, image_size=6, stored_size=8)


def write_image(path: Path, brightness: int) -> None:
    """Writes a grey image of 10 rows and 12 columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = np.full((10, 12, 3), brightness, np.uint8)
    encode = tf.io.encode_png if path.suffix == ".png" else tf.io.encode_jpeg
    path.write_bytes(encode(image).numpy())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of two classes.

    3 + 2 training images of brightness 10 to 50, and one validation image of each.
    """
    names = ["tench/b.JPEG", "tench/a.jpg", "tench/c.jpeg", "crane/a.png", "crane/b.jpg"]
    for number, name in enumerate(names, start=1):
        write_image(tmp_path / "train" / name, 10 * number)
    (tmp_path / "train" / "tench" / "notes.txt").write_text("no image")
    write_image(tmp_path / "val" / "tench" / "x.jpg", 200)
    write_image(tmp_path / "val" / "crane" / "x.jpg", 100)
    return tmp_path


def load(folder: Path, **values: int) -> Splits:
    return imagenet.load_splits(dataclasses.replace(SMALL, **values), str(folder))


def brightness_of(images: Any, column: int = 0) -> list[float]:
    """Returns how bright the first row of each image is there, in red."""
    return np.round(np.asarray(images)[:, 0, column, 0] + 123.68).tolist()


def test_classes_are_the_folders_in_the_order_of_their_names(folder: Path) -> None:
    splits = load(folder)
    assert splits.source == f"image files, {folder}, 5 + 2 images"
    assert (splits.spec.train_samples, splits.spec.validation_samples) == (5, 2)
    ((images, labels),) = build_validation_dataset(splits, batch_size=2)
    assert sorted(zip(labels.numpy(), brightness_of(images), strict=True)) == [(0, 100), (1, 200)]
    ((images, labels),) = build_validation_dataset(splits, batch_size=5, split="train")
    assert labels.numpy().tolist() == splits.train.targets.tolist() == [0, 0, 1, 1, 1]
    assert images.shape == (5, 6, 6, 3)
    # Of a.png and b.jpg, then a.jpg, b.JPEG and c.jpeg
    expected = np.array([[40], [50], [20], [10], [30]]) - np.array([123.68, 116.779, 103.939])
    np.testing.assert_allclose(images.numpy()[:, 3, 3], expected, atol=1.5)  # JPEG


@pytest.mark.parametrize(("height", "width", "size"), [(64, 80, 32), (50, 37, 48), (16, 16, 16)])
def test_an_image_is_resized_bilinearly_by_the_centres_of_pixels(
    tmp_path: Path, height: int, width: int, size: int
) -> None:
    waves = np.sin(
        np.arange(height)[:, None, None] / 5 + np.arange(width)[None, :, None] / 7 + np.arange(3)
    )
    image = (127 + 100 * waves).astype(np.uint8)
    side = min(height, width)
    square = tf.image.crop_to_bounding_box(
        image, (height - side) // 2, (width - side) // 2, side, side
    )
    path = tmp_path / "image.png"
    path.write_bytes(tf.io.encode_png(image).numpy())
    read = read_array(str(path).encode(), size)
    np.testing.assert_allclose(read, tf.image.resize(square, [size, size]), atol=1.01)


@pytest.mark.parametrize("mode", ["1", "P", "RGBA", "I;16", "CMYK"])
def test_an_image_of_any_mode_is_as_bright_as_it_is_for_every_backend(
    folder: Path, mode: str
) -> None:
    grey = np.tile(np.array([0, 255, 128, 64], np.uint8), (8, 2))
    image = Image.fromarray(grey.astype(np.uint16) << 8)
    if mode != "I;16":
        image = Image.fromarray(grey).convert(mode)
    for path in folder.rglob("*.*g"):
        path.unlink()
        image.save(path, "TIFF" if mode == "CMYK" else "PNG")
    splits = load(folder, image_size=8)
    ((images, _),) = build_validation_dataset(splits, batch_size=2)
    (others, _), *_ = ArrayFeeding().build_validation_dataset(splits, batch_size=2)
    assert np.array_equal(images, others)
    columns = [brightness_of(others, column)[0] for column in range(4)]
    assert columns[:2] == [0, 255]
    assert mode == "1" or columns[2:] == pytest.approx([128, 64], abs=1)


def test_a_large_image_is_decoded_at_a_part_of_its_size(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    blocks = Image.fromarray(rng.integers(0, 120, (9, 12, 3), np.uint8))
    smooth = np.asarray(blocks.resize((1200, 900), Image.Resampling.BILINEAR))
    noise = rng.integers(0, 20, smooth.shape, np.uint8)
    path = tmp_path / "image.jpg"
    Image.fromarray(smooth + noise).save(path, quality=95)
    kinds = {
        500: cv2.IMREAD_COLOR,
        450: cv2.IMREAD_REDUCED_COLOR_2,
        200: cv2.IMREAD_REDUCED_COLOR_4,
        112: cv2.IMREAD_REDUCED_COLOR_8,
    }
    for size, kind in kinds.items():
        assert imagenet._choose_kind(path.read_bytes(), size) == kind
        with Image.open(path) as opened:
            expected = opened.crop((150, 0, 1050, 900)).resize((size, size), Image.Resampling.BOX)
        difference = read_array(str(path).encode(), size).astype(int) - np.asarray(expected)
        assert np.abs(difference).mean() < 5


def test_files_that_are_no_images_are_counted(folder: Path) -> None:
    (folder / "val" / "crane" / "x.tif").touch()
    (folder / "val" / "crane" / ".hidden").touch()
    _, *notes = load(folder).notes
    assert notes == [
        f"{folder}/train: files not read as images: 1 .txt.",
        f"{folder}/val: files not read as images: 1 .tif.",
    ]


@pytest.mark.parametrize("contents", [None, b"", b"not an image"])
def test_an_image_that_is_missing_or_damaged_is_named_by_every_backend(
    folder: Path, contents: bytes | None
) -> None:
    splits = load(folder)
    path = folder / "val" / "crane" / "x.jpg"
    path.unlink()
    if contents is not None:
        path.write_bytes(contents)
    message = r"^/.*/val/crane/x\.jpg: cannot be read as an image"
    with (
        pytest.raises(DatasetError, match=f"{message}.* Data: image files, /"),
        broken_samples_named(splits.source),
    ):
        list(build_validation_dataset(splits, batch_size=2))
    with pytest.raises(DatasetError, match=message):
        list(ArrayFeeding().build_validation_dataset(splits, batch_size=2))


def test_damaged_images_are_named_before_a_run_begins(folder: Path) -> None:
    path = folder / "train" / "tench" / "a.jpg"
    whole = path.read_bytes()
    path.write_bytes(whole + b"more")  # behind its end
    assert load(folder).train.num_samples == 5
    no_header = whole[:4] + bytes(300) + whole[304:]
    message = (
        f"{path}: missing, damaged, cut off or no image (1 of the 7 files that were looked at)."
        " Replace or remove them."
    )
    for damaged in (b"", b"not an image", whole[:300], no_header):
        path.write_bytes(damaged)
        assert error_of(DatasetError, load, folder) == message
    path.unlink()
    path.symlink_to("gone.jpg")
    assert error_of(DatasetError, load, folder) == message
    path.unlink()
    path.touch()
    for path in (folder / "train").glob("*/*.*"):
        path.write_bytes(b"not an image")
    message = error_of(DatasetError, load, folder)
    assert message.startswith(f"{folder}/train/crane/a.png, ") and " and 2 more: " in message
    assert "(5 of the 7 files that were looked at)" in message


def test_no_more_than_some_files_are_opened_before_a_run_begins(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_broken(path: bytes) -> bool:
        opened.append(path)
        return False

    opened: list[bytes] = []
    monkeypatch.setattr(imagenet, "_is_broken", is_broken)
    monkeypatch.setattr(imagenet, "_CHECKED", 3)
    splits = load(folder)
    assert len(set(opened)) == 3
    assert {opened[0], opened[-1]} < {*splits.train.inputs, *splits.validation.inputs}


@pytest.mark.parametrize(
    ("gone", "made", "message"),
    [
        ("", "train/stork", "train: expected 2 classes, found 3."),
        ("train/crane", "train/crane", "train/crane: holds no image (.jpg"),
        ("", "val/stork", "val/stork: a class that has no training"),
        ("train", "training", "train: No such file or directory. Expected"),
        ("val", "val", "val: holds no class folders."),
    ],
)
def test_a_folder_of_another_form_is_rejected(
    folder: Path, gone: str, made: str, message: str
) -> None:
    if gone:
        shutil.rmtree(folder / gone)
    (folder / made).mkdir()
    found = error_of(DatasetError, load, folder)
    assert found.removeprefix("data set imagenet: ").startswith(f"{folder}/{message}")
