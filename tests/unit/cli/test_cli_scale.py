"""`tfbench scale`: what it plans, what it makes, what it shows, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import build_placement, build_result
from tfbench.analysis.comparison.brief import make_brief
from tfbench.errors import DeviceError, RecipeError
from tfbench.machine import devices
from tfbench.records.run import ModelSummary, RunExit, RunRequest, Summary
from tfbench.records.scaling import find_scaling_arms, replica_arms
from tfbench.records.sweep import SweepPlan
from tfbench.runs import session
from tfbench.runs.limits import RunOutcome
from tfbench.store import briefs
from tfbench.store.store import Store
from tfbench.store.sweep_log import read_sweep
from tfbench.sweeps import plan, view
from tfbench.sweeps.arguments import parse_replicas
from tfbench.sweeps.plan import choose_kind

Cli = Callable[..., Any]
Runs = list[RunRequest]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, in_tmp_path: Path) -> Runs:
    """Lets runs train at 1000 samples/s for each replica to the power of a half; a fourth replica fails."""
    monkeypatch.setenv("COLUMNS", "120")
    made, kept = Runs(), {}

    def execute(request: RunRequest, *rest: Any) -> RunOutcome:
        made.append(request)
        recipe = request.recipe
        count, batch = len(recipe.distribution.devices), recipe.training.global_batch_size
        metrics: dict[str, float | None] = {
            "samples_per_second": 1000.0 * count**0.5,
            "num_replicas": count,
            "num_parameters": 1000,
            "num_trainable_parameters": 1000,
            "global_batch_size": batch,
        }
        placement = build_placement(
            strategy=recipe.distribution.strategy,
            devices=recipe.distribution.devices,
            num_replicas=count,
            global_batch_size=batch,
            per_replica_batch_size=batch // count,
        )
        result = build_result(
            request=request,
            placement=placement,
            model=ModelSummary(num_parameters=1000, num_trainable_parameters=1000),
            exit=RunExit(status="FAILED" if count == 4 else "FINISHED", reason="no memory" if count == 4 else ""),
        )
        summary = Summary(metrics=metrics)
        kept[request.run_id] = make_brief(result, summary, journal_bytes=0)
        return RunOutcome(result=result, summary=summary, tracked=None, was_interrupted=False)

    monkeypatch.setattr(session, "execute_run", execute)
    monkeypatch.setattr(briefs, "_read_brief", lambda path: kept[path.stem])
    monkeypatch.setattr(view, "show_sweep", lambda *rest: None)  # in MLflow
    return made


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Gives the machine so many GPUs."""

    def give(number: int) -> None:
        monkeypatch.setattr(devices, "count_gpus", lambda *backend: number)

    return give


def plan_of(runs: Runs) -> SweepPlan:
    return read_sweep(Store(Path("mlruns")), runs[0].tags["tfbench.sweep"])[0]


def scale(tfbench: Cli, *arguments: str) -> Any:
    return tfbench("scale", "mnist_mlp", "--data", "synthetic", *arguments)


def test_strong_scaling_divides_one_batch_and_is_a_sweep(tfbench: Cli, made: Runs, gpus: Callable[[int], None]) -> None:
    gpus(2)
    done = scale(tfbench, "--replicas", "1,2")
    assert (done.exit_code, done.stderr) == (0, "")
    assert len(made) == 6
    assert {request.recipe.training.global_batch_size for request in made} == {100}
    assert {request.recipe.measurement.seconds for request in made} == {5.0}
    assert [request.tags["tfbench.arm"] for request in made[:3]] == [
        *["one_device gpu:0", "mirrored gpu:0,gpu:1"],
        "mirrored gpu:0,gpu:1",  # the arms take turns at being first
    ]
    again = tfbench("compare", "--sweep", "@last")
    assert again.exit_code == 0
    assert again.stdout in done.stdout
    plan = plan_of(made)
    assert (plan.per_replica_batch_size, find_scaling_arms(plan)) == (None, ("gpu", (1, 2), ("data",)))


def test_weak_scaling_gives_each_replica_the_same_batch(tfbench: Cli, made: Runs) -> None:
    arguments = ("--replicas", "3,2", "--devices", "cpu", "--weak", "--per-replica-batch-size", "32", "--repeats", "2")
    done = scale(tfbench, *arguments, "--seconds", "1", "--set", 'recipe.source="http://me:secret@here"')
    assert (done.exit_code, done.stderr) == (0, "")
    sizes = {request.tags["tfbench.arm"]: request.recipe.training.global_batch_size for request in made}
    assert sizes == {"one_device cpu:0": 32, "mirrored cpu:0,cpu:1": 64, "mirrored cpu:0,cpu:1,cpu:2": 96}
    assert all("training.global_batch_size" in request.overrides for request in made)
    assert {(*request.argv[:3], request.argv[-1]) for request in made} == {
        ("scale", "mnist_mlp", "--data", 'recipe.source="http://me:***@here"')
    }
    assert "Not comparable" not in done.stdout


