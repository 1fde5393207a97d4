"""Several workers on the command line of `tfbench run`."""

from pathlib import Path
from typing import Any

import pytest

from groups import start_fakes
from kinds import Cli
from outcomes import json_of
from tfbench.errors import RecipeError
from tfbench.runs import session
from tfbench.runs.record import RunRequest

SECOND = ("--coordinator", "a:1", "--num-workers", "2", "--worker-index", "1")


@pytest.fixture
def run(tfbench: Cli, in_tmp_path: Path) -> Cli:
    def run_it(*arguments: str, strategy: str = "multi_worker") -> Any:
        return tfbench(
            "run",
            "mnist_mlp",
            "--backend",
            "jax",
            "--strategy",
            strategy,
            "--no-mlflow",
            *arguments,
        )

    return run_it


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[RunRequest]:
    """Notes what was to be measured, instead of measuring it."""
    found = []

    def execute(request: RunRequest, *rest: Any) -> None:
        found.append(request)
        raise RecipeError("noted")

    monkeypatch.setattr(session, "execute_run", execute)
    return found


def test_the_number_of_workers_is_in_the_recipe_whoever_said_it(
    run: Cli, asked: list[RunRequest]
) -> None:
    run("--workers", "2")
    run("--set", "distribution.num_workers=2")
    run(*SECOND[:-1], "0")
    assert [request.recipe.distribution.num_workers for request in asked] == [2, 2, 2]
    assert [request.worker_rank and request.worker_rank.addresses for request in asked] == [
        None,
        None,
        ("a:1",),
    ]


@pytest.mark.parametrize(("fate", "code"), [("finish", 0), ("fail", 1)])
def test_another_worker_than_the_first_says_what_came_of_its_part(
    run: Cli, monkeypatch: pytest.MonkeyPatch, in_tmp_path: Path, fate: str, code: int
) -> None:
    start_fakes(monkeypatch, in_tmp_path)(w1=fate)
    result = run(*SECOND)
    assert (result.exit_code, result.stderr) == (code, "")
    assert result.stdout.startswith(
        f"worker 1 of 2: {'FAILED: ' if code else 'FINISHED. Its journal: '}"
    )
    document = json_of(run, *SECOND, exit_code=code)
    assert (document["worker_index"], document["status"]) == (1, "FAILED" if code else "FINISHED")
    assert Path(document["journal"]).is_file()
