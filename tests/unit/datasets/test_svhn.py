"""SVHN from small files in its publisher's format.

Only the images that must be left for validation make them larger.
"""

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from kinds import Fields
from outcomes import error_of
from tfbench.datasets import svhn
from tfbench.datasets.sources.splits import Splits
from tfbench.errors import DatasetError

COUNTS = {"train": 4_050, "extra": 2_030, "test": 7}
FIRST_NUMBER = {"train": 0, "extra": 10_000, "test": 20_000}
AGAIN = "Fetch the cropped digits, format 2 of http://ufldl.stanford.edu/housenumbers, again."


def build_part(part: str) -> Fields:
    """Builds X and y as published.

    Red at row 3, column 5 and green there hold the image's number, blue its digit.
    """
    count = COUNTS[part]
    numbers = np.arange(count) + FIRST_NUMBER[part]
    images = np.full((32, 32, 3, count), 100 if part == "train" else 40, np.uint8)
    images[3, 5, 0] = numbers % 256
    images[3, 5, 1] = numbers // 256
    images[3, 5, 2] = numbers % 10
    labels = np.where(numbers % 10 == 0, 10, numbers % 10).astype(np.uint8)
    return {"X": images, "y": labels[:, None]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the three files, in its svhn/."""
    root = tmp_path_factory.mktemp("data")
    (root / "svhn").mkdir()
    for part, name in svhn.FILES.items():
        scipy.io.savemat(root / "svhn" / name, build_part(part), do_compression=True)
    return root


@pytest.fixture(scope="module")
def splits(folder: Path) -> Splits:
    return load(folder)


@pytest.fixture
def damaged(folder: Path, tmp_path: Path) -> Callable[..., Path]:
    """Returns a function that makes a copy of the folder with one file replaced, and says which."""

    def replace(name: str, contents: bytes | Fields) -> Path:
        for path in (folder / "svhn").iterdir():
            if path.name != name:
                (tmp_path / path.name).symlink_to(path)
        if isinstance(contents, bytes):
            (tmp_path / name).write_bytes(contents)
        else:
            scipy.io.savemat(tmp_path / name, contents)
        return tmp_path / name

    return replace


def numbers_of(images: Any, *, row: int = 5, column: int = 3) -> Any:
    """Returns the numbers that images hold, rows and columns swapped as they are by default."""
    pixels = images[:, row, column].astype(int)
    return pixels[:, 0] + 256 * pixels[:, 1]


def load(folder: Path, **values: Any) -> Splits:
    return svhn.load_splits(svhn.Config(**values), str(folder))


def load_error(path: Path) -> str:
    return error_of(DatasetError, load, path.parent)


def test_every_image_is_in_one_split_with_its_label(folder: Path, splits: Splits) -> None:
    train = numbers_of(splits.train.inputs)
    validation = numbers_of(splits.validation.inputs)
    assert sorted([*train, *validation]) == [*range(4_050), *range(10_000, 12_030)]
    assert numbers_of(splits.test.inputs).tolist() == list(range(20_000, 20_007))
    spec = splits.spec
    assert (spec.train_samples, spec.validation_samples, spec.test_samples) == (80, 6_000, 7)
    as_published = load(folder / "svhn", transposed=False)
    for name in ("train", "validation"):
        split = getattr(splits, name)
        assert np.array_equal(split.targets, numbers_of(split.inputs) % 10)  # label 10 is digit 0
        assert np.array_equal(split.inputs, getattr(as_published, name).inputs.swapaxes(1, 2))


def test_validation_has_400_train_and_200_extra_images_of_each_digit_in_a_mixed_order(
    folder: Path, splits: Splits
) -> None:
    numbers = numbers_of(splits.validation.inputs)
    assert np.bincount(splits.validation.targets[numbers < 10_000]).tolist() == [400] * 10
    assert np.bincount(splits.validation.targets[numbers >= 10_000]).tolist() == [200] * 10
    assert len(set(splits.validation.targets[:20])) > 5
    other = load(folder, seed=1)
    assert set(numbers_of(other.validation.inputs)) != set(numbers)


def test_the_mean_is_of_train_and_extra_images_alike_whatever_their_split(splits: Splits) -> None:
    # All pixels but one are 100 in 4,050 images and 40 in 2,030.
    expected = np.full((32, 32, 3), (4_050 * 100 + 2_030 * 40) / 6_080)
    numbers = np.r_[np.arange(4_050), np.arange(10_000, 12_030)]
    expected[5, 3] = (numbers % 256).mean(), (numbers // 256).mean(), (numbers % 10).mean()
    assert splits.mean.dtype == np.float32
    np.testing.assert_allclose(splits.mean, expected, rtol=1e-6)
    assert splits.spec.mean == "image"
    assert splits.spec.input_scale == 1.0


def test_a_set_that_is_not_complete_says_so(folder: Path, splits: Splits) -> None:
    sizes = "4,050 + 2,030 + 7 of 73,257 + 531,131 + 26,032 images"
    assert splits.source == f"SVHN's .mat files, {folder}/svhn, incomplete: {sizes}"
    assert splits.notes == (
        f"not the complete SVHN: {sizes}. Do not compare accuracies with the whole set's.",
    )
    spec = svhn.describe(svhn.Config())
    assert (spec.train_samples, spec.validation_samples) == (598_388, 6_000)
    assert spec.test_samples == 26_032


def test_too_few_images_of_a_digit_are_reported(damaged: Any) -> None:
    part = build_part("extra")
    part["y"][part["y"] == 7] = 8
    path = damaged("extra_32x32.mat", part)
    problem = "expected at least 200 images of digit 7 for validation, found 0."
    assert load_error(path) == f"data set svhn: {path.parent}, split extra: {problem}"


def test_missing_files_are_named(folder: Path, tmp_path: Path) -> None:
    names = "train_32x32.mat, extra_32x32.mat, test_32x32.mat"
    path = tmp_path / "test_32x32.mat"
    assert f"name a folder with {names}, or" in load_error(path)
    path.symlink_to(folder / "svhn" / path.name)
    assert load_error(path) == (
        f"data set svhn: {tmp_path}: expected {names}; found test_32x32.mat alone."
        " Fetch train_32x32.mat and extra_32x32.mat, too."
    )


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
    ("place", "word", "problem"),
    [
        (12, 0xFFFF_FFFF, "it ends too early"),
        (36, 33, "cannot reshape array of size 9216"),
        (56, 0, "an array holds values of type 0"),  # this one and the next end SciPy's process
        (56, 14, "an array holds values of type 14"),
        (60, 0xFFFF_FFF0, "it ends too early"),
    ],
)
def test_a_damaged_size_or_type_in_a_file_is_reported(
    damaged: Any, place: int, word: int, problem: str, is_packed: bool
) -> None:
    file = io.BytesIO()
    scipy.io.savemat(file, {"X": np.ones((32, 32, 3, 3), np.uint8)})
    header = file.getvalue()[:128]
    array = bytearray(file.getvalue()[128:])
    struct.pack_into("<I", array, place, word)
    if is_packed:
        packed = zlib.compress(array)
        array = struct.pack("<II", 15, len(packed)) + packed
    path = damaged("train_32x32.mat", header + array)
    assert load_error(path).startswith(f"{path}: cannot be read as SVHN's MATLAB 5 file ({problem}")


BLACK = np.zeros((32, 32, 3, 3), np.uint8)


@pytest.mark.parametrize(
    ("images", "labels", "found"),
    [
        (BLACK[:28, :28], [1, 1, 1], "found X (28, 28, 3, 3), uint8, and y (3, 1)"),
        (BLACK, [1, 1, 1, 1], "found X (32, 32, 3, 3), uint8, and y (4, 1)"),
        (np.float32(BLACK), [1, 1, 1], "found X (32, 32, 3, 3), float32, and y (3, 1)"),
        (BLACK, [1, 2, 11], "expected labels 1 to 10, found 1 to 11"),
        (BLACK, [1.0, 2.5, 3.0], "expected labels 1 to 10, found 1.0 to 3.0"),
    ],
)
def test_a_file_of_other_arrays_is_named(
    damaged: Any, images: Any, labels: list[float], found: str
) -> None:
    path = damaged("extra_32x32.mat", {"X": images, "y": np.array(labels)[:, None]})
    message = load_error(path)
    assert message.startswith(f"{path}: cannot be read as SVHN's MATLAB 5 file (")
    assert message.endswith(f"{found}). {AGAIN}")


def test_a_damaged_file_is_named(folder: Path, damaged: Any) -> None:
    whole = (folder / "svhn" / "extra_32x32.mat").read_bytes()
    path = damaged("extra_32x32.mat", b"")
    for contents in (b"", whole[:10_000], whole[:10_000] + b"\x5a" * 30 + whole[10_030:]):
        path.write_bytes(contents)
        message = load_error(path)
        assert message.startswith(f"{path}: cannot be read as SVHN's MATLAB 5 file (")
        assert message.endswith(AGAIN)
