"""A sweep on a Ray cluster: each task of the plan is a Ray task, whose journals then come home."""

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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from tfbench.comparisons.user_settings import NO_SETTINGS, UserSettings
from tfbench.errors import DeviceError
from tfbench.machine import children
from tfbench.runs.status import StopSignals
from tfbench.store.brief import host_of
from tfbench.store.recover import import_journals
from tfbench.store.store import Store, TrackingState
from tfbench.store.sweep_log import SweepLog, encode_record
from tfbench.sweeps.compared import SweepEnd, find_due_runs
from tfbench.sweeps.execution import Planned
from tfbench.sweeps.plan import SweepPlan, SweepRecord
from tfbench.sweeps.results import find_runs, note_runs
from tfbench.sweeps.tasks import Task, list_tasks
from tfbench.wording import DEFAULT_STORE

RESOURCE = "tfbench"  # of which a node has one, so that it makes one task at a time
_PREFIX = "tfbench-{}-{}-"  # of the folder of a task, with the sweep and its number
_STOP_SECONDS = 25.0  # for the command of a task to end once it was asked to


def make_sweep(
    planned: Planned,
    address: str,
    store: Store,
    state: TrackingState,
    report: Callable[[str], None],
    settings: UserSettings = NO_SETTINGS,
) -> SweepEnd:
    """Has the tasks of a sweep that are not whole made on a cluster.

    Rounds are added once all tasks are home, since all configurations are judged together.

    Args:
        planned: The sweep.
        address: As of `connected`.
        store: As of `make_tasks`.
        state: As of `make_tasks`.
        report: As of `make_tasks`.
        settings: Of the user, by which the sweep is judged.

    Raises:
        DeviceError: As of `connected`.
        TrackingError: As of `make_tasks`.
    """
    rounds: dict[int, int] = {}  # that were asked of each task
    was_interrupted = False
    with connected(address, list_tasks(planned.plan)), planned.log as log:
        while not was_interrupted:
            tasks = []
            for task in list_due_tasks(log.record, store, settings):
                if task.num_rounds > rounds.get(task.number, 0):
                    tasks.append(task)
            if not tasks:
                break
            rounds |= {task.number: task.num_rounds for task in tasks}
            was_interrupted = make_tasks(log, tasks, store, state, report)
        runs = find_runs(store, log.record)
        due = find_due_runs(log.plan, runs, settings)
    return SweepEnd(
        num_planned=len(due.runs),
        num_left=len(due.without(runs.results)),
        was_interrupted=was_interrupted,
        results=runs.results,
    )


def list_due_tasks(record: SweepRecord, store: Store, settings: UserSettings) -> list[Task]:
    """Returns the tasks of which runs are missing, with the runs that they need."""
    runs = find_runs(store, record)
    due = find_due_runs(record.plan, runs, settings)
    needed = set(due.runs)
    left = set(due.without(runs.results))
    tasks = []
    for task in list_tasks(record.plan):
        if not left.isdisjoint(task.runs):
            own = tuple(planned for planned in task.runs if planned in needed)
            tasks.append(task._replace(runs=own))
    return tasks


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
    # Ray reads it as it is imported; by default it tries 20 times, 40 s each.
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "3")
    import ray

    with contextlib.redirect_stdout(io.StringIO()):  # Ray says there what its nodes complain of
        _connect(address)
        try:
            for machine in dict.fromkeys(task.machine for task in tasks):
                _require_machine(machine)
            yield
        finally:
            ray.shutdown()


def _connect(address: str) -> None:
    import ray

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        host, _, port = address.rpartition(":")
        if host and port.isdecimal() and "/" not in host:
            if host in ("localhost", "127.0.0.1", "::1"):  # Ray takes this machine's address for it
                host = ray.util.get_node_ip_address()
            # Ray itself would try a wrong address for minutes.
            socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (OSError, OverflowError, ValueError, RuntimeError) as error:
        raise DeviceError(
            f"--ray: no cluster at '{address}': {_first_line(error)}. Start one on the first"
            f" machine with `ray start --head {_resource_option()}`, or name it: --ray HOST:6379."
        ) from error
    finally:
        for number, handler in handlers.items():  # Ray replaces them
            signal.signal(number, handler)


def _require_machine(machine: str) -> None:
    import ray

    names = {RESOURCE, machine} - {""}
    for node in ray.nodes():
        if node["Alive"] and names <= node["Resources"].keys():
            return
    kind = f"named {machine} " if machine else ""
    raise DeviceError(
        f"the Ray cluster has no machine {kind}for tasks of tfbench. Start each with `ray start"
        f" --address=HEAD {_resource_option(machine)}`, the first with --head."
    )


def make_tasks(
    log: SweepLog,
    tasks: Sequence[Task],
    store: Store,
    state: TrackingState,
    report: Callable[[str], None],
) -> bool:
    """Has tasks made on the cluster, and brings home what comes of each.

    Returns whether it was interrupted.

    Args:
        log: The sweep's open record.
        tasks: Those that are to be made, each as a whole.
        store: Receives the journals.
        state: Where the runs are to be tracked, which is left for `recover`.
        report: Told what happens.

    Raises:
        TrackingError: The store, or the sweep's record, cannot be written to.
    """
    import ray

    running = _submit(log.record, tasks, store)

    def collect(num_returns: int, timeout: float) -> None:
        for ended in ray.wait(list(running), num_returns=num_returns, timeout=timeout)[0]:
            task = running.pop(ended)
            try:
                host, exit_code, last_line, journals = ray.get(ended)
            except ray.exceptions.TaskCancelledError:  # it had not begun
                continue
            except ray.exceptions.RayError as error:
                report(f"task {task.number}: {_first_line(error)}. {_left_behind(log.plan, task)}")
                continue
            _bring_home(journals, log, store, state)
            failure = f", exit code {exit_code}: {last_line}" if exit_code else ""
            report(
                f"task {task.number}: {len(journals)} of {len(task.runs)} runs, on {host}{failure}"
            )

    with StopSignals() as stop:
        while running and not stop.received:
            collect(1, 1.0)
        was_interrupted = bool(running)
        if was_interrupted:
            report("stopping; what was measured comes home")
            for reference in running:
                ray.cancel(reference)
            collect(len(running), 2 * _STOP_SECONDS)
        for task in running.values():
            report(f"task {task.number}: does not end. {_left_behind(log.plan, task)}")
    return was_interrupted


