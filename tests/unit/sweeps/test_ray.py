"""What is asked of Ray and what its answers mean, with a stand-in for its client; and what its nodes hand on."""

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from nodes import engine_setting, make_task
from runs import wait_until
from sweeps import TWO_ARMS, build_plan
from tfbench.errors import DeviceError, RecipeError, TrackingError
from tfbench.machine import children
from tfbench.records.tasks import list_tasks
from tfbench.store.store import Store
from tfbench.store.task_log import list_task_paths, read_task
from tfbench.sweeps.engines import ray_node
from tfbench.sweeps.engines.engine import EngineSetting, TaskEnd
from tfbench.sweeps.engines.ray import RayEngine, end_of
from tfbench.sweeps.engines.ray_node import News, Order
from tfbench.sweeps.plan import parse_arm

PLAN = build_plan(arms=(*TWO_ARMS, parse_arm("default cpu:0 @a100")))  # tasks 0 and 3 on any machine, 1 and 2 on a100


class FakeRay(types.ModuleType):
    """Ray's client: of each task that is submitted, `streams` holds what comes back."""

    class exceptions:  # noqa: N801 - as Ray calls it
        """Ray's errors."""

        class RayError(Exception):
            """Of any kind."""

        class RayTaskError(RayError):
            """Raised where the task ran."""

            cause: Exception | None = None

    def __init__(self) -> None:
        super().__init__("ray")
        self.__file__ = "/site/ray/__init__.py"
        self.is_up = True
        self.node_table: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.orders: list[Order] = []
        self.streams: dict[int, list[Any]] = {}
        self.cancelled: list[Any] = []

    def init(self, **options: Any) -> None:
        sys.stdout.write("what Ray prints")
        if not self.is_up:
            raise ConnectionError("Could not find any running Ray instance.\nMore.")

    def nodes(self) -> list[dict[str, Any]]:
        return self.node_table

    def remote(self, function: Any) -> Any:
        fake = self

        class Remote:
            def options(self, **options: Any) -> "Remote":
                fake.asked.append(options)
                return self

            def remote(self, order: Order) -> Any:
                fake.orders.append(order)
                return Stream(fake.streams.setdefault(order.task, []))

        return Remote()

    def wait(self, streams: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        return [one for one in streams if one.items], []

    def get(self, item: Any) -> Any:
        if isinstance(item, Exception):
            raise item
        return item

    def cancel(self, stream: Any) -> None:
        self.cancelled.append(stream)

    def shutdown(self) -> None:
        self.is_up = False


class Stream(Iterator[Any]):
    """What comes back of a task, until an item `StopIteration`."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.items is other.items

    def __next__(self) -> Any:
        item = self.items.pop(0)
        if item is StopIteration:
            raise StopIteration
        return item


def node_of(host: str, **resources: float) -> dict[str, Any]:
    return {"Alive": True, "NodeManagerHostname": host, "Resources": {"CPU": 2.0, "tfbench": 1.0} | resources}


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    fake.node_table = [node_of("one"), node_of("two", a100=1.0)]
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    return fake


@pytest.fixture
def engine(ray: FakeRay, in_tmp_path: Path) -> Iterator[RayEngine]:
    (in_tmp_path / "plan.json").write_text("the plan")
    found = open_engine(in_tmp_path)
    found.attach(list_tasks(PLAN))
    yield found
    found.close()


def open_engine(folder: Path, **options: str) -> RayEngine:
    return RayEngine(engine_setting(folder, PLAN, options))


def test_each_task_has_a_node_for_itself_and_no_second_try_of_ray(engine: RayEngine, ray: FakeRay) -> None:
    engine.submit(list_tasks(PLAN))
    assert [(asked["num_cpus"], asked["max_retries"], asked["resources"]) for asked in ray.asked] == [
        (0, 0, {"tfbench": 1.0}),
        (0, 0, {"tfbench": 1.0, "a100": 0.001}),
        (0, 0, {"tfbench": 1.0, "a100": 0.001}),
        (0, 0, {"tfbench": 1.0}),
    ]
    assert ray.orders[2] == Order("abc", b"the plan", 2, str(Path.cwd() / "nodes"), allows_code=False)


def test_what_ray_prints_is_not_among_what_is_read_from_stdout(
    ray: FakeRay, in_tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = open_engine(in_tmp_path)
    engine.attach(list_tasks(PLAN))
    engine.close()
    sys.stdout.write("heard again")
    assert capsys.readouterr().out == "heard again"


def test_what_streams_back_is_a_store_to_be_collected(engine: RayEngine, ray: FakeRay, tmp_path: Path) -> None:
    made = make_task(Store(tmp_path / "there"), PLAN, 0, "one-1", num_runs=2)
    record = list_task_paths(Store(tmp_path / "there"), "abc")[0].read_bytes()
    journals = tuple((run_id, Store(tmp_path / "there").journal_path(run_id).read_bytes()) for run_id in made)
    engine.submit(list_tasks(PLAN)[:1])
    assert (engine.poll(), engine.list_sources()) == ([], [])
    ray.streams[0] += [News("one-1"), News("one-1", record, journals)]
    assert engine.poll() == []
    other = tmp_path / "mlruns" / "collected" / "other" / "two-2"  # of another sweep that is under way
    other.mkdir(parents=True)
    (source,) = engine.list_sources()
    assert sorted(Store(source).run_ids()) == sorted(made)
    assert len(read_task(list_task_paths(Store(source), "abc")[0]).found) == 2
    ray.streams[0] += [News("one-1", exit_code=0), StopIteration]
    assert engine.poll() == [TaskEnd(0, "ENDED", "one-1")]
    engine.forget()
    assert engine.list_sources() == []
    assert other.is_dir()


def test_a_node_that_dies_is_lost_and_a_mistake_in_the_task_is_not(engine: RayEngine, ray: FakeRay) -> None:
    engine.submit(list_tasks(PLAN)[:3])
    died = ray.exceptions.RayError("The node is dead. This can happen if\nit was preempted")
    mistake = ray.exceptions.RayTaskError("traceback\nOSError: full")
    mistake.cause = OSError("No space left")
    ray.streams[0] += [News("one-1"), died]
    ray.streams[1] += [News("two-2"), mistake]
    ray.streams[2] += [News("two-2"), StopIteration]
    assert engine.poll() == [
        TaskEnd(0, "LOST", "one-1", "RayError: The node is dead"),
        TaskEnd(1, "FAILED", "two-2", "No space left"),
        TaskEnd(2, "LOST", "two-2", "its worker ended without a word"),
    ]


@pytest.mark.parametrize("news", [News("../x"), News("one", b"", (("../../x", b"1"),)), News("one/2", b"{}")])
def test_what_comes_back_cannot_leave_its_folder(engine: RayEngine, ray: FakeRay, news: News) -> None:
    engine.submit(list_tasks(PLAN)[:1])
    ray.streams[0].append(news)
    with pytest.raises(TrackingError, match="must be letters"):
        engine.poll()
    assert not Path("x").exists()


@pytest.mark.parametrize(
    ("exit_code", "outcome", "reason"),
    [
        (0, "ENDED", ""),
        (1, "ENDED", "Error: no"),
        (130, "LOST", "its command was asked to stop there"),
        (-9, "LOST", "its command was killed by SIGKILL"),
        (2, "FAILED", "its command ended with exit code 2: Error: no"),
    ],
)
def test_the_end_of_a_command_says_what_became_of_its_task(exit_code: int, outcome: Any, reason: str) -> None:
    assert end_of(3, "one", exit_code, "first\nError: no") == TaskEnd(3, outcome, "one", reason)


def test_a_cluster_that_cannot_make_the_tasks_is_refused(ray: FakeRay, in_tmp_path: Path) -> None:
    tasks, command = list_tasks(PLAN), r"ray start .*--resources='\{\"tfbench\": 1"
    ray.node_table = [node_of("one")]
    with pytest.raises(DeviceError, match=rf"has no machine named a100 .*{command}, \"a100\": 1\}}'"):
        open_engine(in_tmp_path).attach(tasks)
    ray.node_table = [{"Alive": True, "NodeManagerHostname": "one", "Resources": {"CPU": 2.0}}]
    with pytest.raises(DeviceError, match=rf"has no machine for tasks of tfbench.*{command}"):
        open_engine(in_tmp_path).attach(tasks)
    ray.node_table = [node_of("one", tfbench=2.0)]
    with pytest.raises(DeviceError, match=r"node one: has 2 of the resource tfbench: must be 1"):
        open_engine(in_tmp_path).attach(tasks)
    ray.node_table = [node_of("one") | {"Alive": False}]
    with pytest.raises(DeviceError, match="has no machine"):
        open_engine(in_tmp_path).attach(tasks)
    ray.is_up = False
    with pytest.raises(DeviceError, match=r"no cluster at 'auto': Could not find any running Ray instance\. Start one"):
        open_engine(in_tmp_path).attach(tasks)
    with pytest.raises(RecipeError, match="--engine-option nodes: must be address"):
        open_engine(in_tmp_path, nodes="3")


def test_an_address_is_asked_before_ray_waits_for_it(ray: FakeRay, in_tmp_path: Path) -> None:
    ray.util = types.SimpleNamespace(get_node_ip_address=lambda: "127.0.0.2")  # type: ignore[attr-defined]
    with socket.socket() as listening, socket.socket() as deaf:
        listening.bind(("127.0.0.2", 0))
        deaf.bind(("", 0))
        listening.listen()
        addresses = [listening.getsockname()[1], deaf.getsockname()[1]]
        engine = open_engine(in_tmp_path, address=f"localhost:{addresses[0]}")  # in its place Ray takes the machine's
        engine.attach(list_tasks(PLAN))
        engine.close()
        ray.is_up = True
        message = rf"no cluster at '127\.0\.0\.1:{addresses[1]}': Connection refused\. Start one"
        with pytest.raises(DeviceError, match=message):
            open_engine(in_tmp_path, address=f"127.0.0.1:{addresses[1]}").attach(list_tasks(PLAN))


def test_nodes_that_are_one_machine_are_told(ray: FakeRay, in_tmp_path: Path) -> None:
    ray.node_table = [node_of("one", a100=1.0), node_of("one")]
    engine = open_engine(in_tmp_path)
    engine.attach(list_tasks(PLAN))
    engine.close()
    assert engine.notes == ["several nodes are one machine, one: their runs disturb each other."]


def test_a_task_without_a_machine_is_given_up_after_a_while_and_those_with_one_go_on(
    engine: RayEngine, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.submit(list_tasks(PLAN)[:2])
    del ray.node_table[1]  # the only a100
    assert engine.poll() == []
    monkeypatch.setattr("tfbench.sweeps.engines.ray._PATIENCE_SECONDS", 0.0)
    (end,) = engine.poll()
    assert end[:3] == (1, "FAILED", "")
    assert re.match(r"the Ray cluster has no machine any more for it\. .*\"a100\": 1", end.reason)
    assert ray.cancelled == [Stream(ray.streams[1])]
    ray.streams[0] += [News("one-1", exit_code=0), StopIteration]
    assert engine.poll() == [TaskEnd(0, "ENDED", "one-1")]


def test_a_kind_of_machine_cannot_be_called_as_a_resource_of_rays_own(ray: FakeRay, in_tmp_path: Path) -> None:
    for name in ("tfbench", "GPU"):
        plan = build_plan(arms=(*TWO_ARMS, parse_arm(f"default cpu:0 @{name}")))
        with pytest.raises(RecipeError, match=f"'@{name}' cannot name a kind of machine under Ray"):
            RayEngine(EngineSetting(plan, in_tmp_path, in_tmp_path, in_tmp_path, {}))


def test_tasks_are_cancelled_on_request(engine: RayEngine, ray: FakeRay) -> None:
    engine.submit(list_tasks(PLAN)[:1])
    ray.streams[0].append(ray.exceptions.RayError("cancelled"))
    engine.cancel()
    assert len(ray.cancelled) == 1


def test_ray_that_is_not_installed_is_said(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DeviceError, match=r"Ray is not installed\. .*pip install ray$"):
        open_engine(in_tmp_path)


def test_a_node_has_a_name_that_no_other_has_and_that_can_be_one_of_a_file() -> None:
    assert ray_node.name_machine("node7.lab", "685ec09d12345678") == "node7.lab-685ec09d"
    assert ray_node.name_machine("Käte/7", "685ec09d12345678") == "K-te-7-685ec09d"
    assert ray_node.name_machine("-", "685ec09d12345678") == "node-685ec09d"


def test_what_ray_sets_in_its_workers_and_servers_is_taken_out(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"PATH": "/bin", "RAY_JOB_ID": "1", "OMP_NUM_THREADS": "3"}  # the last is the user's own

    class Raylet:
        def name(self) -> str:
            return "raylet"

        def environ(self) -> dict[str, str]:
            return environment

    monkeypatch.setattr(psutil.Process, "parents", lambda process: [Raylet()])
    assert ray_node.read_node_environment() == {"PATH": "/bin", "OMP_NUM_THREADS": "3"}
    environment |= {"LD_PRELOAD": "/site/ray/core/libjemalloc.so"}
    assert ray_node.read_node_environment() == {"PATH": "/bin", "OMP_NUM_THREADS": "3"}
    environment |= {"LD_PRELOAD": "/mine.so", "MALLOC_CONF": "prof:true"}  # the user's, which ray start leaves alone
    assert ray_node.read_node_environment().keys() == {"PATH", "OMP_NUM_THREADS", "LD_PRELOAD", "MALLOC_CONF"}
    environment |= {"RAY_JEMALLOC_LIB_PATH": "/mine.so"}  # from which Ray sets both
    assert ray_node.read_node_environment() == {"PATH": "/bin", "OMP_NUM_THREADS": "3"}
    monkeypatch.setattr(psutil.Process, "parents", lambda process: [])
    with pytest.raises(RuntimeError, match="no raylet is above this process"):
        ray_node.read_node_environment()


def test_a_node_hands_on_what_is_new_and_once(tmp_path: Path) -> None:
    store, order = Store(tmp_path), Order("abc", b"", 0, "", allows_code=False)
    sent: set[str] = set()
    assert ray_node._look(store, order, "one", sent, 0, is_over=False) == (News("one"), 0)
    made = make_task(store, PLAN, 0, "one", lambda cell: ("begun", "") if cell.round_number == 2 else 100.0, num_runs=3)
    news, size = ray_node._look(store, order, "one", sent, 0, is_over=False)
    assert {run_id for run_id, _ in news.journals} == set(made[:2])
    assert json.loads(news.record.splitlines()[0])["task"] == 0
    assert ray_node._look(store, order, "one", sent, size, is_over=False) == (News("one"), size)
    news, _ = ray_node._look(store, order, "one", sent, size, is_over=True)
    assert [run_id for run_id, _ in news.journals] == [made[2]]  # it has no end, and none comes


BOUND = """
import pathlib, time
from tfbench.machine import children
with open("out", "wb") as out:
    started = children.start_bound(
        "timeit", ["-n1", "-r1", "import time; time.sleep(60)"], output=out, folder=".", environment={"PATH": "/bin"}
    )
pathlib.Path("pid").write_text(f"{started.pid}.")
time.sleep(60)
"""


def has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # since it was looked at
        return True


def test_a_bound_command_has_the_given_environment_alone_and_ends_with_who_started_it(in_tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(children.__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([sys.executable, "-c", BOUND], env=environment) as starter:
        try:
            wait_until(lambda: Path("pid").exists() and Path("pid").read_text().endswith("."), "its id")
            command = psutil.Process(int(Path("pid").read_text()[:-1]))
            wait_until(lambda: "timeit" in command.cmdline(), "the command")
            assert set(command.environ()) <= {"PATH", "PYTHONSAFEPATH", "LC_CTYPE"}
        finally:
            starter.kill()
    wait_until(lambda: has_ended(command), "its end")
