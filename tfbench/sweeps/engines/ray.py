"""Tasks on a Ray cluster: one Ray task each, alone on its node, whose journals stream back as its runs end."""

import contextlib
import importlib.util
import io
import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tfbench.errors import DeviceError, ExitCode, RecipeError, TrackingError
from tfbench.records.plain_files import require_plain
from tfbench.records.tasks import Task
from tfbench.records.whole_files import write_whole
from tfbench.store.store import Store
from tfbench.store.task_log import task_path
from tfbench.sweeps.engines import ray_node
from tfbench.sweeps.engines.engine import EngineSetting, TaskEnd

RESOURCE = "tfbench"  # of which a node has one, so that it makes one task at a time
MIRROR = "collected"  # the folder of the sweep's store for what came back
_OPTIONS = ("address",)
_RESERVED = (RESOURCE, "CPU", "GPU", "memory", "object_store_memory")  # resources that stand for no kind of machine
_SHARE = 1e-3  # of a resource that stands for a kind of machine, which tasks do not use up
_ANSWER_SECONDS = 10.0  # for a cluster's first machine to take a connection
_TRIES = "3"  # of Ray's own to reach a cluster that it has found, each of 40 s where nobody answers; 20 without
_LOOPBACK = ("localhost", "127.0.0.1", "::1")  # in whose place Ray takes this machine's address
_CANCEL_SECONDS = 30.0  # for runs to end once they were asked to
_PATIENCE_SECONDS = 60.0  # for a machine to come up where none is left


