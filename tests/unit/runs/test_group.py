"""Workers on one machine that train together: all begin, and end, together.

Their processes measure nothing.
"""

import dataclasses
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from fake_workers import read_journal, wait_for
from groups import RUN, Fates, group_request, measure, start_fakes
from kinds import Fields
from tfbench.errors import DeviceError, RecipeError
from tfbench.machine.facts import Gpu
from tfbench.recipe.sections import DistributionConfig
from tfbench.runs import group, launch, session
from tfbench.runs.placement_record import WorkerRank
from tfbench.store.journal import read_result
from tfbench.store.run_folder import worker_journal_path
from tfbench.store.store import Store


@pytest.fixture
def fates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fates:
    return start_fakes(monkeypatch, tmp_path)


def meanwhile(
    store: Store, index: int, do: Callable[[int], None], kind: str = "spans"
) -> list[int]:
    """Does something to a worker's process once both train, or have written another kind of record.

    Returns where the ids of all processes will be.
    """
    pids = []

    def wait_and_do() -> None:
        paths = [worker_journal_path(store.journal_path(RUN), number) for number in range(2)]
        pids.extend(wait_for(path, "worker")["pid"] for path in paths)
        for path in paths:  # of which one may be much slower than the other
            wait_for(path, kind)
        do(pids[index])

    threading.Thread(target=wait_and_do, daemon=True).start()
    return pids


def end_of(store: Store) -> tuple[str, str]:
    """Makes a run, and returns how it ended."""
    end = measure(store).result.exit
    return end.status, end.reason


def test_all_workers_begin_once_all_are_ready(store: Store, fates: Fates) -> None:
    fates(w2="late")
    outcome = measure(store, group_request(3))
    assert outcome.result.status == "FINISHED"
    path = store.journal_path(RUN)
    started = [wait_for(worker_journal_path(path, index), "started")["time"] for index in range(3)]
    assert min(started) >= wait_for(worker_journal_path(path, 2), "ready")["time"]
    ranks = [
        read_journal(worker_journal_path(path, index))[0]["request"]["worker_rank"]
        for index in range(3)
    ]
    assert [rank["index"] for rank in ranks] == [0, 1, 2]
    assert len(set(ranks[0]["addresses"])) == 3 and all(
        rank["addresses"] == ranks[0]["addresses"] for rank in ranks
    )


@pytest.mark.parametrize("index", [0, 1])
def test_a_worker_that_is_killed_ends_the_run_which_names_it(
    store: Store, fates: Fates, index: int
) -> None:
    fates(w0="wait", w1="wait")
    pids = meanwhile(store, index, lambda pid: os.kill(pid, signal.SIGKILL))
    reason = f"worker {index} of 2 was killed by SIGKILL; the system does this when memory runs out"
    assert end_of(store) == ("KILLED", reason)
    assert not any(psutil.pid_exists(pid) for pid in pids)
    other = read_journal(worker_journal_path(store.journal_path(RUN), 1 - index))
    assert "spans" in {record["kind"] for record in other}  # what the other measured is kept


@pytest.mark.parametrize("fate", ["wait", "join"])
def test_a_worker_that_a_signal_stops_is_named_and_ended_though_it_hears_nothing(
    store: Store, fates: Fates, monkeypatch: pytest.MonkeyPatch, fate: str
) -> None:
    monkeypatch.setattr(group, "STOPPED_SECONDS", 0.1)
    monkeypatch.setattr(session, "STOP_SECONDS", 0.5)
    fates(w0=fate, w1="wait")
    kind = "spans" if fate == "wait" else "worker"
    pids = meanwhile(store, 1, lambda pid: os.kill(pid, signal.SIGSTOP), kind)
    assert end_of(store) == ("KILLED", "worker 1 of 2 was stopped by a signal (SIGSTOP)")
    assert not any(psutil.pid_exists(pid) for pid in pids)


@pytest.mark.parametrize(
    ("fate", "why"),
    [
        ({"w0": "crash"}, "the measuring process crashed with SIGSEGV. last words"),
        ({"w1": "crash"}, ""),  # of which the first, which goes on, tells itself
        ({"w0": "stop"}, "worker 0 of 2 was stopped by a signal (SIGSTOP)"),
        ({"w1": "stop"}, "worker 1 of 2 was stopped by a signal (SIGSTOP)"),
        ({"w0": "lose"}, "the measuring process ended with exit code 1."),
    ],
)
def test_what_goes_wrong_after_the_run_costs_the_last_check_alone(
    store: Store, fates: Fates, monkeypatch: pytest.MonkeyPatch, fate: dict[str, str], why: str
) -> None:
    monkeypatch.setattr(group, "STOPPED_SECONDS", 0.1)
    monkeypatch.setattr(session, "STOP_SECONDS", 0.5)
    fates(**fate)
    result = measure(store).result
    assert result.exit and (result.exit.status, result.exit.reason) == ("FINISHED", "")
    notes = [f"after the measurement, where a last check may be missing: {why}"] if why else []
    assert [*result.notes] == [*read_result(store.journal_path(RUN)).notes] == notes


class Ended:
    """Stands in for a worker's process that has ended."""

    def __init__(self, returncode: int, *records: Fields) -> None:
        self.returncode = returncode
        self._records = list(records)

    def read(self) -> list[Fields]:
        records = self._records
        self._records = []
        return records

    def stderr_tail(self) -> str:
        return ""


FAILURE = {
    "kind": "failed",
    "time": 5.0,
    "error": {"type": "ValueError", "message": "late", "traceback": ""},
}


