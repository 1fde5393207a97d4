"""Data that tensorflow-datasets prepared, of published sets and of any others by their names.

Tiny sets, written by itself.
"""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets

from data_files import write_tfds
from outcomes import error_of
from tfbench.datasets.sources import tfds
from tfbench.datasets.sources.splits import Splits
from tfbench.datasets.sources.tfds_sets import load_splits
from tfbench.errors import DatasetError, UnknownNameError
from tfbench.measure.data import load_data
from tfbench.recipe.dataset_spec import DatasetSpec, TfdsOptions
from tfbench.recipe.registry import find_config, find_tfds_name
from tfbench.recipe.sections import DatasetConfig

NAMED = {"input": "image", "target": "label"}
IMAGES = np.arange(8 * 12, dtype=np.uint8).reshape(8, 2, 2, 3)
LABELS = np.arange(8) % 4
TEXTS = np.array([b"abc", b"", b"a long text"] * 3, object)
SPEC = DatasetSpec(
    input_shape=(2, 2, 3),
    input_dtype="uint8",
    num_classes=4,
    train_samples=8,
    validation_samples=3,
    mean="image",
)
RESIZED = """
import tensorflow as tf
import tensorflow_datasets as tfds

def load_data(data_dir):
    samples = tfds.load("uneven", split="train", data_dir=data_dir)
    return samples.map(lambda one: (tf.image.resize(one["image"], (4, 4)), one["label"])).batch(2)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three data sets of 8 + 3 samples: images, texts, and images of any size."""
    folder = tmp_path_factory.mktemp("tfds")
    features = tensorflow_datasets.features
    any_size = features.Image(shape=(None, None, 3))
    sets = (("tiny", IMAGES, None), ("texts", TEXTS, features.Text()), ("uneven", IMAGES, any_size))
    for name, inputs, feature in sets:
        samples = {"train": (inputs[:8], LABELS), "test": (inputs[:3], LABELS[:3])}
        write_tfds(folder, samples, name, feature)
    return folder


def load(folder: Path, name: str, batch_size: int = 2, **options: Any) -> Splits:
    return load_splits(name, TfdsOptions(**NAMED | options), str(folder), batch_size)


@pytest.mark.advice("Name two of them: --set dataset.input=NAME")
def test_images_are_scaled_and_labels_count_the_classes(folder: Path) -> None:
    splits = load(folder, "tiny")
    spec = splits.spec
    assert (spec.input_shape, spec.input_dtype, spec.num_classes) == ((2, 2, 3), "uint8", 10)
    assert (spec.train_samples, spec.validation_samples) == (8, 3)
    assert spec.input_scale == 1 / 255
    assert np.array_equal(splits.train.inputs, IMAGES)
    assert splits.validation.targets.tolist() == [0, 1, 2]
    assert splits.source == f"tfds tiny 1.0.0, {folder}"


@pytest.mark.advice('Use --set "dataset.train=train[:80%]"')
def test_a_part_of_a_split_can_be_named(folder: Path) -> None:
    splits = load(folder, "tiny", train="train[:75%]", validation="train[75%:]")
    assert splits.train.targets.tolist() == [0, 1, 2, 3, 0, 1]
    assert splits.validation.targets.tolist() == [2, 3]


def test_a_text_is_the_numbers_of_its_bytes(folder: Path) -> None:
    splits = load(folder, "texts", length=4)
    expected = [[97, 98, 99, 0], [0, 0, 0, 0], [97, 32, 108, 111]]
    assert splits.validation.inputs.tolist() == expected
    assert splits.spec.input_dtype == "int32"


