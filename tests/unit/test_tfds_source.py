"""Data that tensorflow-datasets prepared: tiny sets, written by itself."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from tfbench import svhn_source, tfds_source
from tfbench.datasets import imagenet
from tfbench.errors import DatasetError
from tfbench.input_pipeline import broken_samples_named, build_training_dataset, build_validation_dataset
from tfbench.results import DatasetSpec

SPEC = DatasetSpec(
    input_shape=(4, 4, 3),
    input_dtype="uint8",
    target_shape=(),
    num_classes=2,
    train_samples=6,
    validation_samples=3,
    mean="image",
)
STREAMED = imagenet.Config(tfds="tiny", complete=False, num_classes=2, image_size=4, stored_size=4, mirror=False)


def prepare(folder: Path, name: str, counts: dict[str, int], *, shape: tuple[int, ...] = (4, 4, 3)) -> None:
    """Writes images that are all one number, ten times their place in the split, and labels 0, 1, 0, 1 ..."""

    def build_split(count: int) -> Any:
        images = 10 * np.arange(count, dtype=np.uint8)[:, None, None, None] * np.ones((1, *shape), np.uint8)
        return tf.data.Dataset.from_tensor_slices({"image": images, "label": np.arange(count) % 2})

    tfds.dataset_builders.store_as_tfds_dataset(
        name,
        "1.0.0",
        features=tfds.features.FeaturesDict(
            {"image": tfds.features.Image(shape=shape), "label": tfds.features.ClassLabel(num_classes=2)}
        ),
        split_datasets={split: build_split(count) for split, count in counts.items()},
        data_dir=str(folder),
        disable_shuffling=True,
    )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of tfds's with the data set "tiny": 6 + 3 images."""
    tfds.disable_progress_bar()
    folder = tmp_path_factory.mktemp("tfds")
    prepare(folder, "tiny", {"train": 6, "validation": 3})
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    """A copy of it that may be damaged."""
    return Path(shutil.copytree(prepared, tmp_path / "tfds"))


def load(folder: Path, spec: DatasetSpec = SPEC) -> Any:
    return tfds_source.load_tfds(
        "tiny", spec, str(folder), splits=("train", "validation"), host="https://data.example.org"
    )


def load_error(folder: Path, spec: DatasetSpec = SPEC) -> str:
    with pytest.raises(DatasetError) as caught:
        load(folder, spec)
    return str(caught.value)


def test_loads_whole_splits_with_the_mean_of_the_training_images(prepared: Path) -> None:
    splits = load(prepared)
    assert splits.train.inputs[:, 0, 0, 0].tolist() == [0, 10, 20, 30, 40, 50]
    assert splits.train.targets.tolist() == [0, 1, 0, 1, 0, 1]
    assert splits.validation.inputs[:, 3, 3, 2].tolist() == [0, 10, 20]
    assert splits.mean.tolist() == np.full((4, 4, 3), 25.0).tolist()
    assert splits.source == f"tfds tiny 1.0.0, {prepared}"


def test_another_number_of_samples_is_refused(prepared: Path) -> None:
    spec = DatasetSpec(**{name: getattr(SPEC, name) for name in SPEC.__slots__} | {"train_samples": 7})
    assert load_error(prepared, spec) == (
        f"data set tiny: {prepared}/tiny/1.0.0, split train: expected 7 samples, found 6. "
        "Remove it and prepare it again."
    )


def test_images_of_another_shape_are_refused(tmp_path: Path) -> None:
    prepare(tmp_path, "tiny", {"train": 6, "validation": 3}, shape=(5, 5, 3))
    assert load_error(tmp_path) == (
        f"data set tiny: {tmp_path}/tiny/1.0.0, split train: expected inputs of shape (4, 4, 3), uint8; "
        "found (5, 5, 3), uint8."
    )


def test_a_damaged_file_is_reported(folder: Path) -> None:
    (records,) = (folder / "tiny" / "1.0.0").glob("*train*")
    records.write_bytes(records.read_bytes()[:-20])
    message = load_error(folder)
    assert message.startswith(f"data set tiny: {folder}/tiny/1.0.0, split train is damaged (DataLossError: ")
    assert message.endswith("Remove it and prepare it again.")


