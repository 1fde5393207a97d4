"""Data that tensorflow-datasets prepared: tiny sets, written by itself."""

import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from tfbench.backends.tensorflow.input_pipeline import (
    broken_samples_named,
    build_training_dataset,
    build_validation_dataset,
)
from tfbench.datasets import imagenet
from tfbench.datasets.sources import tfds as tfds_source
from tfbench.datasets.sources import tfds_arrays
from tfbench.errors import DatasetError
from tfbench.recipe.dataset_spec import DatasetSpec

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
    prepare(folder, "tiny", {"train": 6, "test": 3})
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    """A copy of it that may be damaged."""
    return Path(shutil.copytree(prepared, tmp_path / "tfds"))


def load(folder: Path, spec: DatasetSpec = SPEC) -> Any:
    found = tfds_arrays.load("tiny", str(folder), splits=("train", "test"), host="https://data.example.org")
    return found.train_and_test(spec)


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
    prepare(tmp_path, "tiny", {"train": 6, "test": 3}, shape=(5, 5, 3))
    assert load_error(tmp_path) == (
        f"data set tiny: {tmp_path}/tiny/1.0.0, split train: expected inputs of shape (4, 4, 3), uint8; "
        "found (5, 5, 3), uint8. Remove it and prepare it again."
    )


def damage(folder: Path, kind: str) -> Path:
    """Damages the training records in some way; returns their file."""
    (records,) = (folder / "tiny" / "1.0.0").glob("*train*")
    contents = records.read_bytes()
    flipped = bytearray(contents)
    flipped[len(contents) - 20] ^= 255
    damaged = {
        "flipped": bytes(flipped),
        "cut off": contents[:-1],
        "empty": b"",
        "gone": None,
        "a folder": None,
        "no records": b"not a record\n" * 100,
        "no samples": b"".join(_frame(b"x" * 999) for _ in range(6)),
        "short": contents[: len(contents) // 2],
    }[kind]
    records.unlink()
    if damaged is not None:
        records.write_bytes(damaged)
    elif kind == "a folder":
        records.mkdir()
    return records


def _frame(data: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder, tf.io.TFRecordWriter(f"{folder}/one") as writer:
        writer.write(data)
        writer.close()
        return Path(f"{folder}/one").read_bytes()


# Of each kind of damage, what it is called; with a place in the file, it is found where the record is read.
DAMAGES = {
    "flipped": r"{file}: expected a whole record at byte \d+, found one that is damaged or cut off",
    "cut off": r"{file}: expected a whole record at byte \d+, found one that is damaged or cut off",
    "empty": "{file}: expected a file of records, found an empty file",
    "gone": "{file}: expected a file of records, found no such file",
    "a folder": "{file}: expected a file of records, found a folder",
    "no records": "{file}: expected a whole record at byte 0, found one that is damaged or cut off",
    "no samples": "Could not parse example input, value: 'xxx",
    "short": r"expected \d+ bytes or more in its files, found \d+",
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_records_are_found_while_they_are_loaded(folder: Path, kind: str) -> None:
    file = damage(folder, kind)
    message = load_error(folder)
    assert re.match(f"data set tiny: {folder}/tiny/1.0.0, split train: {DAMAGES[kind].format(file=file)}", message)
    assert message.endswith(". Remove it and prepare it again.") or kind == "no samples"
    assert "node" not in message and "\n" not in message


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_records_that_are_streamed_are_found_before_the_training_or_end_it_with_their_file(
    folder: Path, kind: str
) -> None:
    file = damage(folder, kind)
    with pytest.raises(DatasetError) as caught:
        splits = imagenet.load_splits(STREAMED, str(folder))
        assert kind in ("flipped", "cut off")
        with broken_samples_named(splits.source, splits.files):
            list(build_training_dataset(splits, global_batch_size=6, seed=1).take(1))
    message = str(caught.value)
    assert re.search(DAMAGES[kind].format(file=file), message)
    if kind in ("flipped", "cut off"):
        assert message.startswith(f"{file}: ")
        assert message.endswith(f". Replace the file, or prepare the data again. Data: {splits.source}.")


def test_samples_without_images_and_labels_are_refused_before_they_are_read(folder: Path) -> None:
    text = '{"pythonClassName": "tensorflow_datasets.core.features.text_feature.Text", "text": {}}'
    description = folder / "tiny" / "1.0.0" / "features.json"
    own = json.loads(description.read_text(encoding="utf-8"))
    description.write_text(text, encoding="utf-8")
    found = f"data set tiny: {folder}/tiny/1.0.0: expected the features image, label; found Text."
    assert load_error(folder) == found
    with pytest.raises(DatasetError) as caught:
        imagenet.load_splits(STREAMED, str(folder))
    assert str(caught.value) == found
    own["featuresDict"]["features"]["label"] = json.loads(text)
    description.write_text(json.dumps(own), encoding="utf-8")
    with pytest.raises(DatasetError, match="expected labels of classes; found Text"):
        imagenet.load_splits(STREAMED, str(folder))


@pytest.mark.parametrize(
    "name",
    ["huggingface:mnist", "kaggle:ds", "some-one:tiny", "tiny/data_dir=gs://x", "tiny:", "../tiny", "tiny:1.0.0/a=b"],
)
def test_a_name_that_reaches_beyond_this_machine_is_refused(tmp_path: Path, name: str) -> None:
    form = "NAME or NAME/CONFIG, either with :VERSION, such as imagenet2012:5.1.0"
    with pytest.raises(DatasetError) as caught:
        tfds_source.open_tfds(name, str(tmp_path), host=None)
    assert str(caught.value).startswith(f"data set {name}: must be {form}: what is prepared here")
    with pytest.raises(ValueError, match="tfds must be NAME or NAME/CONFIG"):
        imagenet.Config(tfds=name)


def test_a_version_can_be_named(prepared: Path) -> None:
    assert tfds_source.open_tfds("tiny:1.0.0", str(prepared), host=None).info.full_name == "tiny/1.0.0"


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
