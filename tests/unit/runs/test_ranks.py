"""Which of several workers a process starts, as launchers say in variables, or a user by hand."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from builders import build_recipe
from kinds import Fields
from tfbench.errors import RecipeError
from tfbench.runs.ranks import find_rank

SLURM = {
    "SLURM_JOB_ID": "70",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "2",
    "SLURM_NTASKS": "4",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NODELIST": "node[03-05,9]",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
}
LOCAL = "127.0.0.1:61439,127.0.0.1:61440"


SCONTROL = """#!/bin/sh
case "$3" in
  "node[03-05,9]") echo node03; echo node04; echo node05; echo node9 ;;
  "a[1-2]") echo a1; echo a2 ;;
  *) echo "Invalid hostlist: $3" >&2; exit 1 ;;
esac
"""


@pytest.fixture(autouse=True)
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command of Slurm that lists nodes."""
    command = tmp_path / "scontrol"
    command.write_text(SCONTROL)
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return command


def find(
    environment: Mapping[str, str], by_recipe: int | None = None, backend: str = "jax", **given: Any
) -> tuple[int, int, str]:
    distribution = {"strategy": "multi_worker", "num_workers": by_recipe}
    recipe = build_recipe(
        distribution=distribution, training={"backend": backend, "global_batch_size": 24}
    )
    number, rank = find_rank(recipe, environment, **given)
    assert rank is None or rank.num_workers == number
    return (rank.index, number, ",".join(rank.addresses)) if rank else (0, number, "")


TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "29500"}
POD = {"JOB_COMPLETION_INDEX": "3"}
EVEN = SLURM | {"SLURM_STEP_NODELIST": "a[1-2]", "SLURM_STEP_TASKS_PER_NODE": "2(x2)"}
ONE_NODE = SLURM | {"SLURM_STEP_NODELIST": "a", "SLURM_STEP_TASKS_PER_NODE": "4"}
ALONE = SLURM | {
    "SLURM_PROCID": "0",
    "SLURM_NTASKS": "1",
    "SLURM_STEP_NUM_TASKS": "1",
}  # a shell in a step
MPI_OF_SLURM = (
    SLURM | {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"} | OPEN_MPI
)  # started once a node
BY_HAND = {"coordinator": "a", "num_workers": 2, "worker_index": 1}


@pytest.mark.parametrize(
    ("environment", "by_recipe", "given", "found"),
    [
        ({}, 3, {}, (0, 3, "")),
        ({}, None, {"workers": 2}, (0, 2, "")),
        ({}, None, BY_HAND, (1, 2, "a:61439")),
        (SLURM, None, {}, (2, 4, "node03:61888,node04:61888,node05:61888,node9:61888")),
        (ONE_NODE, None, {}, (2, 4, "a:61888,a:61889,a:61890,a:61891")),
        (SLURM | {"SLURM_STEP_NODELIST": "x[1-4]"}, None, {"coordinator": "a:5"}, (2, 4, "a:5")),
        (EVEN, None, {"backend": "tensorflow"}, (2, 4, "a1:61888,a1:61889,a2:61888,a2:61889")),
        (ALONE, None, {"coordinator": "a:5", "num_workers": 2, "worker_index": 1}, (1, 2, "a:5")),
        (ALONE, 2, {}, (0, 2, "")),
        (MPI_OF_SLURM, None, {}, (1, 2, "node03:61888")),
        (OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, None, {}, (1, 2, LOCAL)),
        ({"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}, None, {}, (0, 2, LOCAL)),
        (OPEN_MPI, None, {"coordinator": "a:5000"}, (1, 2, "a:5000")),
        (TORCHRUN, None, {}, (1, 2, "a:61439")),
        (POD, 4, {"coordinator": "bench-0.bench:5000"}, (3, 4, "bench-0.bench:5000")),
    ],
)
def test_launchers_and_users_say_which_worker_it_is(
    environment: dict[str, str],
    by_recipe: int | None,
    given: Fields,
    found: tuple[int, int, str],
) -> None:
    assert find(environment, by_recipe, **given) == found


def test_without_slurm_s_own_command_the_workers_are_to_be_named(
    slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(slurm.parent / "empty"))
    with pytest.raises(
        RecipeError, match=r"No such file or directory: 'scontrol'. Name the workers: --coordinator"
    ):
        find(SLURM)


def test_two_jobs_on_one_node_do_not_meet() -> None:
    assert (
        find(SLURM) != find(SLURM | {"SLURM_JOB_ID": "71"}) != find(SLURM | {"SLURM_STEP_ID": "1"})
    )


BATCH = {name: value for name, value in SLURM.items() if "STEP" not in name} | {"SLURM_PROCID": "0"}


@pytest.mark.parametrize(
    ("environment", "num_workers", "given", "what"),
    [
        ({}, None, {}, "num_workers=N starts them on this machine; for several machines"),
        ({"TF_CONFIG": "{}"}, None, {"workers": 2}, "is not read. Name the workers: --coord"),
        (BATCH, None, {}, "a job of Slurm with 4 tasks: put srun before the command"),
        (OPEN_MPI, None, {}, "Open MPI does not set everything. Add --coordinator HOST:PORT"),
        (
            POD,
            None,
            {"coordinator": "a:1"},
            "Kubernetes does not set everything. Add --num-workers N",
        ),
        *[
            ({}, None, BY_HAND | {name: None}, f"Add --{name.replace('_', '-')} [A-Z:,]+\\.$")
            for name in BY_HAND
        ],
        (
            EVEN | {"SLURM_STEP_TASKS_PER_NODE": "3,1"},
            None,
            {"backend": "tensorflow"},
            "TensorFlow needs the address of each worker, and Slurm says 1 of 4",
        ),
        (SLURM, None, {"workers": 2}, "would be started by each of 4 processes of Slurm"),
        (
            SLURM | {"SLURM_STEP_NODELIST": "n[1-"},
            None,
            {},
            r"does not list them: Invalid hostlist: n\[1-. Name the",
        ),
        ({}, None, {"workers": 2, "coordinator": "a:1"}, "Leave it out, or leave --coordinator"),
        ({}, 4, {"workers": 2}, "--workers: 2, and distribution.num_workers of the recipe: 4"),
        (
            SLURM,
            2,
            {},
            "the number of processes by Slurm: 4, and distribution.num_workers of the recipe: 2",
        ),
        (
            SLURM,
            None,
            {"num_workers": 3},
            "--num-workers: 3, and the number of processes by Slurm: 4",
        ),
        (
            {},
            2,
            {"coordinator": "a:1", "worker_index": 2},
            "must be from 0 to 1, of 2 workers. Received: 2",
        ),
        (
            {},
            3,
            {"coordinator": "a,b", "worker_index": 1},
            "the number of addresses in --coordinator: 2, and distr",
        ),
        ({}, 2, {"coordinator": "a b", "worker_index": 1}, "--coordinator: must be HOST:PORT"),
    ],
)
def test_what_is_not_said_or_contradicts_is_an_error(
    environment: dict[str, str], num_workers: int | None, given: Fields, what: str
) -> None:
    with pytest.raises(RecipeError, match=what):
        find(environment, num_workers, **given)
