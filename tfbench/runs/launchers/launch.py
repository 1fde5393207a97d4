"""Starting what measures a run: one process; several on this machine; or one here, and others by their own parents."""

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tfbench.errors import DeviceError, RecipeError
from tfbench.machine.gpus import choose_visible, read_gpus
from tfbench.recipe.devices import parse_devices
from tfbench.recipe.sections import DistributionConfig
from tfbench.records.journal import Journal, request_fields
from tfbench.records.machine import Gpu
from tfbench.records.members import describe_member, member_path
from tfbench.records.placement import Member
from tfbench.records.run import RunRequest
from tfbench.runs.launchers import meeting
from tfbench.runs.launchers.clusters import GivenPlace, Place, find_place
from tfbench.runs.launchers.connection import find_free_addresses
from tfbench.runs.launchers.group import Group
from tfbench.runs.launchers.process import TOKEN_VARIABLE, Worker
from tfbench.runs.launchers.remote import RemoteWorker
from tfbench.runs.launchers.watched import Peer, WatchedWorker
from tfbench.wording import count

_LOCAL_HOST = "127.0.0.1"


class Launch:
    """What is known before the first process is started.

    Args:
        request: What is measured; with the first worker's number and everybody's address, if there are several.
        companions: Parents of the other workers, if those are on other machines.
    """

    def __init__(self, request: RunRequest, companions: Sequence[meeting.Companion] = ()) -> None:
        self.request = request
        self._companions = tuple(companions)

    def start(self, journal_path: Path) -> Worker | Group:
        """Starts what measures.

        Args:
            journal_path: Of the run; its first record is there.

        Raises:
            OSError: A process cannot be started.
        """
        member = self.request.member
        if member is None:
            return Worker(self.request, journal_path)
        requests = [
            dataclasses.replace(self.request, member=dataclasses.replace(member, index=index))
            for index in range(member.num_workers)
        ]
        with contextlib.ExitStack() as undone:
            for companion in self._companions:
                companion.connection.send("request", **request_fields(requests[companion.introduction.index]))
            here = requests[:1] if self._companions else requests
            settings = _divide_visible_gpus(self.request) if len(here) > 1 else [{}]
            workers = list[WatchedWorker]()
            for request, own in zip(here, settings, strict=True):
                workers.append(start_member(request, journal_path, settings=own))
                undone.callback(workers[-1].close)
            others: list[Peer] = [*workers[1:], *(_as_peer(companion, journal_path) for companion in self._companions)]
            undone.pop_all()
        return Group(workers[0], others)


@contextlib.contextmanager
def prepare(
    request: RunRequest, place: Place | None, *, is_stopped: meeting.IsStopped, tell: meeting.Tell
) -> Iterator[Launch]:
    """Yields what starts a run, once all parents are there that have a part in it.

    Args:
        request: The run.
        place: Which of several workers this process starts; None: all, unless it was started as one of several.
        is_stopped: Says whether a stop was asked for.
        tell: Told what is waited for.

    Raises:
        RecipeError: How many workers there are is not said.
        DeviceError: There are not enough GPUs for all workers.
        WorkersError: Parents did not meet, or were asked for different things.
        InterruptedRunError: A stop was asked for.
    """
    distribution = request.recipe.distribution
    if distribution.strategy != "multi_worker":
        yield Launch(request)
        return
    if place is None:
        place = find_place(GivenPlace(), distribution.num_workers, os.environ)
        if place.coordinator:
            raise RecipeError(
                f"strategy multi_worker: this is one of {place.num_workers} processes by {place.told_by}: over several "
                "machines, `tfbench run` makes one run. Start one process for all else."
            )
    if not place.coordinator:
        _divide_visible_gpus(request)  # before anything is written
        addresses = find_free_addresses(_LOCAL_HOST, place.num_workers)
        yield Launch(_with_member(request, addresses))
        return
    require_gpus_in_use(request)
    token = os.environ.get(TOKEN_VARIABLE, "")
    own_address, companions = meeting.gather(place, request, token, is_stopped=is_stopped, tell=tell)
    addresses = (own_address, *(companion.introduction.address for companion in companions))
    try:
        yield Launch(_with_member(request, addresses), companions)
    except Exception as error:
        for companion in companions:
            companion.connection.send("refused", reason=str(error))
        raise
    finally:
        for companion in companions:
            companion.connection.close()


