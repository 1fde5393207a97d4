"""The question that tfbench exists for.

A processor against a GPU, by every command that compares.
"""

from pathlib import Path

import pytest

from gpu_machine import ON_BACKEND, SETUP, run, show

pytestmark = pytest.mark.gpu

SWEEP = (
    "sweep mnist_hidden100_mlp --data synthetic --set measurement.checks=false --repeats 1"
    " --seconds 0.5 --vary training.global_batch_size=128,4096 --format json"
)
SETUPS = ("default cpu:0", SETUP)


def test_a_sweep_holds_the_gpu_against_the_processor(tmp_path: Path) -> None:
    setups = ("--setup", SETUPS[0], "--setup", SETUPS[1])
    done = run(*SWEEP.split(), *setups, *ON_BACKEND, cwd=tmp_path)
    assert done.exit_code == 0, done.stderr[-4000:]
    document = done.document
    show("sweep", *run("compare", "--sweep", "@last", cwd=tmp_path).stdout.splitlines())
    assert (document["num_runs"], document["num_left"], document["num_failed"]) == (4, 0, 0)
    assert [row["global_batch_size"] for row in document["rows"]] == [128, 4096]
    for row in document["rows"]:
        # A name says, too, which backend a setup trains with, where that is not TensorFlow.
        for setup, entry in zip(SETUPS, row["entries"], strict=True):
            assert {*setup.split()} <= {*entry["setup"].split()}
        assert all(entry["samples_per_second"] > 0 for entry in row["entries"])
