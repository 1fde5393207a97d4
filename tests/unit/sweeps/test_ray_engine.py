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
from tfbench.store.store import Store, TrackingState
from tfbench.store.sweep_log import encode_record, new_log, read_sweep
from tfbench.sweeps import ray_engine
from tfbench.sweeps.arguments import parse_setup
from tfbench.sweeps.execution import new_sweep
from tfbench.sweeps.plan import SweepRecord
from tfbench.sweeps.ray_engine import connected, make_tasks
from tfbench.sweeps.tasks import find_task, list_tasks

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
        self.strategies = []  # by which tasks were scheduled
        self.make = None  # what a task gives back, given what it was asked

    def init(self, **options: Any) -> None:
        sys.stdout.write("what Ray prints")
        if not self.is_up:
            raise ConnectionError("Could not find any running Ray instance.\nMore.")

    def nodes(self) -> list[Fields]:
        nodes = []
        for number, resources in enumerate(self.hosts):
            name = f"host{number}"
            found = {"Alive": True, "NodeID": f"id of {name}", "NodeManagerHostname": name}
            nodes.append({**found, "Resources": {"CPU": 2.0} | resources})
        return nodes

    def remote(self, function: Any) -> Any:
        def submit(*arguments: Any) -> int:
            self.asked.append(arguments)
            number = int(arguments[1])
            if self.make:
                self.made[number] = self.make(*arguments)
            return number

        def options(**named: Any) -> Any:
            self.asked.append((named["num_cpus"], named["resources"]))
            self.strategies.append(named["scheduling_strategy"])
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
    one = build_environment(hostname="one")
    for planned in TASKS[0].runs[:num_runs]:
        write_journal(there, build_planned_result(PLAN, planned, 100.0, environment=one))
    return [there.journal_path(run_id).read_bytes() for run_id in there.run_ids()]


def started_numbers(store: Store) -> list[int]:
    return sorted(run.number for run in read_sweep(store, "abc").started)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    strategies = types.ModuleType("ray.util.scheduling_strategies")
    strategies.NodeAffinitySchedulingStrategy = lambda node, soft: (node, soft)
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setitem(sys.modules, strategies.__name__, strategies)
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
        (encode_record(SweepRecord(PLAN)), 0, 2, False, {}),
        (0, {"tfbench": 1.0, "a100": 0.001}),
        (encode_record(SweepRecord(PLAN)), 1, 2, False, {}),
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


def test_rounds_are_added_where_all_tasks_leave_it_undecided_on_the_node_of_the_earlier_ones(
    ray: FakeRay, store: Store, tmp_path: Path
) -> None:
    plan = build_plan(num_rounds=20, first_rounds=3)
    encoded = encode_record(SweepRecord(plan))

    def make(data: bytes, number: int, num_rounds: int, allows: bool, earlier: Any) -> Any:
        """The first task finds a clear difference, the other one that shows after six rounds."""
        assert data == encoded and not allows
        there = Store(tmp_path / f"{number}-{num_rounds}")
        here = build_environment(hostname=f"host{number}")
        for planned in find_task(plan, number, num_rounds).runs:
            noise = (0.0, 0.15, -0.15)[(planned.round_number * (1 + planned.setup)) % 3]
            speed = 1000.0 * (1 + (0.01 if number == 0 else 1.0) * noise)
            speed *= (1.0, 2.0 if number == 0 else 1.4)[planned.setup]
            write_journal(there, build_planned_result(plan, planned, speed, environment=here))
        made = [run_id for run_id in there.run_ids() if run_id not in earlier]
        journals = [there.journal_path(run_id).read_bytes() for run_id in made]
        return f"host{number}", 0, "done", journals

    ray.make = make
    planned = new_sweep(store, plan)
    told: list[str] = []
    end = ray_engine.make_sweep(planned, "auto", store, STATE, told.append)
    asked = [(number, num_rounds) for _, number, num_rounds, _, _ in ray.asked[1::2]]
    assert asked[:3] == [(0, 3), (1, 3), (1, 4)]
    assert {number for number, _ in asked[3:]} <= {1}
    assert ray.strategies[:2] == ["DEFAULT", "DEFAULT"]
    assert set(ray.strategies[2:]) == {("id of host1", True)}
    earlier = ray.asked[5][4]
    assert len(earlier) == 6
    assert (end.num_left, end.was_interrupted) == (0, False)
    assert told


def test_a_task_that_comes_back_without_its_runs_is_not_tried_again(
    ray: FakeRay, store: Store
) -> None:
    plan = build_plan(num_rounds=20, first_rounds=3)
    ray.make = lambda *asked: ("host0", 2, "no such device", [])
    end = ray_engine.make_sweep(new_sweep(store, plan), "auto", store, STATE, lambda text: None)
    assert len(ray.asked) == 4
    assert (end.num_planned, end.num_left) == (12, 12)


@pytest.mark.advice("Start one on the first machine with `ray start")
@pytest.mark.advice("Start each with `ray start")
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
    ray.hosts.pop(1)
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
    # the last is the user's own
    environment = {"PATH": "/bin", "RAY_JOB_ID": "1", "OMP_NUM_THREADS": "3"}
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
