"""A run on cached data equals one that decodes its data, and says which it is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_files import write_idx
from runs import NO_CHECKS, run_json
from tfbench.datasets.mnist import IDX_FILES

pytestmark = pytest.mark.slow


def test_a_run_is_the_same_and_says_where_its_data_came_from(tmp_path: Path) -> None:
    labels = np.random.default_rng(0).integers(0, 10, 60_000, np.uint8)
    images = np.broadcast_to(labels[:, None, None], (60_000, 28, 28))
    samples = {"train": (images, labels), "test": (images[:10_000], labels[:10_000])}
    write_idx(tmp_path, IDX_FILES, samples, packed=True)

    def train() -> Any:
        line = ["run", "mnist_hidden100_mlp", "--devices", "cpu:0", "--no-mlflow", "--epochs", "1"]
        data = ("--data-dir", str(tmp_path), "--global-batch-size", "6000")
        cache = str(tmp_path / "cache")
        return run_json(*line, *data, *NO_CHECKS, cwd=tmp_path, TFBENCH_CACHE_DIR=cache)

    runs = [train(), train()]
    assert [one["dataset"].pop("cache") for one in runs] == ["written", "read"]
    assert runs[0]["dataset"] == runs[1]["dataset"]
    figures = ("loss", "accuracy", "val_loss", "val_accuracy")
    assert len({tuple(one["epochs"][0][name] for name in figures) for one in runs}) == 1
