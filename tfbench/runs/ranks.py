"""Which of several workers a process is to start.

All, or the one that a launcher or the user's options name.
"""

import dataclasses
import re
import subprocess
from collections.abc import Mapping, Sequence

from tfbench.errors import RecipeError
from tfbench.recipe.sections import Recipe
from tfbench.records.placement import WorkerRank
from tfbench.wording import shorten

# below the ports that Slurm's jobs get here, above those that Linux gives out by itself
DEFAULT_PORT = 61439
_SLURM_PORTS = range(61440, 65472)  # of which a job's workers get some by its number
# launcher; its variables for a worker's number, how many there are, and how many are on this
# machine
_RANKS = (
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
    ("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ""),
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("Kubernetes", "JOB_COMPLETION_INDEX", "", ""),
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LauncherInfo:
    """What variables say."""

    by: str
    index: int | None = None
    num_workers: int | None = None
    addresses: tuple[str, ...] = ()


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
    by_hand = (coordinator, num_workers, worker_index)
    told = _read_variables(environ, needs_addresses=coordinator is None and workers is None)
    by_recipe = recipe.distribution.num_workers
    if told and told.num_workers == 1:  # a shell in a step of one process: no group
        told = None
    if (
        told is None and by_hand == (None, None, None) and environ.get("TF_CONFIG")
    ):  # each machine would start all
        raise RecipeError(
            "TF_CONFIG: is not read. Name the workers: --coordinator HOST:PORT,HOST:PORT"
            " --num-workers N --worker-index I; or unset it, for workers of this machine alone."
        )
    if workers is not None:
        if by_hand != (None, None, None):
            raise RecipeError(
                "--workers: starts all workers on this machine; --coordinator, --num-workers and"
                " --worker-index are for several machines. Use one or the other."
            )
        if told and (told.num_workers or 1) > 1:
            raise RecipeError(
                f"--workers: would be started by each of {told.num_workers} processes of {told.by}."
                " Leave it out for one worker a process, or start one process."
            )
        return _agree({"--workers": workers, _BY_RECIPE: by_recipe}) or 0, None
    if told is None and by_hand == (None, None, None):
        if by_recipe is None:
            raise RecipeError(f"strategy multi_worker: {_HOW}{_explain_slurm(environ)}")
        return by_recipe, None
    told = told or LauncherInfo(by="the command line")
    addresses = _list_addresses(coordinator) if coordinator else told.addresses
    number = _agree(
        {
            "--num-workers": num_workers,
            f"the number of processes by {told.by}": told.num_workers,
            "the number of addresses in --coordinator": (
                len(addresses) if "," in (coordinator or "") else None
            ),
            _BY_RECIPE: by_recipe,
        }
    )
    index = _agree({"--worker-index": worker_index, f"the number by {told.by}": told.index})
    if number is None or index is None or not addresses:
        wanted = {
            "--num-workers N": number,
            "--worker-index I": index,
            "--coordinator HOST:PORT": addresses or None,
        }
        lacking = " ".join(option for option, value in wanted.items() if value is None)
        raise RecipeError(
            f"strategy multi_worker: {told.by} does not set everything. Add {lacking}."
        )
    if not 0 <= index < number:
        raise RecipeError(
            f"--worker-index: must be from 0 to {number - 1}, of {number} workers. Received:"
            f" {index}."
        )
    if recipe.training.backend == "tensorflow" and len(addresses) != number:
        raise RecipeError(
            f"strategy multi_worker: TensorFlow needs the address of each worker, and {told.by}"
            f" says {len(addresses)} of {number}: --coordinator HOST:PORT,HOST:PORT with all of"
            " them in their order."
        )
    return number, WorkerRank(index=index, num_workers=number, addresses=addresses)


_BY_RECIPE = "distribution.num_workers of the recipe"
_HOW = (
    "how many workers there are is not said. --workers N starts them on this machine; for several"
    " machines, start the same command on each by srun, mpirun or a Kubernetes job, or with"
    " --coordinator HOST:PORT --num-workers N --worker-index I."
)


def _agree(numbers: Mapping[str, int | None]) -> int | None:
    """Returns the number that all who say one must say alike."""
    said = {name: number for name, number in numbers.items() if number is not None}
    if len({*said.values()}) > 1:
        parts = ", and ".join(f"{name}: {number}" for name, number in said.items())
        raise RecipeError(f"{parts}. They must be the same.")
    return next(iter(said.values()), None)


def _list_addresses(text: str) -> tuple[str, ...]:
    addresses = []
    for each in text.split(","):
        host, colon, port = each.rpartition(":")
        if not colon:
            host = each
            port = str(DEFAULT_PORT)
        if (
            not re.fullmatch(r"[\w.-]+|\[[0-9a-fA-F:.]+\]", host)
            or not port.isdecimal()
            or not 0 < int(port) < 2**16
        ):
            raise RecipeError(f"--coordinator: must be HOST:PORT. Received: {each!r:.80}.")
        addresses.append(f"{host}:{port}")
    return tuple(addresses)


def _read_variables(environ: Mapping[str, str], *, needs_addresses: bool) -> LauncherInfo | None:
    """Returns what the first launcher says that is there.

    Of two, the one that started the processes last.
    """
    for by, rank, size, local_size in _RANKS:
        index = _integer(environ, rank)
        number = _integer(environ, size)
        if index is None or (
            size and number is None
        ):  # a batch script that has not called srun has no step
            continue
        addresses: Sequence[str] = ()
        if needs_addresses and number and number > 1 and (by == "Slurm" or "MPI" in by):
            addresses = _slurm_addresses(environ, number)
        if not addresses and number and _integer(environ, local_size) == number:
            addresses = [f"127.0.0.1:{DEFAULT_PORT + each}" for each in range(number)]
        if not addresses and by == "torchrun" and (host := environ.get("MASTER_ADDR")):
            addresses = [f"{host}:{DEFAULT_PORT}"]  # at MASTER_PORT, torchrun listens itself
        return LauncherInfo(by=by, index=index, num_workers=number, addresses=tuple(addresses))
    return None


def _slurm_addresses(environ: Mapping[str, str], number: int) -> list[str]:
    """Returns the workers' addresses in an allocation of Slurm.

    The first one's alone if its nodes differ.
    """
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST")
    job = _integer(environ, "SLURM_JOB_ID")
    if not nodes or job is None:
        return []
    hosts = _list_hosts(nodes)
    port = _SLURM_PORTS[
        (job * 64 + (_integer(environ, "SLURM_STEP_ID") or 0) * 8) % len(_SLURM_PORTS)
    ]
    each, rest = divmod(number, len(hosts))
    if rest or not re.fullmatch(r"\d+(\(x\d+\))?", environ.get("SLURM_STEP_TASKS_PER_NODE", "1")):
        return [f"{hosts[0]}:{port}"]
    return [f"{host}:{port + place}" for host in hosts for place in range(each)]


def _explain_slurm(environ: Mapping[str, str]) -> str:
    tasks = _integer(environ, "SLURM_NTASKS")
    return (
        f" This is a job of Slurm with {tasks} tasks: put srun before the command."
        if tasks and tasks > 1
        else ""
    )


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
            ["scontrol", "show", "hostnames", nodes], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        why = getattr(error, "stderr", None) or error
        raise RecipeError(
            f"Slurm's nodes {shorten(nodes)}: `scontrol show hostnames` does not list them:"
            f" {str(why).strip()}. Name the workers: --coordinator HOST:PORT,HOST:PORT."
        ) from error
    return done.stdout.split()
