"""Which of several workers a process starts, as launchers say in variables, or a user by hand."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tfbench.errors import RecipeError
from tfbench.runs.launchers.ranks import GivenRank, expand_nodes, find_rank

SLURM = {
    "SLURM_JOB_ID": "70",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "2",
    "SLURM_NTASKS": "4",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NODELIST": "node[03-05,9]",
}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}
LOCAL = "127.0.0.1:61439,127.0.0.1:61440"
TF_CONFIG = {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 1}}


def find(
    environment: Mapping[str, str], by_recipe: int | None = None, backend: str = "jax", **given: Any
) -> tuple[int, int, str]:
    number, member = find_rank(GivenRank(**given), by_recipe, backend, environment)
    assert member is None or member.num_workers == number
    return (member.index, number, ",".join(member.addresses)) if member else (0, number, "")


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("vm", ("vm",)),
        ("a,b2", ("a", "b2")),
        ("node[1-3,7]", ("node1", "node2", "node3", "node7")),
        ("n[08-11]", ("n08", "n09", "n10", "n11")),
        ("a[1-2]-b[0,3],c.example.org", ("a1-b0", "a1-b3", "a2-b0", "a2-b3", "c.example.org")),
    ],
)
def test_nodes_in_slurms_short_form_are_written_out(text: str, nodes: tuple[str, ...]) -> None:
    assert expand_nodes(text) == nodes


@pytest.mark.parametrize("text", ["", "node[1-", "node[a-b]", "node[1-2"])
def test_what_is_no_list_of_nodes_is_refused(text: str) -> None:
    with pytest.raises(RecipeError, match="SLURM_STEP_NODELIST: is no list of nodes"):
        expand_nodes(text)


def test_a_task_of_slurm_is_a_worker_and_its_nodes_are_where_they_meet() -> None:
    assert find(SLURM) == (2, 4, "node03:61888,node04:61888,node05:61888,node9:61888")


def test_a_shell_in_a_step_of_one_task_is_as_any_other() -> None:
    alone = SLURM | {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_STEP_NUM_TASKS": "1"}
    assert find(alone, coordinator="a:5", num_workers=2, worker_index=1) == (1, 2, "a:5")


@pytest.mark.parametrize("address", ["0.0.0.0:5", "0.0.0.0", "0:5", "0x0:5", "[::]:5", "[::0]:5"])
def test_every_address_is_no_coordinator(address: str) -> None:
    with pytest.raises(RecipeError, match="is every address of every machine"):
        find({}, coordinator=address, num_workers=2, worker_index=0)


def test_nodes_of_slurm_with_as_many_tasks_each_tell_all_addresses() -> None:
    even = SLURM | {"SLURM_STEP_NODELIST": "a[1-2]", "SLURM_STEP_TASKS_PER_NODE": "2(x2)"}
    assert find(even, backend="tensorflow") == (2, 4, "a1:61888,a1:61889,a2:61888,a2:61889")
    with pytest.raises(RecipeError, match="TensorFlow needs the address of each worker, and Slurm says one"):
        find(even | {"SLURM_STEP_TASKS_PER_NODE": "3,1"}, backend="tensorflow")


def test_two_jobs_on_one_node_do_not_meet() -> None:
    assert find(SLURM) != find(SLURM | {"SLURM_JOB_ID": "71"}) != find(SLURM | {"SLURM_STEP_ID": "1"})


def test_a_job_that_has_not_called_srun_is_told_to() -> None:
    batch = {name: value for name, value in SLURM.items() if "STEP" not in name} | {"SLURM_PROCID": "0"}
    with pytest.raises(RecipeError, match="a job of Slurm with 4 tasks: put srun before the command"):
        find(batch)


def test_mpi_says_which_worker_and_slurm_beneath_it_where() -> None:
    started_once_a_node = SLURM | {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}
    assert find(started_once_a_node | OPEN_MPI) == (1, 2, "node03:61888")


def test_mpi_on_one_machine_needs_no_coordinator_and_on_several_asks_for_it() -> None:
    assert find(OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}) == (1, 2, LOCAL)
    assert find({"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}) == (0, 2, LOCAL)
    assert find(OPEN_MPI, coordinator="a:5000") == (1, 2, "a:5000")
    with pytest.raises(
        RecipeError, match="where the first worker is, is not said by Open MPI: --coordinator HOST:PORT"
    ):
        find(OPEN_MPI)


def test_tf_config_says_all() -> None:
    assert find({"TF_CONFIG": json.dumps(TF_CONFIG)}) == (1, 2, "a:2222,b:2222")
    chief = {"cluster": {"chief": ["c:1"], "worker": ["a:2"]}, "task": {"type": "worker", "index": 0}}
    assert find({"TF_CONFIG": json.dumps(chief)}) == (1, 2, "c:1,a:2")


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"cluster": {"worker": ["a b"]}, "task": {"type": "worker", "index": 0}}']
)
def test_a_tf_config_that_is_none_says_what_is_expected(text: str) -> None:
    with pytest.raises(RecipeError, match=r'TF_CONFIG: .*Expected: \{"cluster"'):
        find({"TF_CONFIG": text})


def test_torchrun_and_kubernetes_are_known() -> None:
    assert find({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "29500"}) == (1, 2, "a:61439")
    pod = {"JOB_COMPLETION_INDEX": "3"}
    assert find(pod, 4, coordinator="bench-0.bench:5000") == (3, 4, "bench-0.bench:5000")
    with pytest.raises(RecipeError, match="the number of workers is not said by Kubernetes: --num-workers N"):
        find(pod, coordinator="a:1")


def test_by_hand_all_three_are_needed() -> None:
    by_hand = {"coordinator": "a", "num_workers": 2, "worker_index": 1}
    assert find({}, **by_hand) == (1, 2, "a:61439")
    for missing, name in (
        ("coordinator", "--coordinator"),
        ("num_workers", "--num-workers"),
        ("worker_index", "--wor"),
    ):
        with pytest.raises(RecipeError, match=name):
            find({}, **by_hand | {missing: None})


def test_without_a_launcher_the_workers_of_the_recipe_are_started_here() -> None:
    assert find({}, 3) == (0, 3, "")
    assert find({}, workers=2) == (0, 2, "")
    with pytest.raises(RecipeError, match="--workers N starts them on this machine; for several machines"):
        find({})


@pytest.mark.parametrize(
    ("environment", "num_workers", "given", "what"),
    [
        (SLURM, None, {"workers": 2}, "would be started by each of 4 processes of Slurm"),
        ({}, None, {"workers": 2, "coordinator": "a:1"}, "Use one or the other"),
        ({}, 4, {"workers": 2}, "--workers: 2, and distribution.num_workers of the recipe: 4"),
        (SLURM, 2, {}, "the number of processes by Slurm: 4, and distribution.num_workers of the recipe: 2"),
        (SLURM, None, {"num_workers": 3}, "--num-workers: 3, and the number of processes by Slurm: 4"),
        (SLURM, None, {"worker_index": 3}, "--worker-index: 3, and the number by Slurm: 2"),
        ({}, 2, {"coordinator": "a:1", "worker_index": 2}, "must be from 0 to 1, of 2 workers. Received: 2"),
        ({}, 3, {"coordinator": "a,b", "worker_index": 1}, "the number of addresses in --coordinator: 2, and distr"),
        ({}, 2, {"coordinator": "a:1", "worker_index": 1, "backend": "tensorflow"}, "needs the address of each worker"),
        ({}, 2, {"coordinator": "a b", "worker_index": 1}, "--coordinator: must be HOST:PORT"),
    ],
)
def test_what_contradicts_is_an_error(
    environment: dict[str, str], num_workers: int | None, given: dict[str, Any], what: str
) -> None:
    with pytest.raises(RecipeError, match=what):
        find(environment, num_workers, **given)


def test_a_step_of_one_task_is_no_group() -> None:
    alone = SLURM | {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}
    assert find(alone, workers=2) == find(alone, 2) == (0, 2, "")
