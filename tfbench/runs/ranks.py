"""Which of several workers a process is to start.

It starts all of them, or the one that a launcher or the user's options name.
"""

import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tfbench.errors import RecipeError
from tfbench.machine.children import ANSWER_SECONDS
from tfbench.recipe.sections import Recipe
from tfbench.runs.placement_record import WorkerRank
from tfbench.wording import shorten

# below the ports that Slurm's jobs get here, above those that Linux gives out by itself
DEFAULT_PORT = 61439
_SLURM_PORTS = range(61440, 65472)  # of which a job's workers get some by its number
# Launcher; its variables for a worker's number, how many there are, and how many are on this
# machine.
_RANKS = (
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
    ("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ""),
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("Kubernetes", "JOB_COMPLETION_INDEX", "", ""),
)


class LauncherInfo(NamedTuple):
    """What a launcher's variables say of this process and of its group."""

    by: str
    worker_index: int | None = None
    num_workers: int | None = None
    addresses: Sequence[str] = ()


def find_rank(
    recipe: Recipe,
    environ: Mapping[str, str],
    *,
    workers: int | None = None,
    coordinator: str | None = None,
    num_workers: int | None = None,
    worker_index: int | None = None,
) -> tuple[int, WorkerRank | None]:
    """Returns how many workers there are, and which of them is started here; None: all are.

    What the command line gives wins over variables, and may not contradict them, or the recipe.

    Args:
        recipe: Says how many there are, if nothing else does; on TensorFlow, the addresses of all
            must be known.
        environ: Variables.
        workers: Given: all of them are started here.
        coordinator: Given: "HOST:PORT" or "HOST", or those of all workers, separated by commas.
        num_workers: Given: how many there are.
        worker_index: Given: which one this is.

    Raises:
        RecipeError: It is not said, or one thing contradicts another.
    """
    launcher = _read_variables(environ, needs_addresses=coordinator is None and workers is None)
    if launcher and launcher.num_workers == 1:  # a shell in a step of one process: no group
        launcher = None
    is_by_hand = any(option is not None for option in (coordinator, num_workers, worker_index))
    has_group = is_by_hand or launcher is not None
    by_recipe = recipe.distribution.num_workers
    if not has_group and environ.get("TF_CONFIG"):  # each machine would start all
        raise RecipeError(
            "TF_CONFIG: is not read. Name the workers: --coordinator HOST:PORT,HOST:PORT"
            " --num-workers N --worker-index I; or unset it, for workers of this machine alone."
        )
    if workers is not None:
        _require_one_machine(launcher, is_by_hand)
        return _agree({"--workers": workers, _BY_RECIPE: by_recipe}) or 0, None
    if has_group:
        launcher = launcher or LauncherInfo("the command line")
        rank = _find_own_rank(recipe, launcher, coordinator, num_workers, worker_index)
        return rank.num_workers, rank
    if by_recipe is None:
        raise RecipeError(f"strategy multi_worker: {_HOW}{_explain_slurm(environ)}")
    return by_recipe, None


_BY_RECIPE = "distribution.num_workers of the recipe"
_HOW = (
    "how many workers there are is not said. --set distribution.num_workers=N starts them on this"
    " machine; for several machines, start `tfbench run` on each by srun, mpirun or a Kubernetes"
    " job, or with --coordinator HOST:PORT,HOST:PORT --num-workers N --worker-index I."
)


def _require_one_machine(launcher: LauncherInfo | None, is_by_hand: bool) -> None:
    """Rejects --workers, which starts all workers, beside what names one of them."""
    if is_by_hand:
        raise RecipeError(
            "--workers: starts all workers on this machine; --coordinator, --num-workers and"
            " --worker-index are for several machines. Leave it out, or leave --coordinator,"
            " --num-workers and --worker-index out."
        )
    if launcher and (launcher.num_workers or 1) > 1:
        raise RecipeError(
            f"--workers: would be started by each of {launcher.num_workers} processes of"
            f" {launcher.by}. Leave it out for one worker a process, or start one process."
        )


def _find_own_rank(
    recipe: Recipe,
    launcher: LauncherInfo,
    coordinator: str | None,
    num_workers: int | None,
    worker_index: int | None,
) -> WorkerRank:
    """Returns which worker of a group this process is, by its launcher and the command line."""
    addresses = launcher.addresses
    num_addresses = None  # one address is that of the first worker, however many there are
    if coordinator:
        addresses = _list_addresses(coordinator)
        if "," in coordinator:
            num_addresses = len(addresses)
    number = _agree(
        {
            "--num-workers": num_workers,
            f"the number of processes by {launcher.by}": launcher.num_workers,
            "the number of addresses in --coordinator": num_addresses,
            _BY_RECIPE: recipe.distribution.num_workers,
        }
    )
    index = _agree(
        {"--worker-index": worker_index, f"the number by {launcher.by}": launcher.worker_index}
    )
    if number is None or index is None or not addresses:
        wanted = {
            "--num-workers N": number,
            "--worker-index I": index,
            "--coordinator HOST:PORT,HOST:PORT": addresses or None,
        }
        lacking = " ".join(option for option, value in wanted.items() if value is None)
        raise RecipeError(
            f"strategy multi_worker: {launcher.by} does not set everything. Add {lacking}."
        )
    if not 0 <= index < number:
        raise RecipeError(
            f"--worker-index: must be from 0 to {number - 1}, of {number} workers. Received:"
            f" {index}."
        )
    if recipe.training.backend == "tensorflow" and len(addresses) != number:
        raise RecipeError(
            f"strategy multi_worker: TensorFlow needs the address of each worker, and {launcher.by}"
            f" says {len(addresses)} of {number}: --coordinator HOST:PORT,HOST:PORT with all of"
            " them in their order."
        )
    return WorkerRank(index=index, num_workers=number, addresses=tuple(addresses))


def _agree(numbers: Mapping[str, int | None]) -> int | None:
    """Returns the number that all who name one must name alike; None if nobody does."""
    named = {name: number for name, number in numbers.items() if number is not None}
    if len(set(named.values())) > 1:
        parts = ", and ".join(f"{name}: {number}" for name, number in named.items())
        raise RecipeError(f"{parts}. They must be the same.")
    return next(iter(named.values()), None)


def _list_addresses(text: str) -> list[str]:
    addresses = []
    for address in text.split(","):
        host, colon, port = address.rpartition(":")
        if not colon:
            host = address
            port = str(DEFAULT_PORT)
        is_host = re.fullmatch(r"[\w.-]+|\[[0-9a-fA-F:.]+\]", host)
        is_port = port.isdecimal() and 0 < int(port) < 2**16
        if not is_host or not is_port:
            raise RecipeError(f"--coordinator: must be HOST:PORT. Received: {address!r:.80}.")
        addresses.append(f"{host}:{port}")
    return addresses


def _read_variables(environ: Mapping[str, str], *, needs_addresses: bool) -> LauncherInfo | None:
    """Returns what the first launcher says that is there.

    Of two, the first is the one that started the processes last.
    """
    for by, rank, size, local_size in _RANKS:
        index = _integer(environ, rank)
        number = _integer(environ, size)
        lacks_number = size and number is None
        if index is None or lacks_number:  # a batch script that has not called srun has no step
            continue
        addresses = []
        if needs_addresses and number and number > 1 and by != "torchrun":
            addresses = _slurm_addresses(environ, number)
        if not addresses and number and _integer(environ, local_size) == number:
            addresses = [f"127.0.0.1:{DEFAULT_PORT + place}" for place in range(number)]
        host = environ.get("MASTER_ADDR")
        if not addresses and by == "torchrun" and host:
            addresses = [f"{host}:{DEFAULT_PORT}"]  # at MASTER_PORT, torchrun listens itself
        return LauncherInfo(by, index, number, addresses)
    return None


def _slurm_addresses(environ: Mapping[str, str], number: int) -> list[str]:
    """Returns the workers' addresses in an allocation of Slurm.

    The first one's alone if its nodes differ in their numbers of workers.
    """
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST")
    job = _integer(environ, "SLURM_JOB_ID")
    if not nodes or job is None:
        return []
    hosts = _list_hosts(nodes)
    step = _integer(environ, "SLURM_STEP_ID") or 0
    port = _SLURM_PORTS[(job * 64 + step * 8) % len(_SLURM_PORTS)]
    num_per_host, rest = divmod(number, len(hosts))
    tasks_per_node = environ.get("SLURM_STEP_TASKS_PER_NODE", "1")
    if rest or not re.fullmatch(r"\d+(\(x\d+\))?", tasks_per_node):
        return [f"{hosts[0]}:{port}"]
    addresses = []
    for host in hosts:
        addresses += [f"{host}:{port + place}" for place in range(num_per_host)]
    return addresses


def _explain_slurm(environ: Mapping[str, str]) -> str:
    tasks = _integer(environ, "SLURM_NTASKS")
    if tasks and tasks > 1:
        return f" This is a job of Slurm with {tasks} tasks: put srun before the command."
    return ""


def _integer(environ: Mapping[str, str], name: str) -> int | None:
    value = environ.get(name, "")
    return int(value) if value.isdecimal() else None


def _list_hosts(nodes: str) -> list[str]:
    """Returns the nodes that Slurm's short form names: "a[1-2],b" are a1, a2 and b.

    Raises:
        RecipeError: Slurm's own command, which knows the form, is not here or rejects it.
    """
    if not re.search(r"[\[,]", nodes):
        return [nodes]
    try:
        done = subprocess.run(
            ["scontrol", "show", "hostnames", nodes],
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        why = getattr(error, "stderr", None) or error
        raise RecipeError(
            f"Slurm's nodes {shorten(nodes)}: `scontrol show hostnames` does not list them:"
            f" {str(why).strip()}. Name the workers: --coordinator HOST:PORT,HOST:PORT."
        ) from error
    return done.stdout.split()