class RayEngine:
    """A Ray cluster, spoken to by Ray's own client."""

    def __init__(self, setting: EngineSetting) -> None:
        """Notes what it is told; nothing is connected to yet.

        Raises:
            DeviceError: Ray is not installed.
            RecipeError: An option is not known, or an arm names a resource that is no kind of machine.
        """
        if unknown := setting.options.keys() - set(_OPTIONS):
            raise RecipeError(f"--engine-option {min(unknown)}: must be {', '.join(_OPTIONS)} of the engine ray.")
        if taken := {arm.machine for arm in setting.plan.arms} & set(_RESERVED):
            raise RecipeError(f"'@{min(taken)}' cannot name a kind of machine under Ray: it is another resource there.")
        if importlib.util.find_spec("ray") is None:
            raise DeviceError("--engine ray: Ray is not installed. On every machine: pip install ray")
        self._setting = setting
        self._running: dict[int, tuple[Any, Task]] = {}  # what streams back, by the number of the task
        self._places: dict[int, str] = {}  # machine that a task is on
        self._ended: dict[int, TaskEnd] = {}  # said by its command; its stream is not at its end yet
        self._lacking: dict[str, float] = {}  # kinds of machines of which none is left, and since when
        self._silenced = contextlib.ExitStack()
        self.notes: list[str] = []

    def attach(self, tasks: Sequence[Task]) -> list[int]:
        """Connects; nothing goes on there of a command that is no more, since Ray ends its tasks."""
        with contextlib.ExitStack() as undone:
            # Ray prints what its nodes complain of, which has no place among what is read from stdout, and logs it.
            undone.enter_context(contextlib.redirect_stdout(io.StringIO()))
            self._connect()
            self._require_nodes(tasks)
            self._silenced = undone.pop_all()
        return []

    def submit(self, tasks: Sequence[Task]) -> None:
        """Hands tasks to Ray, which gives each a node of its own."""
        import ray

        setting, measure = self._setting, ray.remote(ray_node.measure_task)
        plan = setting.plan_path.read_bytes()
        for task in tasks:
            order = ray_node.Order(
                setting.plan.sweep_id, plan, task.number, str(setting.node_store), setting.plan.allows_code
            )
            resources = {RESOURCE: 1.0} | ({task.machine: _SHARE} if task.machine else {})
            stream = measure.options(
                num_cpus=0,
                max_retries=0,
                resources=resources,
                num_returns="streaming",
                name=f"tfbench sweep {setting.plan.sweep_id}, task {task.number}",
            ).remote(order)
            self._running[task.number] = (stream, task)
            self._places.pop(task.number, None)

    def poll(self) -> list[TaskEnd]:
        """Takes in what streamed back."""
        ends = [end for number in list(self._running) if (end := self._read(number))]
        for end in ends:
            del self._running[end.task]
        return ends + self._give_up()

    def _give_up(self) -> list[TaskEnd]:
        """Gives up tasks for which there has been no machine for a while."""
        import ray

        waiting = [task for _, task in self._running.values() if task.number not in self._places]
        now = time.monotonic()
        kinds = {machine for machine in {task.machine for task in waiting} if not self._list_nodes(machine)}
        self._lacking = {machine: self._lacking.get(machine, now) for machine in kinds}
        ends = []
        for task in waiting:
            if now - self._lacking.get(task.machine, now) > _PATIENCE_SECONDS:
                ray.cancel(self._running.pop(task.number)[0])
                reason = (
                    "the Ray cluster has no machine any more for it. Add one with `ray start "
                    f"--address=HEAD {_wanted(task.machine)}`."
                )
                ends.append(TaskEnd(task.number, "FAILED", "", reason))
        return ends

    def list_sources(self) -> list[Path]:
        """Returns where what streamed back is kept."""
        folder = self._mirror()
        return sorted(path for path in folder.glob("*") if path.is_dir() and not path.is_symlink())

    def cancel(self) -> None:
        """Asks the commands on the nodes to end."""
        import ray

        deadline = time.monotonic() + _CANCEL_SECONDS
        for stream, _ in self._running.values():
            ray.cancel(stream)
        while self._running and time.monotonic() < deadline:
            for number in list(self._running):
                if self._read(number):
                    del self._running[number]
            time.sleep(0.2)

    def forget(self) -> None:
        """Removes what streamed back, all of which is in the store now."""
        folder = self._mirror()
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # another sweep's is there
            folder.parent.rmdir()

    def close(self) -> None:
        """Disconnects."""
        import ray

        ray.shutdown()
        self._silenced.close()

    def _connect(self) -> None:
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", _TRIES)  # read as Ray is imported
        import ray

        heard = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        address = self._setting.options.get("address") or os.environ.get("RAY_ADDRESS") or "auto"
        try:
            _require_answer(address)
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, ValueError, RuntimeError) as error:
            first = str(error).strip().partition("\n")[0].rstrip(".")
            raise DeviceError(
                f"--engine ray: no cluster at '{address}': {first}. Start one on the first machine with `ray start "
                f"--head {_wanted()}`, or name it: --engine-option address=HOST:6379."
            ) from error
        finally:
            for number, handler in heard.items():  # Ray takes them
                signal.signal(number, handler)

    def _read(self, number: int) -> TaskEnd | None:
        """Takes in what streamed back of a task; returns how it ended, if it did."""
        import ray

        stream, _ = self._running[number]
        while True:
            ready, _ = ray.wait([stream], timeout=0)
            if not ready:
                return None
            machine = self._places.get(number, "")
            try:
                news = ray.get(next(stream))
            except StopIteration:
                return self._ended.pop(number, None) or TaskEnd(
                    number, "LOST", machine, "its worker ended without a word"
                )
            except ray.exceptions.RayTaskError as error:
                return TaskEnd(number, "FAILED", machine, f"{error.cause or error}".strip().rpartition("\n")[2])
            except ray.exceptions.RayError as error:
                return TaskEnd(number, "LOST", machine, _first_line(error))
            self._take_in(number, ray_node.News(*news))

    def _mirror(self, *names: str) -> Path:
        return require_plain(self._setting.store_root, MIRROR, self._setting.plan.sweep_id, *names)

    def _take_in(self, number: int, news: ray_node.News) -> None:
        self._places[number] = news.machine
        mirror = Store(self._mirror(news.machine))
        record = task_path(mirror, self._setting.plan.sweep_id, number, news.machine)  # refuses what is no name
        try:
            for run_id, data in news.journals:
                path = mirror.journal_path(run_id)
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, data)
            if news.record:
                record.parent.mkdir(parents=True, exist_ok=True)
                write_whole(record, news.record)
        except OSError as error:
            raise TrackingError(f"{error.filename}: cannot be written: {error.strerror}.") from error
        if news.exit_code is not None:
            self._ended[number] = end_of(number, news.machine, news.exit_code, news.last_words)

    def _require_nodes(self, tasks: Iterable[Task]) -> None:
        import ray

        alive = [node for node in ray.nodes() if node["Alive"]]
        for node in alive:
            if node["Resources"].get(RESOURCE, 1) != 1:
                raise DeviceError(
                    f"node {node['NodeManagerHostname']}: has {node['Resources'][RESOURCE]:g} of the resource "
                    f"{RESOURCE}: must be 1, so that it makes one run at a time: `ray start ... {_wanted()}`."
                )
        for machine in dict.fromkeys(task.machine for task in tasks):
            if not self._list_nodes(machine):
                kind = f" named {machine}" if machine else ""
                raise DeviceError(
                    f"the Ray cluster has no machine{kind} for tasks of tfbench. Start each with `ray start "
                    f"--address=HEAD {_wanted(machine)}`, the first with --head."
                )
        hosts = [node["NodeManagerHostname"] for node in self._list_nodes("")]
        if shared := sorted({host for host in hosts if hosts.count(host) > 1}):
            self.notes.append(f"several nodes are one machine, {', '.join(shared)}: their runs disturb each other.")

    def _list_nodes(self, machine: str) -> list[dict[str, Any]]:
        import ray

        names = {RESOURCE, machine} - {""}
        return [node for node in ray.nodes() if node["Alive"] and names <= node["Resources"].keys()]


