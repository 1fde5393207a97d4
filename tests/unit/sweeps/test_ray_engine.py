"""A sweep on Ray, with a stand-in for its client."""

import importlib.util
import signal
import socket
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import psutil
import pytest

from builders import build_environment
from journals import write_journal
from kinds import Fields
from sweeps import TWO_SETUPS, build_plan, build_planned_result
from tfbench.errors import DeviceError
from tfbench.records.sweep import SweepRecord
from tfbench.store.store import Store, TrackingState
from tfbench.store.sweep_log import encode_record, new_log, read_sweep
from tfbench.sweeps import ray_engine
from tfbench.sweeps.arguments import parse_setup
from tfbench.sweeps.ray_engine import connected, make_tasks
from tfbench.sweeps.tasks import list_tasks

PLAN = build_plan(
    setups=(*TWO_SETUPS, parse_setup("default cpu:0 @a100"))
)  # tasks 1 and 2 on a100, 0 and 3 on any
TASKS = list_tasks(PLAN)
STATE = TrackingState(tracking_uri="sqlite:///mlflow.db", experiment="tfbench")


class FakeRay(types.ModuleType):
    """Ray's client; `made` has what comes back of each task by its number."""

    class exceptions:  # noqa: N801 - as Ray calls it
        """Ray's errors."""

        class RayError(Exception):
            """Of any kind."""

        class TaskCancelledError(RayError):
            """Of a task that had not begun."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.__file__ = "/site/ray/__init__.py"
        self.is_up = True
        self.hosts = [{"tfbench": 1.0}, {"tfbench": 1.0, "a100": 1.0}]
        self.made = {}
        self.cancelled = {}  # what comes of a task that is cancelled
        self.asked = []
        self.util = types.SimpleNamespace(get_node_ip_address=lambda: "127.0.0.2")

    def init(self, **options: Any) -> None:
        sys.stdout.write("what Ray prints")
        if not self.is_up:
            raise ConnectionError("Could not find any running Ray instance.\nMore.")

    def nodes(self) -> list[Fields]:
        return [{"Alive": True, "Resources": {"CPU": 2.0} | resources} for resources in self.hosts]

    def remote(self, function: Any) -> Any:
        def submit(*arguments: Any) -> int:
            self.asked.append(arguments)
            return int(arguments[1])

        def options(**named: Any) -> Any:
            self.asked.append((named["num_cpus"], named["resources"]))
            return types.SimpleNamespace(remote=submit)

        return types.SimpleNamespace(options=options)

    def wait(
        self, running: list[int], timeout: float, num_returns: int = 1
    ) -> tuple[list[int], list[int]]:
        if self.cancelled and not self.made:
            signal.raise_signal(signal.SIGINT)
        ended = [number for number in running if number in self.made]
        return ended[:num_returns], []

    def cancel(self, number: int) -> None:
        self.made |= self.cancelled.get(number, {})

    def get(self, number: int) -> Any:
        if isinstance(self.made[number], Exception):
            raise self.made[number]
        return self.made[number]

    def shutdown(self) -> None:
        self.is_up = False


def left(task: int) -> str:
    return f"{tempfile.gettempdir()}/tfbench-{PLAN.sweep_id}-{task}-*/mlruns/journals/*.jsonl"


def measure_there(folder: Path, num_runs: int) -> list[bytes]:
    """Returns the journals of the first runs of task 0, as a node hands them back."""
    there = Store(folder / "there")
    for planned in TASKS[0].runs[:num_runs]:
        write_journal(
            there,
            build_planned_result(
                PLAN, planned, 100.0, environment=build_environment(hostname="one")
            ),
        )
    return [there.journal_path(run_id).read_bytes() for run_id in there.run_ids()]


def started_numbers(store: Store) -> list[int]:
    return sorted(run.number for run in read_sweep(store, "abc").started)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    return fake


def test_what_nodes_made_comes_home_and_what_they_did_not_is_told(
    ray: FakeRay, store: Store, tmp_path: Path
) -> None:
    told = []
    journals = measure_there(tmp_path, 4)
    ray.made = {
        0: ("one", 0, "done", journals),
        1: ray.exceptions.RayError("The node is dead.\nMore."),
        2: ("two", 2, "Error: no such device", []),
    }
    with new_log(store, PLAN) as log:
        assert not make_tasks(log, TASKS[:3], store, STATE, told.append)
    assert told == [
        "task 0: 4 of 4 runs, on one",
        (
            "task 1: The node is dead. What it measured stays on its machine; `tfbench import`"
            f" reads it: {left(1)}"
        ),
        "task 2: 0 of 2 runs, on two, exit code 2: Error: no such device",
    ]
    assert started_numbers(store) == [planned.number for planned in TASKS[0].runs]
    assert ray.asked[:4] == [
        (0, {"tfbench": 1.0}),
        (encode_record(SweepRecord(PLAN)), 0, False),
        (0, {"tfbench": 1.0, "a100": 0.001}),
        (encode_record(SweepRecord(PLAN)), 1, False),
    ]


def test_what_was_measured_until_a_stop_comes_home(
    ray: FakeRay, store: Store, tmp_path: Path
) -> None:
    told = []
    journals = measure_there(tmp_path, 1)
    ray.cancelled = {
        0: {0: ("one", 130, "stopped", journals)},
        1: {1: ray.exceptions.TaskCancelledError()},
    }
    with new_log(store, PLAN) as log:
        assert make_tasks(log, TASKS[:3], store, STATE, told.append)
    assert told == [
        "stopping; what was measured comes home",
        "task 0: 1 of 4 runs, on one, exit code 130: stopped",
        (
            "task 2: does not end. What it measured stays on its machine; `tfbench import` reads"
            f" it: {left(2)}"
        ),
    ]
    assert started_numbers(store) == [TASKS[0].runs[0].number]


def test_a_cluster_that_cannot_make_the_tasks_is_rejected(
    ray: FakeRay, capsys: pytest.CaptureFixture[str]
) -> None:
    with connected("auto", TASKS):
        pass
    assert (capsys.readouterr().out, ray.is_up) == ("", False)
    with pytest.raises(
        DeviceError,
        match=r"no cluster at 'auto': Could not find any running Ray instance\. Start one",
    ):
        connected("auto", TASKS).__enter__()
    ray.is_up = True
    del ray.hosts[1]
    with pytest.raises(
        DeviceError, match=r"no machine named a100 .*ray start .*\"tfbench\": 1, \"a100\": 1"
    ):
        connected("auto", TASKS).__enter__()


def test_an_address_is_asked_before_ray_waits_for_it(ray: FakeRay) -> None:
    with socket.socket() as deaf:
        deaf.bind(("", 0))
        port = deaf.getsockname()[1]
        with pytest.raises(
            DeviceError,
            match=rf"no cluster at '127\.0\.0\.1:{port}': .*Connection refused\. Start one",
        ):
            connected(f"127.0.0.1:{port}", TASKS).__enter__()
        with connected(str(port), TASKS):  # no address of a host: Ray says what it is
            pass


def test_what_ray_sets_in_its_workers_and_servers_is_taken_out(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {
        "PATH": "/bin",
        "RAY_JOB_ID": "1",
        "OMP_NUM_THREADS": "3",
    }  # the last is the user's own
    raylet = types.SimpleNamespace(name=lambda: "raylet", environ=lambda: environment)
    monkeypatch.setattr(psutil.Process, "parents", lambda process: [raylet])
    for more, kept in (
        ({}, set()),
        ({"LD_PRELOAD": "/site/ray/core/libjemalloc.so"}, set()),
        (
            {"LD_PRELOAD": "/mine.so", "MALLOC_CONF": "x"},
            {"LD_PRELOAD", "MALLOC_CONF"},
        ),  # `ray start` lets it be
    ):
        environment |= more
        assert ray_engine._node_environment().keys() == {"PATH", "OMP_NUM_THREADS"} | kept