@pytest.mark.parametrize(
    ("first", "second", "cause"),
    [
        (Ended(1, FAILURE), Ended(-signal.SIGKILL), "worker 1 of 2 was killed by SIGKILL"),
        (Ended(1, FAILURE), Ended(-signal.SIGSEGV), "worker 1 of 2 crashed with SIGSEGV"),
        (Ended(1, FAILURE), Ended(1, FAILURE | {"time": 4.0}), "worker 1 of 2: ValueError: late"),
        (
            Ended(-signal.SIGABRT),
            Ended(1, FAILURE),
            "worker 1 of 2: ValueError: late",
        ),  # as JAX ends a process then
    ],
)
def test_of_several_that_fail_the_one_that_the_others_fail_of_is_named(
    first: Any, second: Any, cause: str
) -> None:
    members = [WorkerRank(index=index, num_workers=2, addresses=("a:1",)) for index in range(2)]
    request = group_request(backend="jax")
    both = group.Group(
        [first, second], [dataclasses.replace(request, worker_rank=member) for member in members]
    )
    both.read()
    assert both.returncode is not None
    assert both.fault and both.fault.reason.startswith(cause)


@pytest.mark.parametrize(
    ("fate", "limits", "reason"),
    [
        ("wait", {"SILENT_SECONDS": 0.5}, "they wait for one another"),
        ("join", {"JOIN_SECONDS": 0.2}, "for the others, who meet at 127.0.0.1:"),
    ],
)
def test_workers_do_not_wait_for_one_another_for_ever(
    store: Store,
    fates: Fates,
    monkeypatch: pytest.MonkeyPatch,
    fate: str,
    limits: dict[str, float],
    reason: str,
) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(group, name, value)
    fates(w0=fate, w1=fate)
    status, found = end_of(store)
    assert (status, reason in found) == ("KILLED", True)


class Trained(Ended):
    """Stands in for a process that has trained for an epoch, and evaluates."""

    is_stopped = False

    def __init__(self) -> None:
        super().__init__(0)
        self.returncode = None


def test_workers_that_evaluate_may_be_silent_for_as_long_as_the_longest_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(group, "time", SimpleNamespace(monotonic=lambda: now, time=lambda: now))
    worker = Trained()
    alone = group.Group([worker], [group_request(1)])
    for now, kind in ((5000.0, "spans"), (7000.0, "epoch"), (7001.0, "epoch"), (7002.0, "stage")):
        worker._records = [{"kind": kind, "time": now, "name": "evaluates"}]
        alone.read()
    for silent, ends in ((6999.0, False), (7001.0, True)):
        now = 7002.0 + silent
        alone.read()
        assert (alone.fault is not None) is ends


@pytest.mark.advice("For this command, start one process")
def test_one_of_several_processes_of_a_launcher_makes_no_series(
    store: Store, monkeypatch: pytest.MonkeyPatch, fates: Fates
) -> None:
    fates()
    with monkeypatch.context() as launcher:
        for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_WORLD_SIZE", "2")):
            launcher.setenv(name, value)
        with pytest.raises(RecipeError, match="which only a single `tfbench run` can use"):
            measure(store)
    measure(store)


def test_what_another_worker_rejects_is_rejected_and_nothing_is_left(
    store: Store, fates: Fates
) -> None:
    fates(w1="reject")
    with pytest.raises(DeviceError, match="worker 1 of 2: no such device"):
        measure(store)
    assert not store.root.exists()


GPUS = [Gpu(name="card", uuid=f"GPU-{index}") for index in range(4)]


def visible(devices: tuple[str, ...], num_workers: int, num_gpus: int) -> list[str | None]:
    distribution = DistributionConfig(strategy="multi_worker", devices=devices)
    return [
        each.get("CUDA_VISIBLE_DEVICES")
        for each in launch.divide_gpus(distribution, num_workers, GPUS[:num_gpus])
    ]


def test_each_worker_of_a_machine_has_gpus_of_its_own() -> None:
    assert visible(("gpu:0",), 2, 4) == ["GPU-0", "GPU-1"]
    for devices in ((), ("gpu",), ("gpu:0", "gpu:1")):
        assert visible(devices, 2, 4) == ["GPU-0,GPU-1", "GPU-2,GPU-3"]
    assert visible(("cpu:0",), 2, 4) == visible((), 2, 0) == [None, None]


@pytest.mark.parametrize(
    ("devices", "num_workers", "num_gpus", "what"),
    [
        (("gpu:0",), 2, 1, "2 workers with 1 GPU each take 2, and 1 can be seen here"),
        (("gpu",), 2, 3, "2 workers with 1 GPU each take 2, and 3 can be seen here"),
        (("gpu:0",), 2, 0, "none is seen here"),
        (("gpu:1",), 1, 2, r"each worker numbers its GPUs from gpu:0. Received: gpu:1"),
    ],
)
def test_gpus_that_do_not_suffice_are_an_error(
    devices: tuple[str, ...], num_workers: int, num_gpus: int, what: str
) -> None:
    with pytest.raises(DeviceError, match=what):
        visible(devices, num_workers, num_gpus)


def test_a_gpu_that_would_stay_idle_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(launch, "read_gpus", lambda: GPUS)
    launch.require_gpus_in_use(group_request(), 4)
    with pytest.raises(
        DeviceError, match=r"4 can be seen here for 2 workers. Start one for each \(--workers 4"
    ):
        launch.require_gpus_in_use(group_request(), 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    launch.require_gpus_in_use(group_request())
