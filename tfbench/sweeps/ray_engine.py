"""A sweep on a Ray cluster.

A Ray task for each task of the plan, alone on its node, whose journals then come home.
"""

import contextlib
import importlib.util
import io
import json
import os
import platform
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from tfbench.errors import DeviceError
from tfbench.machine import children
from tfbench.records.sweep import SweepPlan, list_planned_runs
from tfbench.runs.recovery import import_journals
from tfbench.runs.run_status import StopSignals
from tfbench.store.store import Store, TrackingState
from tfbench.store.sweep_log import SweepLog, encode_record
from tfbench.sweeps.comparison import SweepEnd
from tfbench.sweeps.sweep import Planned
from tfbench.sweeps.tasks import Task, list_tasks, note_results
from tfbench.wording import DEFAULT_STORE

RESOURCE = "tfbench"  # of which a node has one, so that it makes one task at a time
_PREFIX = "tfbench-{}-{}-"  # of the folder of a task, with the sweep and its number
_STOP_SECONDS = 25.0  # for the command of a task to end once it was asked to


def make_sweep(
    planned: Planned, address: str, store: Store, state: TrackingState, tell: Callable[[str], None]
) -> SweepEnd:
    """Has the tasks of a sweep that are not whole made on a cluster.

    Args:
        planned: The sweep.
        address: As of `connected`.
        store: As of `make_tasks`.
        state: As of `make_tasks`.
        tell: As of `make_tasks`.

    Raises:
        DeviceError: As of `connected`.
        TrackingError: As of `make_tasks`.
    """
    tasks = [
        task
        for task in list_tasks(planned.plan)
        if any(one.number not in planned.results for one in task.runs)
    ]
    with connected(address, tasks), planned.log as log:
        was_interrupted = make_tasks(log, tasks, store, state, tell)
    num_planned = len(list_planned_runs(planned.plan))
    num_left = num_planned - len(log.results)
    return SweepEnd(
        num_planned=num_planned,
        num_left=num_left,
        was_interrupted=was_interrupted,
        results=log.results,
    )


@contextlib.contextmanager
def connected(address: str, tasks: Sequence[Task]) -> Iterator[None]:
    """Connects to a cluster that has machines for some tasks.

    Args:
        address: HOST:PORT, "auto" for the cluster that runs here, or another form that Ray knows.
        tasks: Of which each names its kind of machine, or none.

    Raises:
        DeviceError: Ray is not installed, nobody answers, or there is no machine for a task.
    """
    if importlib.util.find_spec("ray") is None:
        raise DeviceError("--ray: Ray is not installed. On every machine: pip install ray")
    os.environ.setdefault(
        "RAY_NUM_REDIS_GET_RETRIES", "3"
    )  # read as Ray is imported; 20 of 40 s each without
    import ray

    heard = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with contextlib.redirect_stdout(io.StringIO()):  # Ray says there what its nodes complain of
        try:
            host, _, port = address.rpartition(":")
            if (
                host and port.isdecimal() and "/" not in host
            ):  # Ray itself would try one that is wrong for minutes
                if host in (
                    "localhost",
                    "127.0.0.1",
                    "::1",
                ):  # in its place Ray takes this machine's address
                    host = ray.util.get_node_ip_address()
                socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except (OSError, OverflowError, ValueError, RuntimeError) as error:
            raise DeviceError(
                f"--ray: no cluster at '{address}': {_first_line(error)}. Start one on the first"
                f" machine with `ray start --head {_wanted()}`, or name it: --ray HOST:6379."
            ) from error
        finally:
            for number, handler in heard.items():  # Ray takes them
                signal.signal(number, handler)
        try:
            for machine in dict.fromkeys(task.machine for task in tasks):
                names = {RESOURCE, machine} - {""}
                if not any(
                    node["Alive"] and names <= node["Resources"].keys() for node in ray.nodes()
                ):
                    raise DeviceError(
                        f"the Ray cluster has no machine {machine and f'named {machine} '}for tasks"
                        " of tfbench. Start each with `ray start --address=HEAD"
                        f" {_wanted(machine)}`, the first with --head."
                    )
            yield
        finally:
            ray.shutdown()


