"""The part of a sweep on Ray that runs on the nodes: starts the command of a task, and hands on what it writes."""

import contextlib
import re
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tfbench.machine import children
from tfbench.records.lines import whole_lines
from tfbench.records.members import join
from tfbench.records.whole_files import write_whole
from tfbench.store.store import Store
from tfbench.store.task_log import read_task, task_path

_LOOK_SECONDS = 0.5  # between two looks at what the command has written
_STOP_SECONDS = 25.0  # for the command to end once it was asked to
_TAIL_BYTES = 2000  # of what the command says last


class Order(NamedTuple):
    """What a node is asked for."""

    sweep_id: str
    plan: bytes  # the plan's file
    task: int
    node_store: str
    allows_code: bool


class News(NamedTuple):
    """What a node tells."""

    machine: str
    record: bytes = b""  # of the task, as far as it goes; b"": as before
    journals: tuple[tuple[str, bytes], ...] = ()  # of runs that ended since the last news: id and journal
    exit_code: int | None = None  # of the command; None: it goes on
    last_words: str = ""  # of the command


def measure_task(order: Order) -> Iterator[News]:
    """Makes a task on this node, and yields what comes of it as it comes."""
    import ray

    machine = name_machine(socket.gethostname(), ray.get_runtime_context().get_node_id())
    store = Store(Path(order.node_store, machine))
    yield News(machine)
    plan_path = store.root / "plans" / f"{order.sweep_id}.json"
    plan_path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(plan_path, order.plan)
    arguments = ["sweep", "--plan", str(plan_path), "--task", str(order.task), "--machine", machine]
    arguments += ["--store", str(store.root), *(["--allow-code"] if order.allows_code else [])]
    with tempfile.TemporaryFile(dir=store.root) as output:
        command = children.start_bound(
            "tfbench", arguments, output=output, folder=str(store.root), environment=read_node_environment()
        )
        try:
            sent, size = set[str](), 0
            while True:
                exit_code = command.poll()  # before looking, so that nothing written before the end is missed
                news, size = _look(store, order, machine, sent, size, is_over=exit_code is not None)
                if exit_code is not None:
                    yield news._replace(exit_code=exit_code, last_words=_read_tail(output))
                    return
                if news.record:
                    yield news
                time.sleep(_LOOK_SECONDS)
        finally:  # it was cancelled
            command.terminate()
            with contextlib.suppress(Exception):
                command.wait(_STOP_SECONDS)
            command.kill()


def name_machine(host: str, node_id: str) -> str:
    """Returns what a node is called: two may have a host name in common."""
    return f"{re.sub(r'[^A-Za-z0-9.-]', '-', host).strip('-.')[:60] or 'node'}-{node_id[:8]}"


def read_node_environment() -> dict[str, str]:
    """Returns the environment that the node was started in, without what is Ray's.

    Ray's worker has other settings of threads (OMP_NUM_THREADS), paths and devices, which the runs are not to have, and
    `ray start` has its own servers allocate memory by jemalloc, unless the user has something loaded into them.

    Raises:
        RuntimeError: The process is none of a Ray node.
    """
    import ray

    for process in psutil.Process().parents():
        if process.name() == "raylet":
            found = process.environ()
            own = found.get("RAY_JEMALLOC_LIB_PATH", str(Path(ray.__file__).parent / "core" / "libjemalloc.so"))
            its = {name for name in found if name.startswith("RAY_")}
            its |= {"LD_PRELOAD", "MALLOC_CONF"} if found.get("LD_PRELOAD") == own else set()
            return {name: value for name, value in found.items() if name not in its}
    raise RuntimeError("no raylet is above this process: its environment is not known.")


def _look(store: Store, order: Order, machine: str, sent: set[str], size: int, *, is_over: bool) -> tuple[News, int]:
    """Reads what is new of a task's record, and the journals of the runs that ended; returns its size, too."""
    path = task_path(store, order.sweep_id, order.task, machine)
    data = whole_lines(path.read_bytes()) if path.exists() else b""
    if len(data) == size and not is_over:
        return News(machine), size
    journals: dict[str, bytes] = {}
    if data:
        record = read_task(path)
        ended = {result.run_id for result in record.found if result.run_id}
        ended |= {run_id for _, run_id in (record.begun if is_over else record.begun[:-1])}
        for run_id in ended - sent:
            if store.journal_path(run_id).exists():
                journals[run_id] = join(store.journal_path(run_id))
    sent.update(journals)
    return News(machine, data, tuple(journals.items())), len(data)


def _read_tail(output: Any) -> str:
    end = output.seek(0, 2)
    output.seek(max(0, end - _TAIL_BYTES))
    return str(output.read().decode(errors="replace")).strip()
