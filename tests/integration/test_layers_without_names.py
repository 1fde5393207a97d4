"""Optimizer groups that name layers by the names that Keras gave them, in runs that build the network again."""

from pathlib import Path

import pytest

from runs import NO_CHECKS, journal_of, of_kind, run

pytestmark = pytest.mark.slow

NETWORK = """
import keras

def build_model(spec):
    layers = [keras.layers.Flatten(), keras.layers.Dense(8), keras.layers.Dense(10)]
    return keras.Sequential([keras.Input(spec.input_shape), *layers])
"""
GROUPS = '{name = "sgd", learning_rate = 0.1, groups = [{variables = "dense_1/kernel", weight_decay = 0.01}]}'


def test_several_replicas_are_compared_with_one_that_has_the_same_names(tmp_path: Path) -> None:
    (tmp_path / "unnamed.py").write_text(NETWORK, encoding="utf-8")
    finished = run(
        *("run", "mnist_hidden100_mlp", "--set", "model.name=unnamed:build_model", "--allow-code"),
        *("--set", f"training.optimizer={GROUPS}", "--set", "training.global_batch_size=16"),
        *("--data", "synthetic", "--steps", "5", "--strategy", "mirrored", "--devices", "cpu:0,cpu:1", "--no-mlflow"),
        *NO_CHECKS,
        cwd=tmp_path,
    )
    assert finished.exit_code == 0, finished.stderr
    (record,) = of_kind(journal_of(tmp_path / "mlruns"), "replica_check")
    assert record["replica_check"]["faults"] == []
    assert record["replica_check"]["compared"] == ["sums", "gradients"]