@pytest.mark.parametrize(("name", "dtype"), [("tiny", "float32"), ("texts", "int32")])
def test_a_stream_gives_the_same_samples_in_batches(folder: Path, name: str, dtype: str) -> None:
    streamed = load(folder, name, streams=True, length=4)
    whole = load(folder, name, length=4)
    batches = list(streamed.pipeline.training)
    assert [len(labels) for _, labels in batches] == [2, 2, 2, 2]
    inputs = np.concatenate([inputs for inputs, _ in batches]).reshape(8, -1)
    scaled = (whole.train.inputs * np.float32(whole.spec.input_scale)).reshape(8, -1)
    np.testing.assert_allclose(sorted(inputs.tolist()), sorted(scaled.tolist()), rtol=1e-6)
    assert streamed.pipeline.num_steps == 4
    described = dataclasses.replace(whole.spec, input_dtype=dtype, input_scale=1.0)
    assert streamed.spec == described
    validated = [labels for _, labels in streamed.pipeline.validation]
    assert sorted(np.concatenate(validated).tolist()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("tiny", {"validation": "valid[:5]"}, "there is no split valid[:5], but train, test. Use"),
        ("tiny", {"train": "train[:80"}, "there is no split train[:80, but train, test. Use"),
        ("tiny", {"train": "train[:0]"}, "split train[:0] holds no sample. Take a larger part."),
        ("tiny", {"target": "image"}, "image is neither a label of known classes nor a float."),
        ("tiny", {"input": None}, "its input and target must be one feature each. It has"),
        ("uneven", {}, "samples of image have different sizes, (None, None, 3). A function"),
    ],
)
@pytest.mark.parametrize("streams", [False, True])
def test_what_a_data_set_does_not_have_is_named(
    folder: Path, name: str, options: Any, problem: str, streams: bool
) -> None:
    message = error_of(DatasetError, load, folder, name, streams=streams, **options)
    assert message.startswith(f"data set tfds:{name}: {problem}")


@pytest.mark.advice("A function of yours can prepare what fit takes")
def test_a_function_can_make_samples_of_one_size(folder: Path, tmp_path: Path) -> None:
    assert "A function of yours" in error_of(DatasetError, load, folder, "uneven")
    path = tmp_path / "resized_samples.py"
    path.write_text(RESIZED)
    config = DatasetConfig(name=f"{path}:load_data")
    splits = load_data(config, str(folder), seed=0, batch_size=2, allows_code=True)
    assert splits.spec.input_shape == (4, 4, 3)
    assert (splits.pipeline.num_steps, splits.pipeline.is_users) == (4, True)


@pytest.mark.advice("Name a folder with")
def test_a_data_set_that_nobody_knows_is_no_damaged_one(folder: Path) -> None:
    message = error_of(DatasetError, load, folder, "absent")
    assert message == (
        f"data set absent: tensorflow-datasets knows none of this name, and none is in {folder}."
        " Name a folder with absent/ as tensorflow-datasets prepares it: --data-dir, or"
        " TFBENCH_DATA_DIR."
    )
    assert load(folder, "tiny").train.num_samples == 8


@pytest.mark.parametrize(
    "name", ["mnist", "glue/sst2", "imagenet_v2/matched-frequency", "mnist:3.0.1"]
)
def test_a_name_is_one_of_tensorflow_datasets(name: str) -> None:
    assert find_tfds_name(f"tfds:{name}") == name


@pytest.mark.parametrize("name", ["tfds:", "tfds:huggingface:mnist", "tfds:../mnist", "mnist"])
def test_names_are_told_from_those_of_code(name: str) -> None:
    assert find_tfds_name(name) is None


