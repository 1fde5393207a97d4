"""Starting what measures a run.

That is one process, all workers that train together, or the one of them that is here.
"""

import contextlib
import dataclasses
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from tfbench.errors import DatasetError, DeviceError, MeasurementError, RecipeError
from tfbench.machine.facts import Gpu
from tfbench.machine.frameworks import require_gpus
from tfbench.machine.gpus import choose_visible, read_gpus
from tfbench.recipe.backend_support import BACKEND_TITLES
from tfbench.recipe.device_names import parse_devices
from tfbench.recipe.sections import DistributionConfig
from tfbench.runs.forked import Forker
from tfbench.runs.group import Group
from tfbench.runs.observer import Observer
from tfbench.runs.placement_record import WorkerRank
from tfbench.runs.process import Worker, worker_variables
from tfbench.runs.ranks import find_rank
from tfbench.runs.record import RunRequest
from tfbench.store.journal import Journal, request_fields
from tfbench.store.run_folder import worker_journal_path
from tfbench.wording import count

Settings = Sequence[dict[str, str]]  # variables of each process that is started here


def prepare(request: RunRequest) -> tuple[RunRequest, Settings]:
    """Finds out what is to be started here.

    The request that it returns names the workers and their addresses, if there are several.

    Raises:
        RecipeError: How many workers there are is not said.
        DeviceError: There are not enough GPUs for all workers, or one would stay idle.
        DatasetError: The data folder is not there.
    """
    distribution = request.recipe.distribution
    require_gpus(distribution.devices)
    require_data_dir(request.recipe.dataset.name, request.recipe.dataset.data, request.data_dir)
    if distribution.strategy != "multi_worker":
        return request, [{}]
    if request.worker_rank:
        require_gpus_in_use(request)
        return request, [{}]
    number, rank = find_rank(request.recipe, os.environ)
    if rank:
        raise RecipeError(
            f"strategy multi_worker: a launcher started {number} processes, which only a single"
            " `tfbench run` can use. For this command, start one process."
        )
    require_gpus_in_use(request, number)
    settings = divide_gpus(distribution, number, _list_visible_gpus())
    local = WorkerRank(index=0, num_workers=number, addresses=_find_free_addresses(number))
    return dataclasses.replace(request, worker_rank=local), settings


def require_data_dir(name: str, data: str, data_dir: str | None) -> None:
    """Rejects a folder of real data that is not there, before a framework is started.

    Raises:
        DatasetError: It is not.
    """
    is_read = name != "network" and data != "synthetic"
    if is_read and data_dir is not None and not Path(data_dir).exists():
        raise DatasetError(
            f"data folder {data_dir}: no such file or folder. Name another one (--data-dir, or"
            " TFBENCH_DATA_DIR), or use --data synthetic."
        )


def fork_or_start(
    request: RunRequest,
    settings: Settings,
    journal_path: Path,
    observer: Observer,
    forker: Forker | None,
    is_over: Callable[[], bool],
) -> Worker | Group:
    """Forks what measures where it can, or else starts it.

    It warns once of each reason why it cannot.

    Args:
        request: As of `start`.
        settings: As of `start`.
        journal_path: As of `start`.
        observer: Receives the stage and the warnings.
        forker: Has prepared processes; None: none.
        is_over: Whether nobody waits for the run any more.

    Raises:
        OSError: A process cannot be started.
    """
    backend = request.recipe.training.backend
    observer.stage(f"starting {BACKEND_TITLES[backend]}")
    if forker is None:
        return start(request, settings, journal_path)
    try:
        link = forker.prepare(request, worker_variables(backend), is_over)
        return start(request, settings, journal_path, link)
    except MeasurementError as error:
        if str(error) not in forker.shown_reasons:
            forker.shown_reasons.add(str(error))
            observer.warning(f"not forked: {error}. Each run that cannot be forked is started.")
    return start(request, settings, journal_path)