def make_tasks(
    log: SweepLog,
    tasks: Sequence[Task],
    store: Store,
    state: TrackingState,
    tell: Callable[[str], None],
) -> bool:
    """Has tasks made on the cluster, and brings home what comes of each.

    Returns whether it was interrupted.

    Args:
        log: The sweep's open record.
        tasks: Those that are to be made, each as a whole.
        store: Receives the journals.
        state: Where the runs are to be tracked, which is left for `recover`.
        tell: Told what happens.

    Raises:
        TrackingError: The store, or the sweep's record, cannot be written to.
    """
    import ray

    plan = encode_record(log.plan)
    measure = ray.remote(measure_task)
    running = {}
    for task in tasks:
        # A resource stands for a kind of machine, which tasks do not use up.
        resources = {RESOURCE: 1.0} | ({task.machine: 1e-3} if task.machine else {})
        named = measure.options(
            num_cpus=0, resources=resources, name=f"tfbench {log.plan.sweep_id} {task.number}"
        )
        running[named.remote(plan, task.number, log.plan.allows_code)] = task

    def take(ended: Any) -> None:
        task = running.pop(ended)
        try:
            host, exit_code, last_line, journals = ray.get(ended)
        except ray.exceptions.RayError as error:
            if not isinstance(error, ray.exceptions.TaskCancelledError):  # which had not begun
                tell(
                    f"task {task.number}: {_first_line(error)}."
                    f" {_left_behind(log.plan, task.number)}"
                )
            return
        said = f", exit code {exit_code}: {last_line}" if exit_code else ""
        _bring_home(journals, log, store, state)
        tell(f"task {task.number}: {len(journals)} of {len(task.runs)} runs, on {host}{said}")

    with StopSignals() as stop:
        while running and not stop.received:
            for ended in ray.wait(list(running), timeout=1.0)[0]:
                take(ended)
        was_interrupted = bool(running)
        if running:
            tell("stopping; what was measured comes home")
            for left in running:
                ray.cancel(left)
            for ended in ray.wait(
                list(running), num_returns=len(running), timeout=2 * _STOP_SECONDS
            )[0]:
                take(ended)
        for task in running.values():
            tell(f"task {task.number}: does not end. {_left_behind(log.plan, task.number)}")
    return was_interrupted


def measure_task(plan: bytes, task: int, allows_code: bool) -> tuple[str, int, str, list[bytes]]:
    """Makes a task on this node; one that is cancelled hands back what was measured by then.

    Returns the node's name, the exit code of the command, the last line that it said, and journals.

    Its folder stays where anything else ends it, so that nothing that was measured is lost.
    """
    folder = Path(
        tempfile.mkdtemp(prefix=_PREFIX.format(json.loads(plan)["plan"]["sweep_id"], task))
    )
    (folder / "plan.json").write_bytes(plan)
    words = ["sweep", "--plan", "plan.json", "--task", str(task), "--store", DEFAULT_STORE]
    words += ["--allow-code"] if allows_code else []
    with tempfile.TemporaryFile() as output:
        command = children.start(
            "tfbench", words, output=output, folder=str(folder), environment=_node_environment()
        )
        try:
            while command.poll() is None:
                time.sleep(0.5)  # a cancellation by Ray interrupts no system call
        except KeyboardInterrupt:
            command.terminate()
            with contextlib.suppress(Exception):
                command.wait(_STOP_SECONDS)
        finally:
            command.kill()
        exit_code = command.wait()
        output.seek(0)
        lines = output.read().decode(errors="replace").strip().splitlines()
    journals = [path.read_bytes() for path in (folder / DEFAULT_STORE / "journals").glob("*.jsonl")]
    shutil.rmtree(folder, ignore_errors=True)
    return platform.node(), exit_code, lines[-1] if lines else "", journals


def _left_behind(plan: SweepPlan, task: int) -> str:
    folder = Path(tempfile.gettempdir(), _PREFIX.format(plan.sweep_id, task))
    return (
        "What it measured stays on its machine; `tfbench import` reads it:"
        f" {folder}*/mlruns/journals/*.jsonl"
    )


def _bring_home(
    journals: Sequence[bytes], log: SweepLog, store: Store, state: TrackingState
) -> None:
    with tempfile.TemporaryDirectory(prefix="tfbench-") as folder:
        for number, data in enumerate(journals):
            Path(folder, f"{number}.jsonl").write_bytes(data)
        import_journals(store, list(Path(folder).iterdir()), None, state)
    note_results(log, store)


def _node_environment() -> dict[str, str]:
    """Returns the environment that the node was started in, without what is Ray's.

    Ray's worker has other settings of threads (OMP_NUM_THREADS), paths and devices, which the runs
    are not to have, and `ray start` has its own servers allocate memory by jemalloc, unless the
    user has something loaded into them.

    Raises:
        RuntimeError: The process is none of a Ray node.
    """
    import ray

    for process in psutil.Process().parents():
        if process.name() == "raylet":
            found = process.environ()
            own = found.get(
                "RAY_JEMALLOC_LIB_PATH", str(Path(ray.__file__).parent / "core" / "libjemalloc.so")
            )
            its = {name for name in found if name.startswith("RAY_")}
            its |= {"LD_PRELOAD", "MALLOC_CONF"} if found.get("LD_PRELOAD") == own else set()
            return {name: value for name, value in found.items() if name not in its}
    raise RuntimeError("no raylet is above this process: its environment is not known.")


def _wanted(machine: str = "") -> str:
    return f"--resources='{json.dumps({name: 1 for name in (RESOURCE, machine) if name})}'"


def _first_line(error: Any) -> str:
    return str(getattr(error, "cause", None) or error).strip().partition("\n")[0].rstrip(".")
