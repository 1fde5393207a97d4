"""`tfbench scale`: what it plans, what it makes and what it shows."""

from pathlib import Path

import pytest

from kinds import Cli
from outcomes import json_of, shown_by
from searches import MakeRuns
from tfbench.errors import DeviceError
from tfbench.machine import frameworks
from tfbench.store.store import Store
from tfbench.store.sweep_log import read_sweep
from tfbench.sweeps import planning
from tfbench.sweeps.planning import choose_kind

SCALE = ("scale", "mnist_mlp", "--data", "synthetic")


@pytest.mark.usefixtures("with_gpus")
def test_strong_scaling_divides_one_batch_and_is_a_sweep(
    tfbench: Cli, fake: MakeRuns, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = fake()
    monkeypatch.setattr(frameworks, "count_gpus", lambda *backend: 2)
    shown = shown_by(tfbench(*SCALE, "--replicas", "1,2"))
    assert len(runs.requests) == 6
    assert {request.recipe.training.global_batch_size for request in runs.requests} == {100}
    assert {request.recipe.measurement.seconds for request in runs.requests} == {1.0}
    assert [request.tags["tfbench.setup"] for request in runs.requests[:3]] == [
        *["one_device gpu:0", "mirrored gpu:0,gpu:1"],
        "mirrored gpu:0,gpu:1",  # the setups take turns at being first
    ]
    again = tfbench("compare", "--sweep", "@last")
    assert again.exit_code == 0 and again.stdout in shown
    plan = read_sweep(store, runs.requests[0].tags["tfbench.sweep"]).plan
    assert (plan.per_replica_batch_size, plan.scaling_modes) == (None, ("data",))


@pytest.mark.parametrize(
    ("options", "batches"),
    [
        ("--weak --global-batch-size 32", [32, 64, 96]),
        ("--weak", [100, 200, 300]),  # the recipe's batch
        ("--global-batch-size 60", [60, 60, 60]),
    ],
)
def test_each_replica_or_all_of_them_get_the_batch(
    tfbench: Cli, fake: MakeRuns, options: str, batches: list[int]
) -> None:
    runs = fake()
    secret = ("--set", 'recipe.source="http://me:secret@here"')
    arguments = ("--replicas", "3,2", "--devices", "cpu", "--repeats", "1", *options.split())
    shown = shown_by(tfbench(*SCALE, *arguments, *secret))
    assert [request.recipe.training.global_batch_size for request in runs.requests] == batches
    assert "Not comparable" not in shown
    assert {(*request.argv[:3], request.argv[-1]) for request in runs.requests} == {
        ("scale", "mnist_mlp", "--data", 'recipe.source="http://me:***@here"')
    }


def test_a_number_that_fails_is_a_result_and_the_document_has_all(
    tfbench: Cli, fake: MakeRuns
) -> None:
    fake(lambda batch, strategy: "FAILED" if batch == 400 else None)
    arguments = ("--replicas", "1,2,4", "--devices", "cpu", "--weak")
    document = json_of(tfbench, *SCALE, *arguments, exit_code=1)
    assert (document["num_failed"], document["scaling"]["kind"]) == (1, "weak")
    assert [point["num_replicas"] for point in document["scaling"]["points"]] == [1, 2]
    reasons = [entry["reason"] for entry in document["rows"][0]["entries"]]
    assert reasons == ["", "", "out of memory"]


def test_a_dry_run_tells_the_plan_and_makes_nothing(
    tfbench: Cli, fake: MakeRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = fake()
    monkeypatch.setattr(frameworks, "count_gpus", lambda *backend: 0)
    options = "--replicas 1,2 --modes data,workers --dry-run --time-budget 2m"
    shown = shown_by(tfbench(*SCALE, *options.split()))
    # without a GPU, logical CPUs; a worker is a process
    setups = "setup       mirrored cpu:0,cpu:1\n  setup       multi_worker cpu:0 num_workers=2\n"
    assert setups in shown
    assert "3 setups x 3 to 20 rounds = 9 to 60 runs\n" in shown
    assert shown.endswith("  time        about 32 s to 2 min, when the time budget ends\n")
    assert (runs.requests, list(Path().iterdir())) == ([], [])


def test_each_mode_has_a_setup_at_each_number_of_devices(
    tfbench: Cli, fake: MakeRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = fake()
    monkeypatch.setattr(planning, "is_installed", lambda backend: True)
    options = "--replicas 2 --devices cpu --backend jax --modes hybrid,data --repeats 1"
    shown = shown_by(tfbench(*SCALE, *options.split()))
    assert [request.tags["tfbench.setup"] for request in runs.requests] == [
        "default cpu:0 backend=jax",
        "mirrored cpu:0,cpu:1 backend=jax",
        "hybrid cpu:0,cpu:1 backend=jax",
    ]
    assert "- 2 devices (hybrid) are not judged" in shown


@pytest.mark.parametrize(
    ("asked", "num_gpus", "found"),
    [("gpu", 0, "none"), ("gpu", 1, "1"), (None, 1, "1"), (None, 3, "3")],
)
def test_more_gpus_than_there_are_are_rejected(
    asked: str | None, num_gpus: int, found: str
) -> None:
    with pytest.raises(
        DeviceError, match=f"--replicas 4 needs GPUs, but TensorFlow sees {found}. `tfbench dev"
    ):
        choose_kind(asked, (1, 2, 4), num_gpus)
