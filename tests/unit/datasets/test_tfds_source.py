"""Data that tensorflow-datasets prepared: tiny sets, written by itself."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_files import write_tfds
from outcomes import error_of
from tfbench.datasets.sources import tfds
from tfbench.errors import DatasetError
from tfbench.recipe.dataset_spec import DatasetSpec

SPEC = {
    "input_shape": (4, 4, 3),
    "input_dtype": "uint8",
    "num_classes": 2,
    "train_samples": 6,
    "validation_samples": 3,
    "mean": "image",
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of tfds's with "tiny": 6 + 3 images, all one number, ten times their place.

    Labels 0, 1, 0, 1 ...
    """

    def samples(count: int) -> tuple[Any, Any]:
        images = (
            10
            * np.arange(count, dtype=np.uint8)[:, None, None, None]
            * np.ones((1, 4, 4, 3), np.uint8)
        )
        return images, np.arange(count) % 2

    folder = tmp_path_factory.mktemp("tfds")
    write_tfds(folder, {"train": samples(6), "test": samples(3)})
    return folder


def load(folder: Path | None, name: str = "tiny", **spec: Any) -> Any:
    data_dir = str(folder) if folder else None
    found = tfds.load(
        name, data_dir, splits=("train", "test"), host="https://data.example.org", accepted="them"
    )
    return found.train_and_test(DatasetSpec(**SPEC | spec))


def test_loads_whole_splits_with_the_mean_of_the_training_images(prepared: Path) -> None:
    splits = load(prepared)
    assert splits.train.inputs[:, 0, 0, 0].tolist() == [0, 10, 20, 30, 40, 50]
    assert splits.train.targets.tolist() == [0, 1, 0, 1, 0, 1]
    assert splits.validation.inputs[:, 3, 3, 2].tolist() == [0, 10, 20]
    assert splits.mean.tolist() == np.full((4, 4, 3), 25.0).tolist()
    assert splits.source == f"tfds tiny 1.0.0, {prepared}"


def test_other_data_than_expected_is_rejected(prepared: Path) -> None:
    found = error_of(DatasetError, load, prepared, train_samples=7)
    problem = "expected 7 samples, found 6. Remove it and prepare it again."
    assert found == f"data set tiny: {prepared}/tiny/1.0.0, split train: {problem}"


@pytest.mark.parametrize(
    ("file", "contents", "reason"),
    [
        ("*train*", lambda data: data[:-1], r"truncated record at \d+"),
        ("*train*", lambda data: None, "No such file"),
        ("*train*", lambda data: b"not a record\n" * 100, "corrupted record at 0"),
        ("dataset_info.json", lambda data: b"{", ""),
    ],
)
@pytest.mark.advice("Remove it and prepare it again")
def test_damaged_files_are_reported_with_what_to_do(
    prepared: Path, tmp_path: Path, file: str, contents: Any, reason: str
) -> None:
    folder = Path(shutil.copytree(prepared, tmp_path / "tfds"))
    (path,) = (folder / "tiny" / "1.0.0").glob(file)
    damaged = contents(path.read_bytes())
    path.unlink()
    if damaged is not None:
        path.write_bytes(damaged)
    told = (
        rf"{folder}/tiny: cannot be read as data that tensorflow-datasets prepared \((.*)\)\."
        r" Remove it and prepare"
    )
    match = re.match(told, error_of(DatasetError, load, folder))
    assert re.search(reason, match[1]) and "node" not in match[1]
    shutil.rmtree(folder / "tiny")
    shutil.copytree(prepared / "tiny", folder / "tiny")
    assert load(folder).train.num_samples == 6


def test_missing_data_that_cannot_be_fetched_names_the_folder_and_the_way_out(
    tmp_path: Path,
) -> None:
    way_out = (
        r"Use --data synthetic, or name a folder with them: --data-dir, or TFBENCH_DATA_DIR\.$"
    )
    with pytest.raises(
        DatasetError, match=rf"^data set tiny: the folder .*/absent does not exist\. {way_out}"
    ):
        load(tmp_path / "absent")
    not_found = f"data set mnist: not in {tmp_path}/mnist/3.0.1, and cannot be downloaded: https://"
    way_out = way_out.removesuffix("$")
    with pytest.raises(DatasetError, match=rf"^{not_found}.*{way_out} {tmp_path} is empty\.$"):
        load(tmp_path, "mnist")
    for name in ("f", "e", "d", "c", "b", "a"):
        (tmp_path / name).mkdir()
    with pytest.raises(DatasetError, match=rf"{tmp_path} holds a/, b/, c/, d/, e/ and 1 more\.$"):
        load(tmp_path, "mnist")


def test_what_was_decoded_before_needs_neither_tensorflow_nor_its_datasets(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFBENCH_CACHE_DIR", str(tmp_path))
    decoded = load(prepared)
    code = f"""
import sys
from tfbench.datasets.sources.tfds import load
found = load("tiny", {str(prepared)!r}, splits=("train", "test"), host="", accepted="")
print(found.cache, {{"tensorflow", "tensorflow_datasets", "scipy"}} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "read set()\n"
    monkeypatch.setenv("TFDS_DATA_DIR", str(prepared))  # where tensorflow-datasets looks by itself
    kept = load(None)
    assert (decoded.cache, kept.cache, kept.source) == ("written", "read", decoded.source)
    assert np.array_equal(kept.train.inputs, decoded.train.inputs)
