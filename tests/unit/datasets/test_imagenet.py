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

from kinds import Fields
from outcomes import error_of
from tfbench.backends.array_feeding import ArrayFeeding
from tfbench.backends.tensorflow.input_pipeline import (
    broken_samples_named,
    build_validation_dataset,
)
from tfbench.datasets import imagenet
from tfbench.datasets.imagenet import read_array
from tfbench.errors import DatasetError, RecipeError
from tfbench.schema import build

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
    for number, name in enumerate(
        ["tench/b.JPEG", "tench/a.jpg", "tench/c.jpeg", "crane/a.png", "crane/b.jpg"]
    ):
        write_image(tmp_path / "train" / name, 10 * (number + 1))
    (tmp_path / "train" / "tench" / "notes.txt").write_text("no image")
    write_image(tmp_path / "val" / "tench" / "x.jpg", 200)
    write_image(tmp_path / "val" / "crane" / "x.jpg", 100)
    return tmp_path


def load_error(config: imagenet.Config, data_dir: Path) -> str:
    return error_of(DatasetError, imagenet.load_splits, config, str(data_dir))


def test_classes_are_the_folders_in_the_order_of_their_names(folder: Path) -> None:
    splits = imagenet.load_splits(SMALL, str(folder))
    brightness_of = {"a.png": 40, "b.jpg": 50, "a.jpg": 20, "b.JPEG": 10, "c.jpeg": 30}
    names = [Path(path.decode()).name for path in splits.train.inputs]
    assert names == ["a.png", "b.jpg", "a.jpg", "b.JPEG", "c.jpeg"]
    assert splits.train.targets.tolist() == [0, 0, 1, 1, 1]
    assert splits.source == f"image files, {folder}, 5 + 2 images"
    assert (splits.spec.train_samples, splits.spec.validation_samples) == (5, 2)
    ((images, labels),) = build_validation_dataset(splits, batch_size=2)
    brightness = np.round(images.numpy()[:, 0, 0, 0] + 123.68)
    assert dict(zip(labels.numpy().tolist(), brightness.tolist(), strict=True)) == {0: 100, 1: 200}
    ((images, labels),) = build_validation_dataset(splits, batch_size=5, split="train")
    assert labels.numpy().tolist() == [0, 0, 1, 1, 1]
    assert images.shape == (5, 6, 6, 3)
    expected = np.array([brightness_of[name] for name in names])[:, None] - np.array(
        [123.68, 116.779, 103.939]
    )
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
    for path in folder.rglob("*.*g"):
        path.unlink()
        grey = np.tile(np.array([0, 255, 128, 64], np.uint8), (8, 2))
        image = (
            Image.fromarray(grey.astype(np.uint16) << 8)
            if mode == "I;16"
            else Image.fromarray(grey).convert(mode)
        )
        image.save(path, "TIFF" if mode == "CMYK" else "PNG")
    splits = imagenet.load_splits(dataclasses.replace(SMALL, image_size=8), str(folder))
    ((images, _),) = build_validation_dataset(splits, batch_size=2)
    (others, _), *_ = ArrayFeeding().build_validation_dataset(splits, batch_size=2)
    assert np.array_equal(images, others)
    columns = np.round(others[0, 0, :, 0] + 123.68)
    assert columns[:2].tolist() == [0, 255]
    if mode != "1":
        np.testing.assert_allclose(columns[2:4], [128, 64], atol=1)


