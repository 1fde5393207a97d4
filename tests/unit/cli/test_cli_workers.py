"""Several workers on the command line of `tfbench run`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groups import RUN, measure, start_fakes
from tfbench.errors import RecipeError
from tfbench.records.members import member_path, split
from tfbench.records.run import RunExit, RunRequest
from tfbench.runs import following, session
from tfbench.runs.following import FollowedRun
from tfbench.runs.launchers.clusters import Place
from tfbench.store.store import Store

Cli = Callable[..., Any]
SECOND = ("--coordinator", "a:1", "--num-workers", "2", "--worker-index", "1")


@pytest.fixture
def run(tfbench: Cli, in_tmp_path: Path) -> Cli:
    def run_it(*arguments: str, strategy: str = "multi_worker") -> Any:
        return tfbench("run", "mnist_mlp", "--backend", "jax", "--strategy", strategy, "--no-mlflow", *arguments)

    return run_it


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[RunRequest, Place | None]]:
    """Notes what was to be measured, instead of measuring it."""
    found: list[tuple[RunRequest, Place | None]] = []

    def execute(request: RunRequest, *rest: Any) -> None:
        found.append((request, rest[-1]))
        raise RecipeError("noted")

    monkeypatch.setattr(session, "execute_run", execute)
    return found


def test_the_number_of_workers_is_in_the_recipe_whoever_said_it(
    run: Cli, asked: list[tuple[RunRequest, Place | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("--workers", "2")
    run("--set", "distribution.num_workers=2")
    monkeypatch.setenv("TFBENCH_COORDINATOR", "a:1")
    monkeypatch.setenv("TFBENCH_NUM_WORKERS", "2")
    monkeypatch.setenv("TFBENCH_WORKER_INDEX", "0")
    run()
    assert [request.recipe.distribution.num_workers for request, _ in asked] == [2, 2, 2]
    assert [place and place.coordinator for _, place in asked] == ["", "", "a:1"]


@pytest.mark.parametrize(
    ("arguments", "strategy", "what"),
    [
        (("--coordinator", "a:5"), "mirrored", "--coordinator: of strategy multi_worker. Received: strategy mirrored"),
        (("--workers", "2"), "mirrored", "--workers: of strategy multi_worker. Received: strategy mirrored"),
        ((), "multi_worker", "--workers N starts them on this machine"),
        (("--workers", "3"), "multi_worker", "training.global_batch_size: must be divisible by num_replicas"),
        ((*SECOND, "--repeats", "3"), "multi_worker", "over several machines a command makes one run"),
        ((*SECOND, "--fast"), "multi_worker", "over several machines a command makes one run"),
    ],
)
def test_what_cannot_be_is_said(
    run: Cli, asked: list[tuple[RunRequest, Place | None]], arguments: tuple[str, ...], strategy: str, what: str
) -> None:
    result = run(*arguments, "--devices", "cpu:0", strategy=strategy)
    assert result.exit_code == 2
    assert what in " ".join(result.stderr.split())
    assert asked == []


@pytest.mark.parametrize(("status", "code"), [("FINISHED", 0), ("KILLED", 1)])
def test_another_worker_than_the_first_says_what_came_of_its_part(
    run: Cli, monkeypatch: pytest.MonkeyPatch, status: Any, code: int
) -> None:
    def follow(request: RunRequest, place: Place, store: Any, tell: Any) -> FollowedRun:
        tell("waiting")
        end = RunExit(status=status, reason="" if status == "FINISHED" else "it was killed")
        return FollowedRun(
            run_id=RUN,
            name="worker 1 of 2 on b",
            index=place.index,
            num_workers=2,
            end=end,
            journal=Path("s/1.jsonl"),
            was_interrupted=False,
        )

    monkeypatch.setattr(following, "follow", follow)
    result = run(*SECOND)
    assert (result.exit_code, result.stderr) == (code, "waiting\n")
    reason = ": it was killed" if code else ""
    assert result.stdout == f"worker 1 of 2 on b, run {RUN}: {status}{reason}. Its journal: s/1.jsonl\n"
    document = json.loads(run(*SECOND, "--format", "json").stdout)
    assert (document["id"], document["worker_index"], document["status"]) == (RUN, 1, status)


def test_export_writes_the_journals_of_all_workers_and_says_which_are_missing(
    tfbench: Cli, in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_fakes(monkeypatch, in_tmp_path)()
    store = Store(Path("mlruns"))
    measure(store)
    done = tfbench("export", RUN)
    assert (done.exit_code, done.stderr) == (0, "")
    whole = Path(f"{RUN}.jsonl").read_bytes()
    paths = [member_path(store.journal_path(RUN), index) for index in range(2)]
    assert whole == b"".join(path.read_bytes() for path in paths)
    assert split(whole) == [path.read_bytes() for path in paths]
    paths[1].unlink()
    assert f"run {RUN}: the journals of workers 1 are not in this store" in tfbench("export", RUN, "--force").stderr
    assert Path(f"{RUN}.jsonl").read_bytes() == paths[0].read_bytes()
