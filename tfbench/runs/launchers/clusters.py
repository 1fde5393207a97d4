"""Which of several workers a process is to start: as Slurm, MPI, Kubernetes and others say it, or a user by hand."""

import contextlib
import dataclasses
import ipaddress
import json
import re
import socket
from collections.abc import Mapping

from tfbench.errors import RecipeError
from tfbench.runs.launchers.connection import join_address, split_address

DEFAULT_PORT = 61439  # below the ports that Slurm's jobs get here, above those that Linux gives out by itself
_SLURM_PORTS = range(61440, 65536)  # of which a job gets one by its number
_LOCAL = "127.0.0.1"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class GivenPlace:
    """What the command line says of it; None: nothing."""

    workers: int | None = None  # all of them started here
    coordinator: str | None = None  # "HOST:PORT" or "HOST"
    num_workers: int | None = None
    worker_index: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Which workers this process starts: one of those that meet at the coordinator, or all."""

    num_workers: int
    index: int = 0
    coordinator: str = ""  # "HOST:PORT", where the first worker's parent listens; "": all workers are started here
    told_by: str = ""  # for people


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """What variables say."""

    told_by: str
    index: int
    num_workers: int | None
    coordinator: str = ""


def find_place(given: GivenPlace, num_workers: int | None, environment: Mapping[str, str]) -> Place:
    """Returns which workers are to be started here.

    Args:
        given: By the command line; it wins over variables, and may not contradict them.
        num_workers: By the recipe.
        environment: Variables.

    Raises:
        RecipeError: It is not said, or one thing contradicts another.
    """
    by_hand = (given.coordinator, given.num_workers, given.worker_index)
    if given.workers is not None:
        if any(value is not None for value in by_hand):
            raise RecipeError(
                "--workers: starts all workers on this machine; --coordinator, --num-workers and --worker-index are "
                "for several machines. Use one or the other."
            )
        found = _read_variables(environment)
        if found and (found.num_workers or 1) > 1:
            raise RecipeError(
                f"--workers: would be started by each of {found.num_workers} processes of {found.told_by}. Leave it "
                "out for one worker a process, or start one process."
            )
        _require_equal("--workers", given.workers, "distribution.num_workers of the recipe", num_workers)
        return Place(num_workers=given.workers, told_by="--workers")
    found = _read_variables(environment)
    if found and found.num_workers == 1:  # a shell in a step of one process: no group
        found = None
    index = given.worker_index if given.worker_index is not None else found.index if found else None
    if all(value is None for value in by_hand) and found is None:
        if num_workers is None:
            raise RecipeError(f"strategy multi_worker: {_HOW}{_explain_slurm(environment)}")
        return Place(num_workers=num_workers, told_by="the recipe")
    told_by = found.told_by if found else "the command line"
    number = _agree(given.num_workers, num_workers, found)
    if number is None:
        raise RecipeError(f"strategy multi_worker: the number of workers is not said by {told_by}: --num-workers N.")
    if index is None:
        raise RecipeError("strategy multi_worker: which of the workers this is, is not said: --worker-index I, from 0.")
    if found and given.worker_index is not None:
        _require_equal("--worker-index", given.worker_index, f"the number by {found.told_by}", found.index)
    if not 0 <= index < number:
        raise RecipeError(f"--worker-index: must be from 0 to {number - 1}, of {number} workers. Received: {index}.")
    coordinator = given.coordinator or (found.coordinator if found else "")
    if not coordinator:
        raise RecipeError(
            f"strategy multi_worker: where the first worker is, is not said by {told_by}: --coordinator HOST:PORT, the "
            "same in all workers."
        )
    return Place(num_workers=number, index=index, coordinator=_with_port(coordinator), told_by=told_by)


_HOW = (
    "how many workers there are is not said. --workers N starts them on this machine; for several machines, start the "
    "same command on each by srun, mpirun or a Kubernetes job, or with --coordinator HOST:PORT --num-workers N "
    "--worker-index I."
)


def _agree(given: int | None, recipe: int | None, found: _Found | None) -> int | None:
    """Returns the number of workers, which all that say one must say alike."""
    told = found.num_workers if found else None
    number = given if given is not None else told if told is not None else recipe
    if number is not None:
        by = f"the number of processes by {found.told_by}" if found else ""
        _require_equal("--num-workers", given, by, told)
        name = "--num-workers" if given is not None else by
        _require_equal(name, number, "distribution.num_workers of the recipe", recipe)
    return number


def _require_equal(name: str, value: int | None, other_name: str, other: int | None) -> None:
    if value is not None and other is not None and value != other:
        raise RecipeError(f"{name}: {value}, and {other_name}: {other}. They must be the same.")


def _with_port(address: str) -> str:
    try:
        host, port = split_address(address)
    except ValueError as error:
        host, port = address, DEFAULT_PORT
        if not re.fullmatch(r"[\w.-]+", address):
            raise RecipeError(f"--coordinator: {error}") from error
    if _is_every_address(host):
        raise RecipeError(
            f"--coordinator: {address} is every address of every machine. Name the one by which others reach worker 0."
        )
    return join_address(host, port)


def _is_every_address(host: str) -> bool:
    """Says whether a host is one of the ways to write that any address is meant: 0.0.0.0, 0, :: and others."""
    with contextlib.suppress(OSError):
        return socket.inet_aton(host) == bytes(4)
    with contextlib.suppress(ValueError):
        address = ipaddress.IPv6Address(host)
        return (address.ipv4_mapped or address).is_unspecified
    return False


def _read_variables(environment: Mapping[str, str]) -> _Found | None:
    """Returns what the first of the launchers says that is there; of two, the one that started the processes last."""
    for read in (_read_tf_config, _read_open_mpi, _read_pmi, _read_slurm, _read_torchrun, _read_kubernetes):
        if found := read(environment):
            return found
    return None


def _read_tf_config(environment: Mapping[str, str]) -> _Found | None:
    text = environment.get("TF_CONFIG")
    if not text:
        return None
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        addresses = [*cluster.get("chief", ()), *cluster["worker"]]
        index = int(task["index"]) + (len(cluster.get("chief", ())) if task["type"] == "worker" else 0)
        if task["type"] not in ("worker", "chief"):
            raise ValueError(f"task.type: must be worker or chief. Received: {task['type']!r:.80}.")
        split_address(addresses[0])
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise RecipeError(
            f'TF_CONFIG: {what} Expected: {{"cluster": {{"worker": ["HOST:PORT", ...]}}, "task": {{"type": "worker", '
            '"index": 0}}.'
        ) from error
    return _Found(told_by="TF_CONFIG", index=index, num_workers=len(addresses), coordinator=addresses[0])


def _read_open_mpi(environment: Mapping[str, str]) -> _Found | None:
    return _read_mpi(
        environment, "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"
    )


def _read_pmi(environment: Mapping[str, str]) -> _Found | None:
    return _read_mpi(environment, "MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS")


def _read_mpi(environment: Mapping[str, str], name: str, rank: str, size: str, local_size: str) -> _Found | None:
    index, number = _integer(environment, rank), _integer(environment, size)
    if index is None or number is None:
        return None
    coordinator = _slurm_coordinator(environment)  # an allocation that mpirun uses
    if not coordinator and _integer(environment, local_size) == number:
        coordinator = f"{_LOCAL}:{DEFAULT_PORT}"
    return _Found(told_by=name, index=index, num_workers=number, coordinator=coordinator)


def _read_slurm(environment: Mapping[str, str]) -> _Found | None:
    index, number = _integer(environment, "SLURM_PROCID"), _integer(environment, "SLURM_STEP_NUM_TASKS")
    if index is None or number is None:  # a batch script that has not called srun has no step of several tasks
        return None
    return _Found(told_by="Slurm", index=index, num_workers=number, coordinator=_slurm_coordinator(environment))


def _slurm_coordinator(environment: Mapping[str, str]) -> str:
    nodes = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST")
    job = _integer(environment, "SLURM_JOB_ID")
    if not nodes or job is None:
        return ""
    step = _integer(environment, "SLURM_STEP_ID") or 0
    port = _SLURM_PORTS[(job * 16 + step) % len(_SLURM_PORTS)]
    return f"{expand_nodes(nodes)[0]}:{port}"


def _explain_slurm(environment: Mapping[str, str]) -> str:
    tasks = _integer(environment, "SLURM_NTASKS")
    return f" This is a job of Slurm with {tasks} tasks: put srun before the command." if tasks and tasks > 1 else ""


def _read_torchrun(environment: Mapping[str, str]) -> _Found | None:
    index, number = _integer(environment, "RANK"), _integer(environment, "WORLD_SIZE")
    if index is None or number is None:
        return None
    host = environment.get("MASTER_ADDR", "")  # at MASTER_PORT, torchrun listens itself
    coordinator = join_address(host, DEFAULT_PORT) if host else ""
    return _Found(told_by="torchrun", index=index, num_workers=number, coordinator=coordinator)


def _read_kubernetes(environment: Mapping[str, str]) -> _Found | None:
    index = _integer(environment, "JOB_COMPLETION_INDEX")
    return None if index is None else _Found(told_by="Kubernetes", index=index, num_workers=None)


def _integer(environment: Mapping[str, str], name: str) -> int | None:
    value = environment.get(name, "")
    return int(value) if value.isdecimal() else None


def expand_nodes(text: str) -> tuple[str, ...]:
    """Returns the nodes that Slurm's short form names: "a[1-2,07],b" are a1, a2, a07 and b.

    Raises:
        RecipeError: It is not of that form.
    """
    nodes: list[str] = []
    for part in re.findall(r"[^,\[\]]*(?:\[[^\]]*\][^,\[\]]*)*", text):
        if part:
            nodes += _expand(part)
    if not nodes or text.count("[") != text.count("]"):
        raise RecipeError(f"SLURM_STEP_NODELIST: is no list of nodes. Received: {text!r:.80}.")
    return tuple(nodes)


def _expand(part: str) -> list[str]:
    found = re.search(r"\[([^\]]*)\]", part)
    if not found:
        return [part]
    before, behind = part[: found.start()], part[found.end() :]
    numbers: list[str] = []
    for item in found[1].split(","):
        first, dash, last = item.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise RecipeError(f"SLURM_STEP_NODELIST: is no list of nodes. Received: {part!r:.80}.")
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last or first) + 1)]
    return [f"{before}{number}{rest}" for number in numbers for rest in _expand(behind)]