def test_a_large_image_is_decoded_at_a_part_of_its_size(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    blocks = Image.fromarray(rng.integers(0, 120, (9, 12, 3), np.uint8))
    smooth = np.asarray(blocks.resize((1200, 900), Image.Resampling.BILINEAR))
    noise = rng.integers(0, 20, smooth.shape, np.uint8)
    path = tmp_path / "image.jpg"
    Image.fromarray(smooth + noise).save(path, quality=95)
    for size, reduction in ((500, 1), (450, 2), (200, 4), (112, 8)):
        stored = path.read_bytes()
        kind = getattr(
            cv2, f"IMREAD_REDUCED_COLOR_{reduction}" if reduction > 1 else "IMREAD_COLOR"
        )
        assert imagenet._choose_kind(stored, size) == kind
        with Image.open(path) as opened:
            expected = opened.crop((150, 0, 1050, 900)).resize((size, size), Image.Resampling.BOX)
        difference = read_array(str(path).encode(), size).astype(int) - np.asarray(expected)
        assert np.abs(difference).mean() < 5


def test_files_that_are_no_images_are_counted(folder: Path) -> None:
    (folder / "val" / "crane" / "x.tif").touch()
    (folder / "val" / "crane" / ".hidden").touch()
    notes = imagenet.load_splits(SMALL, str(folder)).notes
    assert f"{folder}/train: files not read as images: 1 .txt." in notes
    assert f"{folder}/val: files not read as images: 1 .tif." in notes


@pytest.mark.parametrize("contents", [None, b"", b"not an image", 300])
def test_an_image_that_is_missing_or_damaged_is_named_by_every_backend(
    folder: Path, contents: Any
) -> None:
    splits = imagenet.load_splits(SMALL, str(folder))
    path = folder / "val" / "crane" / "x.jpg"
    whole = path.read_bytes()
    path.unlink()
    if contents is not None:
        path.write_bytes(contents if isinstance(contents, bytes) else whole[:contents])
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
    no_header = whole[:4] + bytes(300) + whole[304:]
    for damaged in (b"", b"not an image", whole[:300], no_header):
        path.write_bytes(damaged)
        message = f"{path}: missing, damaged, cut off or no image (1 of the 7 files that were looked at). Replace or remove them."
        assert load_error(SMALL, folder) == message
    path.unlink()
    path.symlink_to("gone.jpg")
    assert load_error(SMALL, folder) == message
    path.unlink()
    path.write_bytes(whole + b"more")  # behind its end
    assert imagenet.load_splits(SMALL, str(folder)).train.num_samples == 5
    for path in (folder / "train").glob("*/*.*"):
        path.write_bytes(b"not an image")
    message = load_error(SMALL, folder)
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
    splits = imagenet.load_splits(SMALL, str(folder))
    assert (splits.train.num_samples, splits.validation.num_samples) == (5, 2)
    assert len(set(opened)) == 3
    assert {opened[0], opened[-1]} < {*splits.train.inputs, *splits.validation.inputs}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda folder: write_image(folder / "train" / "stork" / "a.png", 1),
            "train: expected 2 classes, found 3.",
        ),
        (
            lambda folder: [path.unlink() for path in folder.glob("train/crane/*")],
            "train/crane: holds no image (.jpg",
        ),
        (
            lambda folder: write_image(folder / "val" / "stork" / "x.jpg", 1),
            "val/stork: a class that has no training",
        ),
        (
            lambda folder: (folder / "train").rename(folder / "training"),
            "train: No such file or directory. Expected",
        ),
        (
            lambda folder: [shutil.rmtree(path) for path in folder.glob("val/*")],
            "val: holds no class folders.",
        ),
    ],
    ids=["classes", "no images", "class", "no folder", "no classes"],
)
def test_a_folder_of_another_form_is_rejected(folder: Path, spoil: Any, message: str) -> None:
    spoil(folder)
    assert (
        load_error(SMALL, folder)
        .removeprefix("data set imagenet: ")
        .startswith(f"{folder}/{message}")
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"image_size": 300}, "image_size must be at most stored_size. Received: 300 with 256."),
        (
            {"image_size": 256, "views": 10},
            "views = 10 needs an image_size below stored_size = 256.",
        ),
    ],
)
def test_options_that_do_not_fit_together_are_rejected(options: Fields, problem: str) -> None:
    message = error_of(RecipeError, build, imagenet.Config, options, "dataset")
    assert message == f"dataset: {problem}"