def test_splits_that_are_parts_of_others_are_cached_apart(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFBENCH_CACHE_DIR", str(tmp_path))
    parts = {"train": "train+test", "validation": "train"}
    assert load(folder, "tiny", train="train", validation="test+train").cache == "written"
    other = load(folder, "tiny", **parts)
    again = load(folder, "tiny", **parts)
    assert (other.cache, again.cache, again.spec) == ("written", "read", other.spec)


def test_a_name_of_another_form_is_told_the_form() -> None:
    with pytest.raises(UnknownNameError, match='must be written as "tfds:name", "tfds:name/'):
        find_config("datasets", "tfds:../mnist")


def load_published(folder: Path | None, name: str = "tiny", **spec: Any) -> Splits:
    data_dir = str(folder) if folder else None
    found = tfds.load(
        name, data_dir, splits=("train", "test"), host="https://data.example.org", accepted="them"
    )
    return found.train_and_test(dataclasses.replace(SPEC, **spec))


def test_loads_whole_splits_with_the_mean_of_the_training_images(folder: Path) -> None:
    splits = load_published(folder)
    assert np.array_equal(splits.train.inputs, IMAGES)
    assert np.array_equal(splits.train.targets, LABELS)
    assert np.array_equal(splits.validation.inputs, IMAGES[:3])
    assert np.array_equal(splits.mean, IMAGES.mean(axis=0))
    assert splits.source == f"tfds tiny 1.0.0, {folder}"


def test_other_data_than_expected_is_rejected(folder: Path) -> None:
    found = error_of(DatasetError, load_published, folder, train_samples=7)
    problem = "expected 7 samples, found 8. Remove it and prepare it again."
    assert found == f"data set tiny: {folder}/tiny/1.0.0, split train: {problem}"


@pytest.mark.parametrize(
    ("file", "contents", "reason"),
    [
        ("*train*", "half", r"truncated record at \d+"),
        ("*train*", None, "No such file"),
        ("*train*", "not a record\n" * 100, "corrupted record at 0"),
        ("dataset_info.json", "{", ""),
    ],
)
@pytest.mark.advice("Remove it and prepare it again")
def test_damaged_files_are_reported_with_what_to_do(
    folder: Path, tmp_path: Path, file: str, contents: str | None, reason: str
) -> None:
    shutil.copytree(folder / "tiny", tmp_path / "tiny")
    (path,) = (tmp_path / "tiny" / "1.0.0").glob(file)
    if contents is None:
        path.unlink()
    elif contents == "half":
        os.truncate(path, path.stat().st_size - 1)
    else:
        path.write_text(contents)
    match = re.fullmatch(
        rf"{tmp_path}/tiny: cannot be read as data that tensorflow-datasets prepared \((.*)\)\."
        r" Remove it and prepare it again\.",
        error_of(DatasetError, load_published, tmp_path),
    )
    assert re.search(reason, match[1]) and "node" not in match[1]
    shutil.rmtree(tmp_path / "tiny")
    shutil.copytree(folder / "tiny", tmp_path / "tiny")
    assert load_published(tmp_path).train.num_samples == 8


def test_missing_data_that_cannot_be_fetched_names_the_folder_and_the_way_out(
    tmp_path: Path,
) -> None:
    way_out = "Use --data synthetic, or name a folder with them: --data-dir, or TFBENCH_DATA_DIR."
    absent = tmp_path / "absent"
    message = error_of(DatasetError, load_published, absent)
    assert message == f"data set tiny: the folder {absent} does not exist. {way_out}"
    message = error_of(DatasetError, load_published, tmp_path, "mnist")
    not_found = f"data set mnist: not in {tmp_path}/mnist/3.0.1, and cannot be downloaded: https://"
    assert message.startswith(not_found)
    assert message.endswith(f"{way_out} {tmp_path} is empty.")
    for name in "fedcba":
        (tmp_path / name).mkdir()
    message = error_of(DatasetError, load_published, tmp_path, "mnist")
    assert message.endswith(f"{tmp_path} holds a/, b/, c/, d/, e/ and 1 more.")


def test_what_was_decoded_before_needs_neither_tensorflow_nor_its_datasets(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFBENCH_CACHE_DIR", str(tmp_path))
    decoded = load_published(folder)
    code = f"""
import sys
from tfbench.datasets.sources.tfds import load
found = load("tiny", {str(folder)!r}, splits=("train", "test"), host="", accepted="")
print(found.cache, {{"tensorflow", "tensorflow_datasets", "scipy"}} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "read set()\n"
    monkeypatch.setenv("TFDS_DATA_DIR", str(folder))  # where tensorflow-datasets looks by itself
    kept = load_published(None)
    assert (decoded.cache, kept.cache, kept.source) == ("written", "read", decoded.source)
    assert np.array_equal(kept.train.inputs, decoded.train.inputs)