def _submit(record: SweepRecord, tasks: Sequence[Task], store: Store) -> dict[Any, Task]:
    """Submits tasks to the cluster, and returns them by Ray's references to their results."""
    import ray

    plan = record.plan
    encoded = encode_record(SweepRecord(plan))
    measure = ray.remote(measure_task)
    runs = find_runs(store, record)
    running = {}
    for task in tasks:
        earlier = {}  # journals of its runs that were made before, by their ids
        hosts = set()
        for planned in task.runs:
            result = runs.results.get(planned.number)
            if result and result.run_id:
                earlier[result.run_id] = store.journal_path(result.run_id).read_bytes()
                hosts.add(host_of(runs.briefs[result.run_id]))
        resources = {RESOURCE: 1.0}
        if task.machine:  # its resource stands for a kind of machine, which tasks do not use up
            resources[task.machine] = 1e-3
        options = measure.options(
            num_cpus=0,
            resources=resources,
            name=f"tfbench {plan.sweep_id} {task.number}",
            scheduling_strategy=_choose_node(hosts),
        )
        reference = options.remote(encoded, task.number, task.num_rounds, plan.allows_code, earlier)
        running[reference] = task
    return running


def _choose_node(hosts: Collection[str]) -> Any:
    """Returns Ray's strategy for a task: the node that made its earlier runs, if it is alive.

    Elsewhere all rounds would be made anew.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    for node in ray.nodes():
        if node["Alive"] and RESOURCE in node["Resources"] and node["NodeManagerHostname"] in hosts:
            return NodeAffinitySchedulingStrategy(node["NodeID"], soft=True)
    return "DEFAULT"


def _bring_home(
    journals: Sequence[bytes], log: SweepLog, store: Store, state: TrackingState
) -> None:
    with tempfile.TemporaryDirectory(prefix="tfbench-") as folder:
        for number, data in enumerate(journals):
            Path(folder, f"{number}.jsonl").write_bytes(data)
        import_journals(store, list(Path(folder).iterdir()), None, state)
    note_runs(log, store)


def measure_task(
    plan: bytes, task: int, num_rounds: int, allows_code: bool, earlier: Mapping[str, bytes]
) -> tuple[str, int, str, list[bytes]]:
    """Makes a task on this node; one that is cancelled hands back what was measured by then.

    Its folder stays if anything else ends it, so that nothing that was measured is lost.

    Args:
        plan: Its file.
        task: The number of the task.
        num_rounds: How many rounds of it there are to be.
        allows_code: Whether the user's own functions may be called.
        earlier: Journals of its runs that were made before, by their ids.

    Returns:
        The node's name, the exit code of the command, the last line that it printed, and journals.
    """
    sweep_id = json.loads(plan)["plan"]["sweep_id"]
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX.format(sweep_id, task)))
    (folder / "plan.json").write_bytes(plan)
    store = Store(folder / DEFAULT_STORE)
    for run_id, data in earlier.items():
        store.create_journal(run_id).write_bytes(data)
    words = ["sweep", "--plan", "plan.json", "--task", str(task), "--repeats", str(num_rounds)]
    words += ["--store", DEFAULT_STORE]
    if allows_code:
        words.append("--allow-code")
    with tempfile.TemporaryFile() as output:
        command = children.start(
            "tfbench", words, output=output, folder=str(folder), environment=_node_environment()
        )
        try:
            while command.poll() is None:
                time.sleep(0.5)  # a cancellation by Ray interrupts no system call
        except KeyboardInterrupt:
            command.terminate()
        finally:
            exit_code = children.end(command, _STOP_SECONDS)
        output.seek(0)
        lines = output.read().decode(errors="replace").strip().splitlines()
    made = set(store.run_ids()).difference(earlier)
    journals = [store.journal_path(run_id).read_bytes() for run_id in sorted(made)]
    shutil.rmtree(folder, ignore_errors=True)
    return platform.node(), exit_code, lines[-1] if lines else "", journals


def _left_behind(plan: SweepPlan, task: Task) -> str:
    folder = Path(tempfile.gettempdir(), _PREFIX.format(plan.sweep_id, task.number))
    return (
        "What it measured stays on its machine; `tfbench import` reads it:"
        f" {folder}*/mlruns/journals/*.jsonl"
    )


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
            environment = process.environ()
            jemalloc = environment.get(
                "RAY_JEMALLOC_LIB_PATH", f"{Path(ray.__file__).parent}/core/libjemalloc.so"
            )
            names = {name for name in environment if name.startswith("RAY_")}
            if environment.get("LD_PRELOAD") == jemalloc:
                names |= {"LD_PRELOAD", "MALLOC_CONF"}
            return {name: value for name, value in environment.items() if name not in names}
    raise RuntimeError("no raylet is above this process: its environment is not known.")


def _resource_option(machine: str = "") -> str:
    resources = {name: 1 for name in (RESOURCE, machine) if name}
    return f"--resources='{json.dumps(resources)}'"


def _first_line(error: Any) -> str:
    return str(getattr(error, "cause", None) or error).strip().partition("\n")[0].rstrip(".")