def _require_answer(address: str) -> None:
    """Connects to an address HOST:PORT once; Ray itself would try one that is wrong for minutes.

    Raises:
        ConnectionError: Nobody answers there.
    """
    import ray

    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or "/" in host:  # "auto", or a form that Ray alone knows
        return
    host = host.strip("[]")
    for each in (host, *([ray.util.get_node_ip_address()] if host in _LOOPBACK else [])):
        try:
            socket.create_connection((each, int(port)), _ANSWER_SECONDS).close()
        except (OSError, OverflowError) as error:
            why = error
        else:
            return
    raise ConnectionError(getattr(why, "strerror", None) or str(why))


def end_of(task: int, machine: str, exit_code: int, last_words: str) -> TaskEnd:
    """Says what the end of a task's command means: negative, the signal that ended it."""
    last = last_words.rpartition("\n")[2] or "it said nothing"
    if exit_code == ExitCode.DONE:
        return TaskEnd(task, "ENDED", machine)
    if exit_code == ExitCode.RUN_FAILED:  # Python's own, too, of a command that cannot even be imported
        return TaskEnd(task, "ENDED", machine, last)
    if exit_code == ExitCode.INTERRUPTED:
        return TaskEnd(task, "LOST", machine, "its command was asked to stop there")
    if exit_code < 0:
        return TaskEnd(task, "LOST", machine, f"its command was killed by {signal.Signals(-exit_code).name}")
    return TaskEnd(task, "FAILED", machine, f"its command ended with exit code {exit_code}: {last}")


def _wanted(machine: str = "") -> str:
    names = [RESOURCE, *([machine] if machine else [])]
    return f"--resources='{json.dumps(dict.fromkeys(names, 1))}'"


def _first_line(error: Exception) -> str:
    said = str(error).strip().partition("\n")[0].partition(". ")[0].rstrip(".")
    return f"{type(error).__name__}: {said}"