def test_the_recipes_batch_is_that_of_each_replica_unless_another_is_named(tfbench: Cli, made: Runs) -> None:
    assert scale(tfbench, "--replicas", "2", "--devices", "cpu", "--weak", "--repeats", "1").exit_code == 0
    assert sorted(request.recipe.training.global_batch_size for request in made) == [100, 200]
    made.clear()
    arguments = ("--replicas", "2", "--devices", "cpu", "--global-batch-size", "64", "--repeats", "1")
    assert scale(tfbench, *arguments).exit_code == 0
    assert {request.recipe.training.global_batch_size for request in made} == {64}


def test_a_number_that_fails_is_a_result_and_the_document_has_all(tfbench: Cli, made: Runs) -> None:
    done = scale(tfbench, "--replicas", "1,2,4", "--devices", "cpu", "--format", "json")
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert (document["num_failed"], document["scaling"]["kind"]) == (1, "strong")
    assert [point["num_replicas"] for point in document["scaling"]["points"]] == [1, 2]
    assert [(one["num_devices"], one["reason"]) for one in document["scaling"]["missing"]] == [(4, "no memory")]


def test_a_dry_run_tells_the_plan_and_makes_nothing(tfbench: Cli, made: Runs, gpus: Callable[[int], None]) -> None:
    gpus(0)
    done = scale(tfbench, "--replicas", "1,2", "--modes", "data,workers", "--dry-run", "--time-budget", "2m")
    assert (done.exit_code, done.stderr) == (0, "")  # without a GPU, logical CPUs; a worker is a process
    assert "arm         mirrored cpu:0,cpu:1\n  arm         multi_worker cpu:0 num_workers=2\n" in done.stdout
    assert "3 arms x 3 rounds = 9 runs" in done.stdout
    assert (made, list(Path().iterdir())) == ([], [])


def test_each_mode_has_an_arm_at_each_number_of_devices(
    tfbench: Cli, made: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "is_installed", lambda backend: True)
    arguments = ("--replicas", "2", "--devices", "cpu", "--backend", "jax", "--modes", "hybrid,data", "--repeats", "1")
    done = scale(tfbench, *arguments)
    assert (done.exit_code, done.stderr) == (0, "")
    assert [request.tags["tfbench.arm"] for request in made] == [
        "default cpu:0 backend=jax",
        "mirrored cpu:0,cpu:1 backend=jax",
        "hybrid cpu:0,cpu:1 backend=jax",
    ]
    assert "- 2 devices (hybrid) are not judged" in done.stdout


@pytest.mark.parametrize(
    ("asked", "num_gpus", "found"),
    [("gpu", 0, "no GPU"), ("gpu", 1, "1 GPU"), (None, 1, "1 GPU"), (None, 3, "3 GPUs")],
)
def test_more_gpus_than_there_are_are_refused(asked: str | None, num_gpus: int, found: str) -> None:
    with pytest.raises(DeviceError) as error:
        choose_kind(asked, (1, 2, 4), num_gpus)
    assert str(error.value) == (
        f"--replicas: TensorFlow sees {found}. Received: 4. `tfbench devices` says why one that is in the machine is "
        "not seen; with --devices cpu replicas are logical devices of the processor, which share its cores."
    )


def test_replicas_are_placed_on_gpus_if_there_are_any() -> None:
    assert [choose_kind(None, (1, 2), number) for number in (0, 2)] == ["cpu", "gpu"]
    assert [choose_kind(kind, (1, 2), 2) for kind in ("cpu", "gpu")] == ["cpu", "gpu"]


def test_one_replica_is_always_among_those_that_are_measured() -> None:
    assert [parse_replicas(text) for text in ("4,2", "1,2,2", " 8 ")] == [(1, 2, 4), (1, 2), (1, 8)]
    with pytest.raises(RecipeError):
        parse_replicas("2,,4")
    assert [arm.label for arm in replica_arms("gpu", (1, 2))] == ["one_device gpu:0", "mirrored gpu:0,gpu:1"]
