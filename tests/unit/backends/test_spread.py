"""JAX over several devices: each way to spread a network trains as one device does.

`KERAS_BACKEND=jax pytest FILE`.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import spread_training
from tfbench.schema import read_json

pytestmark = pytest.mark.skipif(
    os.environ.get("KERAS_BACKEND") != "jax", reason="JAX alone cuts weights"
)
ROUNDING = 5e-7  # of a weight, after 20 steps; seen: 7e-8
SPREADS = [spread for spread in spread_training.SPREADS if spread != "one"]


@pytest.fixture(scope="module")
def found() -> Any:
    """What the spreads came to; asked of one process, which imports JAX once."""
    command = [sys.executable, str(Path(spread_training.__file__))]
    done = subprocess.run(command, capture_output=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return read_json(done.stdout.splitlines()[-1])


@pytest.mark.advice("to try it, for example --devices cpu:0,cpu:1")
def test_every_spread_trains_as_one_device(found: Any) -> None:
    assert "there is no GPU. Name logical devices" in found["without_devices"]
    assert len(found["weights"]) == 5
    assert {name: value for name, value in found["weights"].items() if not value < ROUNDING} == {}


@pytest.mark.parametrize("spread", SPREADS)
def test_validation_covers_every_sample_once(found: Any, spread: str) -> None:
    assert found["evaluation"][spread] == pytest.approx(found["evaluation"]["one"], rel=1e-6)


def test_batches_that_fit_makes_are_split_and_whole_where_they_do_not_divide(found: Any) -> None:
    assert found["fed_by_fit"] == [[4, 3], [2, 3]]


def test_cut_weights_go_on_from_a_checkpoint_on_as_many_devices_and_on_one(found: Any) -> None:
    assert set(found["resumed"]) == {"hybrid", "one"}
    assert all(value < ROUNDING for value in found["resumed"].values())


# Dense 1,152 x 16 is cut into four by its columns, or into two; of the logits 16 x 10, four parts
# would not divide.
@pytest.mark.parametrize(
    ("spread", "kernel", "logits"),
    [
        ("data", [1152, 16], [16, 10]),
        ("model", [1152, 4], [16, 10]),
        ("hybrid", [1152, 4], [16, 10]),
        ("mesh", [1152, 8], [16, 5]),
    ],
)
def test_parts_lie_where_the_layout_says(
    found: Any, spread: str, kernel: list[int], logits: list[int]
) -> None:
    parts = {one["name"]: one["part_shape"] for one in found["spread"][spread]["variables"]}
    assert (parts["dense/kernel"], parts["dense_1/kernel"]) == (kernel, logits)
    assert len(set(found["spread"][spread]["bytes_per_device"])) == 1


def test_gradients_of_whole_weights_are_summed_and_cut_weights_are_not_gathered(found: Any) -> None:
    moved = {
        spread: {
            one["operation"]: one["num_bytes"] for one in found["spread"][spread]["collectives"]
        }
        for spread in ("data", "model", "mesh")
    }
    assert moved["data"]["all-reduce"] >= 4 * 1152 * 16
    assert all(moved[spread]["all-gather"] < 4 * 1152 * 4 for spread in ("model", "mesh"))