def test_a_damaged_description_is_reported(folder: Path) -> None:
    (folder / "tiny" / "1.0.0" / "dataset_info.json").write_text("{")
    message = load_error(folder)
    assert message.startswith(f"data set tiny: {folder} is damaged (")


def test_a_name_that_tfds_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        tfds_source.open_tfds("tinny", str(tmp_path), host=None)
    assert str(caught.value).startswith(
        "data set tinny: tensorflow-datasets has none of this name. Name the folder that holds tinny/ as prepared"
    )


def test_data_that_is_not_to_be_fetched_must_be_prepared(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        tfds_source.open_tfds("cifar10", str(tmp_path), host=None)
    assert str(caught.value).startswith(
        f"data set cifar10: not found in {tmp_path}/cifar10/3.0.2. Name the folder that holds cifar10/ as prepared"
    )


def test_prepared_images_can_be_streamed(prepared: Path) -> None:
    splits = imagenet.load_splits(STREAMED, str(prepared))
    assert splits.source == f"tfds tiny 1.0.0, {prepared}, 6 + 3 images"
    assert (splits.spec.train_samples, splits.spec.validation_samples) == (6, 3)
    batches = [
        (np.round(images.numpy()[:, 0, 0, 0] + 123.68).tolist(), labels.numpy().tolist())
        for images, labels in build_validation_dataset(splits, batch_size=2)
    ]
    assert batches == [([0, 10], [0, 1]), ([20], [0])]
    assert splits.validation.labels().tolist() == [0, 1, 0]
    training = build_training_dataset(splits, global_batch_size=2, seed=1).take(6)
    values = np.array([np.round(images.numpy()[:, 0, 0, 0] + 123.68) for images, _ in training]).reshape(2, 6)
    assert [sorted(one) for one in values.tolist()] == [[0, 10, 20, 30, 40, 50]] * 2
    assert values[0].tolist() != values[1].tolist()


def test_a_damaged_file_that_is_streamed_ends_the_run_with_its_data_set(folder: Path) -> None:
    (records,) = (folder / "tiny" / "1.0.0").glob("*train*")
    records.write_bytes(records.read_bytes()[:-20])
    splits = imagenet.load_splits(STREAMED, str(folder))
    message = r"^tfds tiny 1\.0\.0, .*: a file is damaged: .*truncated record"
    with pytest.raises(DatasetError, match=message), broken_samples_named(splits.source):
        list(build_training_dataset(splits, global_batch_size=6, seed=1).take(1))


def test_streamed_data_must_have_the_classes_and_sizes_that_the_recipe_says(prepared: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        imagenet.load_splits(imagenet.Config(tfds="tiny"), str(prepared))
    assert str(caught.value) == (
        f"data set imagenet: {prepared}/tiny/1.0.0: expected 1000 classes, found 2. "
        "--set dataset.num_classes=2 takes them for what they are."
    )


def test_data_without_images_cannot_be_streamed(tmp_path: Path) -> None:
    values = tf.data.Dataset.from_tensor_slices({"text": ["a", "b"]})
    tfds.dataset_builders.store_as_tfds_dataset(
        "words",
        "1.0.0",
        features=tfds.features.FeaturesDict({"text": tfds.features.Text()}),
        split_datasets={"train": values},
        data_dir=str(tmp_path),
    )
    with pytest.raises(DatasetError) as caught:
        imagenet.load_splits(imagenet.Config(tfds="words"), str(tmp_path))
    assert str(caught.value) == (
        f"data set words: {tmp_path}/words/1.0.0: expected the features image, label; found text."
    )


def test_svhn_can_be_read_from_what_tfds_prepared(tmp_path: Path) -> None:
    prepare(tmp_path, "digits", {"train": 3, "extra": 2, "test": 1}, shape=(32, 32, 3))
    source = svhn_source.TfdsParts(tfds_source.open_tfds("digits", str(tmp_path), host=None))
    assert [source.count(part) for part in ("train", "extra", "test")] == [3, 2, 1]
    images, labels = source.read("extra")
    assert images[:, 0, 0, 0].tolist() == [0, 10]
    assert labels.tolist() == [0, 1]
    assert source.description == f"tfds digits 1.0.0, {tmp_path}"
    assert source.where("extra") == f"{tmp_path}/digits/1.0.0, split extra"
