import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from runs import Finished, run

RECIPE = """
[recipe]
title = "Mine"
source = "this test"

[model]
name = "mlp"
hidden_units = [4]

[dataset]
name = "mnist"
data = "synthetic"

[training]
global_batch_size = 100
epochs = 1
"""
TWO_CPUS = ("--strategy", "mirrored", "--devices", "cpu:0,cpu:1")


def is_refused(outcome: Any, *words: str) -> bool:
    """Says whether a command ended as one that was given something wrong ends, with a message that holds `words`."""
    exit_code, stdout, stderr = outcome
    assert exit_code == 2, stderr
    assert sum(line.startswith("Error: ") for line in stderr.splitlines()) == 1
    assert "Traceback" not in stderr
    assert "FINISHED" not in stdout
    missing = [word for word in words if word not in stderr]
    assert not missing, f"{missing} not in: {stderr}"
    return True


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing.toml",), ["missing.toml: no such file"]),
        (("mnist_mpl",), ["unknown recipe 'mnist_mpl'", "Did you mean 'mnist_mlp'?"]),
        (("x" * 300,), ["File name too long"]),
        (("mine.toml", "--epochs", "1.5"), ["training.epochs", "1.5"]),
        (("mine.toml", "--epochs", "nan"), ["training.epochs", "nan"]),
        (("mine.toml", "--epochs", "inf"), ["training.epochs", "inf"]),
        (("mine.toml", "--epochs", "many"), ["--epochs", "'many' is not a valid float"]),
        (("mine.toml", "--epochs", "0"), ["training.epochs", "Received: 0."]),
        (("mine.toml", "--global-batch-size", "0"), ["training.global_batch_size", "Received: 0."]),
        (("mine.toml", "--global-batch-size", "-5"), ["training.global_batch_size", "Received: -5."]),
        (("mine.toml", "--global-batch-size", "1e30"), ["command line: training.global_batch_size: holds an integer"]),
        (("mine.toml", "--seed", "-1"), ["training.seed", "Received: -1."]),
        (("mine.toml", "--steps", "0"), ["measurement.steps", "Received: 0."]),
        (("mine.toml", "--seconds", "-1"), ["measurement.seconds", "Received: -1."]),
        (("mine.toml", "--set", "measurement.clock=spam"), ["measurement.clock", "Did you mean 'span'?"]),
        (("mine.toml", "--data", "fake"), ["--data", "real", "synthetic"]),
        (("mine.toml", "--strategy", "mirorred"), ["--strategy", "mirrored"]),
        (("mine.toml", "--devices", ","), ["distribution.devices"]),
        (("mine.toml", "--set", "nonsense"), ["--set nonsense", "SECTION.KEY=VALUE"]),
        (("mine.toml", "--set", "training.epochs=["), ["--set training.epochs=[", "not valid TOML"]),
        (("mine.toml", "--set", "a.b=3"), ["a: unknown key"]),
        (("mine.toml", "--set", "training.epoch=3"), ["training.epoch: unknown key", "Did you mean 'epochs'?"]),
        (("mine.toml", "--set", "training.optimizer=adam"), ["training.optimizer: must be a table"]),
        (("mine.toml", "--set", "model.name=mpl"), ["unknown model 'mpl'", "Did you mean 'mlp'?"]),
        (("mine.toml", "--set", "dataset.name=mist"), ["unknown data set 'mist'", "Did you mean 'mnist'?"]),
        (("mine.toml", "--data-dir", "~nobody-of-that-name/x"), ["~nobody-of-that-name", "no such home directory"]),
        (("mine.toml", "--store", "mine.toml"), ["store mine.toml", "is a file", "--store"]),
        (("mine.toml", "--store", "/proc/store"), ["store /proc/store", "--store"]),
        (("mine.toml", "--store", "what?"), ["'?'", "--store"]),
        (("mine.toml", "--store", "100%20"), ["'%'", "--store"]),
        (("mine.toml", "--tracking-uri", "nonsense"), ["tracking URI nonsense", "http://127.0.0.1:5000"]),
        (("mine.toml", "--tracking-uri", "foo://host"), ["tracking URI foo://host", "sqlite"]),
        (("mine.toml", "--unknown"), ["--unknown"]),
    ],
)
def test_what_is_wrong_by_itself_is_refused_at_once(
    tfbench: Callable[..., Any], in_tmp_path: Path, arguments: tuple[str, ...], words: list[str]
) -> None:
    (in_tmp_path / "mine.toml").write_text(RECIPE, encoding="utf-8")
    assert is_refused(tfbench("run", *arguments), *words)
    assert [path.name for path in in_tmp_path.iterdir()] == ["mine.toml"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (RECIPE.replace('"Mine"', '"Mine'), ["mine.toml: is not valid TOML", "line 3"]),
        ("\ufeff\0", ["mine.toml: is not valid TOML"]),
        (RECIPE + "epochz = 1\n", ["mine.toml: training.epochz: unknown key", "Did you mean 'epochs'?"]),
        (RECIPE.replace("epochs = 1", 'epochs = "1"'), ["mine.toml: training.epochs", "Received: '1'."]),
        (RECIPE.replace("[4]", "[0, -1]"), ["model.hidden_units.0", "model.hidden_units.1"]),
    ],
)
def test_a_broken_recipe_is_refused_with_its_name(
    tfbench: Callable[..., Any], in_tmp_path: Path, text: str, words: list[str]
) -> None:
    (in_tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    assert is_refused(tfbench("run", "mine.toml"), *words)
    assert [path.name for path in in_tmp_path.iterdir()] == ["mine.toml"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--devices", "tpu:0"), ["devices", "'tpu:0'"]),
        (("--strategy", "mirrored", "--devices", "cpu:0,cpu:0"), ["devices", "once"]),
        (("--strategy", "mirrored", "--devices", "cpu:0,gpu:0"), ["devices", "cpu:0, gpu:0"]),
        (("--devices", "cpu:0,cpu:1"), ["strategy default takes one device", "--strategy mirrored"]),
        ((*TWO_CPUS, "--global-batch-size", "101"), ["global_batch_size", "101 with 2 replicas", "Use 100 or 102."]),
        ((*TWO_CPUS, "--set", "training.compiler=xla"), ["training.compiler", "several replicas"]),
    ],
)
def test_devices_that_cannot_be_used_together_are_refused_and_nothing_is_stored(
    tmp_path: Path, arguments: tuple[str, ...], words: list[str]
) -> None:
    (tmp_path / "mine.toml").write_text(RECIPE, encoding="utf-8")
    assert is_refused(run("run", "mine.toml", *arguments, cwd=tmp_path, is_first=True), *words)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Finished]]:
    """What TensorFlow must be started for, two at a time: name of a case -> its folder, and what it left behind."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("gpu", "no_data", "damaged")}
    (folders["no_data"] / "data").mkdir()
    _prepare_mnist(folders["damaged"] / "data")
    gpu = ("sine_lstm", "--devices", "gpu:7", "--format", "json")
    with ThreadPoolExecutor(max_workers=2) as pool:
        futures = {
            name: pool.submit(
                run,
                "run",
                *(gpu if name == "gpu" else ("mnist_mlp",)),
                cwd=folder,
                is_first=True,
                TFBENCH_DATA_DIR=str(folder / "data"),
            )
            for name, folder in folders.items()
        }
        return {name: (folders[name], future.result()) for name, future in futures.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpu", ["gpu:7: not found", "cpu:0", "tfbench devices"]),
        ("no_data", ["not found in {folder}/data/mnist", "cannot be fetched", "--data-dir", "--data synthetic"]),
        (
            "damaged",
            [
                "mnist-train.tfrecord-00000-of-00001: expected a whole record at byte 0",
                "Remove it and prepare it again.",
            ],
        ),
    ],
)
def test_what_only_the_worker_can_see_is_refused_and_nothing_is_stored(
    refused: dict[str, tuple[Path, Finished]], name: str, words: list[str]
) -> None:
    folder, done = refused[name]
    assert is_refused(done, *(word.format(folder=folder) for word in words))
    assert {path.name for path in folder.iterdir()} <= {"data"}
    if name == "gpu":
        assert list(done.document) == ["error"]  # no half of another JSON object


def _prepare_mnist(data_dir: Path) -> Path:
    """Writes a folder as tensorflow-datasets does, with records that end before they should."""
    folder = data_dir / "mnist" / "3.0.1"
    folder.mkdir(parents=True)
    template = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
    splits = [
        {"name": name, "filepathTemplate": template, "numBytes": "1", "shardLengths": [str(count)]}
        for name, count in (("train", 60_000), ("test", 10_000))
    ]
    info = {"name": "mnist", "version": "3.0.1", "fileFormat": "tfrecord", "splits": splits}
    module = "tensorflow_datasets.core.features"
    image = {"dtype": "uint8", "shape": {"dimensions": ["28", "28", "1"]}}
    features = {
        "image": {"image": image, "pythonClassName": f"{module}.image_feature.Image"},
        "label": {"classLabel": {"numClasses": "10"}, "pythonClassName": f"{module}.class_label_feature.ClassLabel"},
    }
    tree = {"featuresDict": {"features": features}, "pythonClassName": f"{module}.features_dict.FeaturesDict"}
    (folder / "dataset_info.json").write_text(json.dumps(info), encoding="utf-8")
    (folder / "features.json").write_text(json.dumps(tree), encoding="utf-8")
    for name in ("train", "test"):
        (folder / f"mnist-{name}.tfrecord-00000-of-00001").write_bytes((1000).to_bytes(8, "little") + b"cut short")
    return folder
