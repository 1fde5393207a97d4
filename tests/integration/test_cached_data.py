"""A run on data that was decoded before is the run on data that it decodes itself, and says which it was."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runs import NO_CHECKS, journal_of, of_kind, run
from tfbench.datasets.mnist import IDX_FILES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with noise in place of MNIST, packed."""
    folder = tmp_path_factory.mktemp("mnist")
    rng = np.random.default_rng(0)
    for key, count in {"train": 60_000, "test": 10_000}.items():
        images = rng.integers(0, 256, (count, 28, 28), np.uint8)
        for name, array in zip(IDX_FILES[key], (images, rng.integers(0, 10, count, np.uint8)), strict=True):
            head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
            (folder / f"{name}.gz").write_bytes(gzip.compress(head + array.tobytes(), 1, mtime=0))
    return folder


def train(data: Path, cwd: Path, **environment: str) -> dict[str, Any]:
    where = ("--data", "real", "--data-dir", str(data), "--devices", "cpu:0", "--format", "json", "--no-mlflow")
    done = run(
        *("run", "mnist_hidden100_mlp", *where, *NO_CHECKS, "--epochs", "1", "--global-batch-size", "6000"),
        cwd=cwd,
        **environment,
    )
    assert done.exit_code == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_a_run_is_the_same_and_says_where_its_data_came_from(data: Path, tmp_path: Path) -> None:
    kept = {"TFBENCH_CACHE_DIR": str(tmp_path / "cache")}
    runs = [train(data, tmp_path), train(data, tmp_path, **kept), train(data, tmp_path, **kept)]
    assert [one["dataset"].pop("cache") for one in runs] == ["", "written", "read"]
    assert runs[0]["dataset"] == runs[1]["dataset"] == runs[2]["dataset"]
    figures = ("loss", "accuracy", "val_loss", "val_accuracy")
    assert len({tuple(one["epochs"][0][name] for name in figures) for one in runs}) == 1
    assert all(one["summary"]["breakdown/data_seconds"] > 0 for one in runs)
    (ready,) = of_kind(journal_of(tmp_path / "mlruns"), "ready")
    assert ready["dataset"]["cache"] == "read"