def start_member(
    request: RunRequest, run_path: Path, *, settings: dict[str, str] | None = None, host: str = ""
) -> WatchedWorker:
    """Starts one of the workers that train together; the first one's journal is the run's, and is there.

    Args:
        request: Of this worker.
        run_path: The journal of the run.
        settings: Environment variables of this worker alone.
        host: Its machine, where there are several.

    Raises:
        OSError: It cannot be started.
    """
    member = member_of(request)
    path = member_path(run_path, member.index)
    if member.index:
        path.parent.mkdir(parents=True, exist_ok=True)
        journal = Journal(path)
        journal.append("request", **request_fields(request))
        journal.close()
    worker = Worker(request, path, run_path=run_path, settings=settings)
    return WatchedWorker(request, worker, path, describe_member(member, host))


def divide_gpus(config: DistributionConfig, num_workers: int, gpus: Sequence[Gpu]) -> list[dict[str, str]]:
    """Returns the variables of each worker on one machine, by which it sees GPUs that no other does.

    Args:
        config: Whose devices are those of each worker, counted from its first.
        num_workers: On this machine.
        gpus: That this process may use.

    Raises:
        DeviceError: There are not enough, or each worker is to leave some out.
    """
    devices = parse_devices(config)
    if not gpus or (devices and devices[0].kind == "cpu"):
        if devices and devices[0].kind == "gpu" and num_workers > 1:
            raise DeviceError(f"devices: {num_workers} workers need GPUs of their own, and none is seen here.")
        return [{} for _ in range(num_workers)]
    if devices and devices[0].index >= 0:
        each = len(devices)
        if {device.index for device in devices} != set(range(each)):
            raise DeviceError(
                f"devices: those of each worker count from gpu:0. Received: {', '.join(config.devices)}. Choose among "
                "the machine's GPUs with CUDA_VISIBLE_DEVICES."
            )
    else:
        each = max(1, len(gpus) // num_workers)
        if len(gpus) > num_workers and len(gpus) % num_workers:
            raise DeviceError(
                f"devices: {len(gpus)} GPUs do not divide among {num_workers} workers. Name those of each: gpu:0."
            )
    if each * num_workers > len(gpus):
        raise DeviceError(
            f"devices: {num_workers} workers with {count(each, 'GPU')} each need {each * num_workers}, and {len(gpus)} "
            "can be seen here. Use fewer workers, or --devices cpu:0."
        )
    names = [gpu.uuid or str(index) for index, gpu in enumerate(gpus)]
    return [
        {"CUDA_VISIBLE_DEVICES": ",".join(names[index * each : (index + 1) * each])} for index in range(num_workers)
    ]


def require_gpus_in_use(request: RunRequest, num_workers: int = 1) -> None:
    """Checks that no GPU stays idle for want of a worker, where nobody has chosen among them.

    Args:
        request: Of one of the workers.
        num_workers: On this machine.

    Raises:
        DeviceError: One would: on TensorFlow, a worker takes one GPU.
    """
    number = len(_list_visible_gpus())
    asked = parse_devices(request.recipe.distribution)
    if request.recipe.training.backend == "tensorflow" and number > num_workers and (not asked or asked[0].index < 0):
        raise DeviceError(
            f"devices: on TensorFlow a worker takes one GPU, and {number} can be seen here for "
            f"{count(num_workers, 'worker')}. Start one for each (--workers {number}, if all are on this machine), or "
            "name the one of each: --devices gpu:0."
        )


def _divide_visible_gpus(request: RunRequest) -> list[dict[str, str]]:
    distribution = request.recipe.distribution
    num_workers = distribution.num_workers or 1
    require_gpus_in_use(request, num_workers)
    return divide_gpus(distribution, num_workers, _list_visible_gpus())


def _list_visible_gpus() -> tuple[Gpu, ...]:
    return choose_visible(read_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))


def _with_member(request: RunRequest, addresses: tuple[str, ...]) -> RunRequest:
    return dataclasses.replace(request, member=Member(index=0, addresses=addresses))


def member_of(request: RunRequest) -> Member:
    """Returns which of several workers a request is of; it must be of one."""
    if request.member is None:
        raise ValueError("a request of a worker that trains alone")
    return request.member


def _as_peer(companion: meeting.Companion, journal_path: Path) -> RemoteWorker:
    who = companion.introduction
    return RemoteWorker(companion.connection, member_path(journal_path, who.index), who.name)