def start(
    request: RunRequest, settings: Settings, journal_path: Path, link: socket.socket | None = None
) -> Worker | Group:
    """Starts what measures.

    Args:
        request: As of `prepare`, and so `settings`.
        settings: Of each process.
        journal_path: Of the run, or of the one worker that is here; its first record is there.
        link: To a prepared process that forks what measures, if that is one process; None: it is
            started.

    Raises:
        MeasurementError: It cannot be forked.
        OSError: A process cannot be started.
    """
    rank = request.worker_rank
    if rank is None:
        return Worker(request, journal_path, link=link)
    requests = []
    workers = []
    with contextlib.ExitStack() as undone:
        for number, variables in enumerate(settings):
            own_rank = dataclasses.replace(rank, index=rank.index + number)
            own_request = dataclasses.replace(request, worker_rank=own_rank)
            path = journal_path
            if number:
                path = worker_journal_path(journal_path, own_rank.index)
                path.parent.mkdir(parents=True, exist_ok=True)
                with contextlib.closing(Journal(path)) as journal:
                    journal.append("request", **request_fields(own_request))
            worker = Worker(own_request, path, run_path=journal_path, settings=variables)
            requests.append(own_request)
            workers.append(undone.enter_context(worker))
        undone.pop_all()
    return Group(workers, requests)


def divide_gpus(
    config: DistributionConfig, num_workers: int, gpus: Sequence[Gpu]
) -> list[dict[str, str]]:
    """Returns environment variables that give each local worker its own GPUs.

    No worker sees the GPUs of another.

    Args:
        config: Whose devices are those of each worker, counted from its first.
        num_workers: On this machine.
        gpus: That this process may use.

    Raises:
        DeviceError: There are not enough, or each worker is to leave some out.
    """
    devices = parse_devices(config)
    kind = devices[0].kind if devices else ""
    if not gpus or kind == "cpu":
        if kind == "gpu" and num_workers > 1:
            raise DeviceError(
                f"devices: {num_workers} workers need GPUs of their own, and none is seen here."
            )
        return [{} for _ in range(num_workers)]
    are_named = bool(devices) and devices[0].index >= 0
    num_each = len(devices) if are_named else max(1, len(gpus) // num_workers)
    if are_named and {device.index for device in devices} != set(range(num_each)):
        raise DeviceError(
            "devices: each worker numbers its GPUs from gpu:0. Received:"
            f" {', '.join(config.devices)}. Choose among the machine's GPUs with"
            " CUDA_VISIBLE_DEVICES."
        )
    num_wanted = num_each * num_workers
    if num_wanted > len(gpus) or (num_wanted < len(gpus) and not are_named):
        raise DeviceError(
            f"devices: {num_workers} workers with {count(num_each, 'GPU')} each take {num_wanted},"
            f" and {len(gpus)} can be seen here. Use --devices gpu:0 for one GPU per worker, or use"
            " another number of workers, or --devices cpu:0."
        )
    names = [gpu.uuid or str(index) for index, gpu in enumerate(gpus)]
    starts = range(0, num_wanted, num_each)
    return [{"CUDA_VISIBLE_DEVICES": ",".join(names[at : at + num_each])} for at in starts]


def require_gpus_in_use(request: RunRequest, num_workers: int = 1) -> None:
    """Checks that no GPU stays idle for want of a worker, where nobody has chosen among them.

    Args:
        request: Of one of the workers.
        num_workers: On this machine.

    Raises:
        DeviceError: One would: on TensorFlow, a worker takes one GPU.
    """
    num_gpus = len(_list_visible_gpus())
    devices = parse_devices(request.recipe.distribution)
    are_named = bool(devices) and devices[0].index >= 0
    if request.recipe.training.backend == "tensorflow" and not are_named and num_gpus > num_workers:
        raise DeviceError(
            f"devices: on TensorFlow a worker takes one GPU, and {num_gpus} can be seen here for"
            f" {count(num_workers, 'worker')}. Start one for each (--workers {num_gpus}, if all"
            " are on this machine), or name the one of each: --devices gpu:0."
        )


def _list_visible_gpus() -> tuple[Gpu, ...]:
    return choose_visible(read_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))


def _find_free_addresses(number: int) -> tuple[str, ...]:
    """Returns addresses of this machine at which nobody listens; soon after, somebody else may."""
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(number)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return tuple(f"127.0.0.1:{listener.getsockname()[1]}" for listener in listeners)
