"""Data sets by their names in tensorflow-datasets: tiny sets, written by itself."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets

from data_files import write_tfds
from outcomes import error_of
from tfbench.datasets.sources.splits import Splits
from tfbench.datasets.sources.tfds_sets import load_splits
from tfbench.errors import DatasetError, UnknownNameError
from tfbench.measure.data import load_data
from tfbench.recipe.registry import find_config, find_tfds_name
from tfbench.recipe.sections import DatasetConfig
from tfbench.recipe.tfds_options import Options

NAMED = {"input": "image", "target": "label"}
TEXTS = [b"abc", b"", b"a long text"]
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
    labels = np.arange(8) % 4
    images = np.arange(8 * 12, dtype=np.uint8).reshape(8, 2, 2, 3)
    of_images = {"train": (images, labels), "test": (images[:3], labels[:3])}
    write_tfds(folder, of_images)
    texts = np.array(TEXTS * 3, object)
    of_texts = {"train": (texts[:8], labels), "test": (texts[:3], labels[:3])}
    features = tensorflow_datasets.features
    write_tfds(folder, of_texts, "texts", features.Text())
    write_tfds(folder, of_images, "uneven", features.Image(shape=(None, None, 3)))
    return folder


def load(folder: Path, name: str, batch_size: int = 2, **options: Any) -> Splits:
    return load_splits(name, Options(**NAMED | options), str(folder), batch_size)


@pytest.mark.advice("Name two of them: --set dataset.input=NAME")
def test_images_are_scaled_and_labels_count_the_classes(folder: Path) -> None:
    splits = load(folder, "tiny")
    spec = splits.spec
    assert (spec.input_shape, spec.input_dtype, spec.num_classes) == ((2, 2, 3), "uint8", 10)
    assert (spec.train_samples, spec.validation_samples) == (8, 3)
    assert spec.input_scale == 1 / 255
    assert splits.train.inputs[:, 0, 0, 0].tolist() == [0, 12, 24, 36, 48, 60, 72, 84]
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
    options = {"length": 4} if name == "texts" else {}
    streamed = load(folder, name, streams=True, **options)
    whole = load(folder, name, **options)
    batches = list(streamed.pipeline.training)
    assert [len(labels) for _, labels in batches] == [2, 2, 2, 2]
    inputs = np.concatenate([inputs for inputs, _ in batches])
    scaled = whole.train.inputs * np.float32(whole.spec.input_scale)
    order = np.lexsort(inputs.reshape(8, -1).T)
    expected = np.lexsort(scaled.reshape(8, -1).T)
    np.testing.assert_allclose(inputs[order], scaled[expected], rtol=1e-6)
    assert streamed.spec.input_dtype == dtype
    assert streamed.pipeline.num_steps == 4
    alike = {"input_dtype": dtype, "input_scale": 1.0}
    described = [dataclasses.replace(one.spec, **alike) for one in (streamed, whole)]
    assert described[0] == described[1]
    validated = [labels for _, labels in streamed.pipeline.validation]
    assert sorted(np.concatenate(validated).tolist()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("tiny", {"validation": "valid[:5]"}, "there is no split valid[:5], but train, test. Use"),
        ("tiny", {"train": "train[:80"}, "there is no split train[:80, but train, test. Use"),
        ("tiny", {"train": "train+more"}, "there is no split train+more, but train, test. Use"),
        ("tiny", {"train": "train[:0]"}, "split train[:0] holds no sample. Take a larger part."),
        ("tiny", {"target": "image"}, "image is neither a label of known classes nor a float."),
        ("tiny", {"input": "picture"}, "its input and target must be one feature each. It has"),
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
    ("name", "found"),
    [
        ("tfds:mnist", "mnist"),
        ("tfds:glue/sst2", "glue/sst2"),
        ("tfds:imagenet_v2/matched-frequency", "imagenet_v2/matched-frequency"),
        ("tfds:mnist:3.0.1", "mnist:3.0.1"),
        ("tfds:", None),
        ("tfds:huggingface:mnist", None),
        ("tfds:../mnist", None),
        ("mnist", None),
    ],
)
def test_names_are_told_from_those_of_code(name: str, found: str | None) -> None:
    assert find_tfds_name(name) == found


def test_splits_that_are_parts_of_others_are_cached_apart(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFBENCH_CACHE_DIR", str(tmp_path))
    both = load(folder, "tiny", train="train", validation="test+train")
    other = load(folder, "tiny", train="train+test", validation="train")
    assert (both.cache, other.cache) == ("written", "written")
    again = load(folder, "tiny", train="train+test", validation="train")
    assert (again.cache, again.spec) == ("read", other.spec)


def test_a_name_of_another_form_is_told_the_form() -> None:
    with pytest.raises(UnknownNameError, match='must be written as "tfds:name", "tfds:name/'):
        find_config("datasets", "tfds:../mnist")
