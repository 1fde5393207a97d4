"""The record of a task: what one machine of several made of a sweep, in the store of that machine.

Its name has sweep, task and machine in it, so that machines may share a store. It comes back to where the sweep was
planned with the journals of its runs.
"""

import contextlib
import fcntl
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tfbench.errors import InterruptedRunError, RecipeError, TrackingError
from tfbench.records.lines import read_file
from tfbench.records.plain_files import require_plain
from tfbench.records.sweep import CellResult, SweepPlan
from tfbench.schema import Id, Integer, MachineName, build_fields
from tfbench.store.store import Store
from tfbench.store.sweep_log import TASKS_FOLDER, SweepLog, begin_record, opened_record, read_record

_MACHINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_LOOK_SECONDS = 1.0  # between two looks whether another task is over


class TaskRecord(NamedTuple):
    """What a machine tells of a task."""

    path: Path
    task: int
    machine: str
    host: str
    plan: SweepPlan
    found: list[CellResult]
    begun: list[tuple[int, str]]  # numbers of cells with the runs of them, in order: all but the last are over


@contextlib.contextmanager
def opened_task(store: Store, plan: SweepPlan, task: int, machine: str) -> Iterator[SweepLog]:
    """Opens the record of a task, which is new or goes on.

    Raises:
        TrackingError: Another process is at it, it is of another plan or host, or the store cannot be written to.
    """
    path = task_path(store, plan.sweep_id, task, machine)
    with opened_record(path) as journal:
        if not path.stat().st_size:
            begin_record(journal, plan, task=task, machine=machine, host=socket.gethostname())
        record = read_task(path)
        if record.plan != plan:
            raise TrackingError(f"{path}: is of another plan than the one that is given. Use another --store.")
        if record.host != socket.gethostname():
            raise TrackingError(
                f"{path}: was begun on host {record.host}, and this is {socket.gethostname()}: one machine makes all "
                "rounds of a task. Use another --machine."
            )
        yield SweepLog(journal, plan, record.found)


def task_path(store: Store, sweep_id: str, task: int, machine: str) -> Path:
    """Returns where the record of a task is, or would be.

    Raises:
        TrackingError: It is no file but a link, or the machine's name cannot be one of a file.
    """
    _require_name(machine)
    return require_plain(store.root, TASKS_FOLDER, f"{sweep_id}.{task}.{machine}.jsonl")


def list_task_paths(store: Store, sweep_id: str) -> list[Path]:
    """Returns the records of a sweep's tasks that are in a store.

    Raises:
        TrackingError: One of them is no file but a link.
    """
    paths = sorted(store.folder(TASKS_FOLDER).glob(f"{sweep_id}.*.jsonl"))
    return [require_plain(store.root, TASKS_FOLDER, path.name) for path in paths]


def read_task(path: Path) -> TaskRecord:
    """Reads the record of a task, which anybody may have written.

    Raises:
        TrackingError: It is none.
    """
    plan, found = read_record(path)
    records = read_file(path)
    types: dict[str, Any] = {"task": Integer, "machine": MachineName, "host": str}
    try:
        head = build_fields(types, records[0], "plan")
        begun = [
            build_fields({"cell": Integer, "run_id": Id}, record, "begun")
            for record in records
            if record["kind"] == "begun"
        ]
    except RecipeError as error:
        raise TrackingError(f"{path}: is no record of a task: {error}") from error
    runs = [(one["cell"], one["run_id"]) for one in begun]
    return TaskRecord(path=path, plan=plan, found=found, begun=runs, **head)


@contextlib.contextmanager
def alone(store: Store, machine: str, is_stopped: Callable[[], bool], tell: Callable[[str], None]) -> Iterator[None]:
    """Waits until no other task of any sweep is made on a machine out of a store, and keeps others from it.

    Args:
        store: Of the machine.
        machine: What it is called.
        is_stopped: Whether to wait no longer.
        tell: Told that it has to wait.

    Raises:
        InterruptedRunError: It was stopped while it waited.
        TrackingError: The store cannot be written to.
    """
    _require_name(machine)
    path = require_plain(store.root, TASKS_FOLDER, f"{machine}.lock")
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(path.open("ab"))
        except OSError as error:
            raise TrackingError(f"{path}: cannot be written: {error.strerror}.") from error
        has_told = False
        while not _try_lock(lock.fileno()):
            if not has_told:
                tell(f"machine {machine}: another task is made there; this one waits for its end.")
                has_told = True
            if is_stopped():
                raise InterruptedRunError("interrupted while another task was made on this machine.")
            time.sleep(_LOOK_SECONDS)
        yield


def _require_name(machine: str) -> None:
    if not _MACHINE.fullmatch(machine):
        raise TrackingError(f"machine {machine!r}: must be letters, digits and '_.-', 100 at most.")


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
