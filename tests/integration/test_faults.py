"""Whatever happens to a run or a sweep, at whatever moment.

What was measured is there after `tfbench recover`.

`pytest -m faults --faults 200 --seed 7` draws faults by a seed: which command is hit, with what,
and at which moment.
"""

import contextlib
import json
import os
import random
import re
import resource
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from builders import build_request
from journals import build_sized_result, make_database, write_journal
from runs import DEADLINE_SECONDS, Command, printed_epochs, run, wait_until
from tfbench.machine.children import FORKS_MODULE
from tfbench.machine.usage import list_workers
from tfbench.store.store import Store

MARK = "TEST_OF_FAULTS"  # in the environment of a command and of all that it starts
GOOD_RUN = "0" * 32  # which is in the store beside the run that something happens to
LIFE_SECONDS = 20.0  # of a run with ten epochs of which nothing becomes, on a busy machine
GONE_SECONDS = 30.0  # an orphan takes two at most; a busy machine is given more
RECIPE = """
[recipe]
title = "Faults"
source = "this test"
[model]
name = "mlp"
hidden_units = [16]
[dataset]
name = "mnist"
data = "synthetic"
[training]
global_batch_size = 2000
epochs = 10
[measurement]
warmup_steps = 1
checks = false
"""
RUN = ("run", "small.toml")
SWEEP = (
    *("sweep", "small.toml", "--full", "--repeats", "1", "--set", "training.epochs=4"),
    *("--vary", "training.global_batch_size=2000,4000", "--setup", "default cpu:0"),
)


class Moment(NamedTuple):
    """So many seconds after the journals hold `count` records of a kind.

    "" is the start of the command.
    """

    kind: str
    count: int
    delay: float


# Each is the latest that may be drawn.
MOMENTS = (
    *(
        Moment("", 1, 0.4),
        Moment("", 1, LIFE_SECONDS),
        Moment("request", 2, 0.3),
        Moment("worker", 1, LIFE_SECONDS / 2),
    ),
    *(
        Moment("ready", 2, 2),
        Moment("epoch", 8, 0.3),
        Moment("epoch", 8, 0.3),
        Moment("finished", 2, 0.3),
    ),
    Moment("exit", 1, 2),  # while it is tracked
)


class Victim(Command):
    """A run or a sweep that something will happen to."""

    def __init__(self, *arguments: str, cwd: Path, mark: str) -> None:
        self.temporary = cwd / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self.mark = mark
        super().__init__(
            *arguments, cwd=cwd, is_first=True, **{"TMPDIR": str(self.temporary), MARK: mark}
        )

    @property
    def has_ended(self) -> bool:
        """True once nothing more can happen to it."""
        return self.process.poll() is not None

    def journals(self) -> list[Path]:
        """Returns the journals that it wrote, oldest first."""
        found = []
        for path in (self.store / "journals").glob("*.jsonl"):
            with contextlib.suppress(OSError):  # one may be discarded meanwhile
                found.append((path.stat().st_mtime, path))
        return [path for _, path in sorted(found) if path.stem != GOOD_RUN]

    def wait_for_moment(self, moment: Moment) -> None:
        """Waits until the moment has come, or the command is over before."""
        needle = f'"kind":"{moment.kind}"'.encode()

        def has_come() -> bool:
            with contextlib.suppress(OSError):  # of a journal that is discarded meanwhile
                return (
                    self.has_ended
                    or sum(p.read_bytes().count(needle) for p in self.journals()) >= moment.count
                )
            return False

        if moment.kind:
            wait_until(has_come, f"{moment.count} x {moment.kind}")
        self.wait_at_most(moment.delay)

    def wait_at_most(self, seconds: float) -> None:
        """Lets it go on for some time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    def find_worker(self) -> psutil.Process | None:
        """Returns its measuring process, for which it waits; None.

        It came to an end without one.
        """

        def find() -> psutil.Process | None:
            measuring = {worker.pid for worker in list_workers()}
            for child in psutil.Process(self.process.pid).children(recursive=True):
                if child.pid in measuring:
                    return child
            return None

        found = wait_until(lambda: self.has_ended or find(), "a worker")
        return found if isinstance(found, psutil.Process) else None


def marked_processes(mark: str) -> list[psutil.Process]:
    """Returns all processes that a command started, wherever they are now, and itself."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def kill_marked(mark: str) -> None:
    processes = marked_processes(mark)
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(processes, DEADLINE_SECONDS)


# Each fault is a function of the victim and of the chance that its details are drawn from.


def kill_parent(victim: Victim, chance: random.Random) -> None:
    victim.send(signal.SIGKILL)


def kill_worker(victim: Victim, chance: random.Random) -> None:
    with contextlib.suppress(psutil.Error):
        if worker := victim.find_worker():
            worker.kill()
            worker.wait(DEADLINE_SECONDS)


def kill_both(victim: Victim, chance: random.Random) -> None:
    """Kills it and its measuring process at once, as the end of the machine would."""
    kill_marked(victim.mark)


def terminate(victim: Victim, chance: random.Random) -> None:
    victim.send(signal.SIGTERM)


def interrupt(victim: Victim, chance: random.Random) -> None:
    victim.send(signal.SIGINT)


def interrupt_twice(victim: Victim, chance: random.Random) -> None:
    victim.send(signal.SIGINT)
    victim.wait_at_most(chance.uniform(0, 1))
    victim.send(signal.SIGINT)


def fill_disk(victim: Victim, chance: random.Random) -> None:
    """No file of the command grows beyond the journal's size, more or less.

    Some line is cut in the middle.
    """
    worker = victim.find_worker()
    size = max((path.stat().st_size for path in victim.journals()), default=0) + chance.randrange(
        2000
    )
    for pid in (worker.pid, victim.process.pid) if worker else (victim.process.pid,):
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def tear_tail(victim: Victim, chance: random.Random) -> None:
    """The machine ends, and with it the last bytes that were on their way to the disk."""
    kill_marked(victim.mark)
    for path in victim.journals()[-1:]:
        os.truncate(path, max(0, path.stat().st_size - chance.randint(1, 400)))


def lock_database(victim: Victim, chance: random.Random) -> None:
    """Another process has the database for a while."""
    database = victim.store / "mlflow.db"
    wait_until(lambda: database.exists() or victim.has_ended, "a database")
    if victim.has_ended:
        return
    with contextlib.closing(sqlite3.connect(database, timeout=60)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        victim.wait_at_most(chance.uniform(0.5, 10))


def delete_database(victim: Victim, chance: random.Random) -> None:
    """The database goes; what SQLite keeps beside it may stay."""
    (victim.store / "mlflow.db").unlink(missing_ok=True)


def kill_recover(victim: Victim, chance: random.Random) -> None:
    """The recovery is killed as well."""
    kill_marked(victim.mark)
    recovery = Victim("recover", cwd=victim.store.parent, mark=victim.mark)
    recovery.wait_at_most(chance.uniform(0, 6))
    recovery.send(signal.SIGKILL)
    recovery.wait()


def kill_prepared(victim: Victim, chance: random.Random) -> None:
    """Kills what the runs of a sweep are forked from; it costs none of them."""
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(victim.process.pid).children():
            if FORKS_MODULE in child.cmdline():
                child.kill()


Inject = Callable[[Victim, random.Random], None]
FAULTS: tuple[Inject, ...] = (
    *(kill_parent, kill_worker, kill_both, terminate, interrupt, interrupt_twice, kill_recover),
    *(fill_disk, tear_tail, lock_database, delete_database, kill_prepared),
)
ENDS_COMMAND = frozenset(FAULTS) - {lock_database, delete_database, kill_prepared}
KILLS_PARENT = frozenset({kill_parent, kill_both, tear_tail, kill_recover})


class Fault(NamedTuple):
    """What happens to a command, and when."""

    inject: Inject
    is_sweep: bool
    has_database: bool  # before the command begins
    moment: Moment


def draw_fault(seed: int, number: int) -> tuple[Fault, random.Random]:
    """Returns the fault of a number, and the chance that its details are drawn from.

    The same for the same seed.

    All faults come in turn; the rest is chance.
    """
    chance = random.Random(f"{seed}/{number}")
    inject = FAULTS[(seed + number) % len(FAULTS)]
    latest = chance.choice(MOMENTS)
    moment = Moment(latest.kind, chance.randint(1, latest.count), chance.uniform(0, latest.delay))
    return Fault(inject, chance.random() < 0.25, chance.random() < 0.6, moment), chance


def wait_until_gone(mark: str) -> list[str]:
    """Waits for a command's processes, and returns the commands of those left."""
    deadline = time.monotonic() + GONE_SECONDS
    while left := marked_processes(mark):
        if time.monotonic() > deadline:
            return [" ".join(process.cmdline()) for process in left]
        psutil.wait_procs(left, 0.2)
    return []


pytestmark = pytest.mark.faults

Invoke = Callable[..., Any]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    numbers = range(metafunc.config.getoption("--faults"))
    seed = metafunc.config.getoption("--seed")
    faults = [draw_fault(seed, number)[0] for number in numbers]
    ids = [
        f"{n}-{one.inject.__name__}-{'sweep' if one.is_sweep else 'run'}"
        for n, one in enumerate(faults)
    ]
    metafunc.parametrize("number", numbers, ids=ids)


class OnDisk(NamedTuple):
    """What a journal holds, torn lines left out."""

    kinds: set[str]
    epochs: set[int]

    def statuses(self, fault: Fault) -> set[str]:
        """Returns the statuses that the run may have after a fault."""
        if "finished" in self.kinds:
            return {"FINISHED"}
        if "failed" in self.kinds:
            return {"FAILED"}
        # What a process that could not write any more died of is known to its parent alone.
        return {"KILLED", "FAILED"} if fault.inject is fill_disk else {"KILLED"}


def test_a_fault_costs_nothing_that_was_measured(
    number: int, tmp_path: Path, store: Store, tfbench: Invoke, request: pytest.FixtureRequest
) -> None:
    fault, chance = draw_fault(request.config.getoption("--seed"), number)
    (tmp_path / "small.toml").write_text(RECIPE)
    good = build_sized_result(0, request=build_request(run_id=GOOD_RUN, name="good"))
    write_journal(store, good)  # which is not in MLflow yet
    if fault.has_database:
        make_database(store)
    victim = Victim(*(SWEEP if fault.is_sweep else RUN), cwd=tmp_path, mark=str(tmp_path))
    try:
        victim.wait_for_moment(fault.moment)
        print(fault, "which came after the end" if victim.has_ended else "")  # noqa: T201
        fault.inject(victim, chance)
        finished = victim.wait()
        assert wait_until_gone(victim.mark) == []
    finally:
        kill_marked(victim.mark)
    require_no_traceback(finished)
    if fault.inject not in KILLS_PARENT:  # which nothing is tidied up after
        assert list(victim.temporary.iterdir()) == []
    if fault.inject not in ENDS_COMMAND and "epoch " in finished.stdout:
        assert finished.exit_code == 0, finished
    if list(
        (store.root / "sweeps").glob("*.json")
    ):  # a sweep of which there is a record goes on to its end
        resumed = run("sweep", "--resume", "@last", "--format", "json", cwd=tmp_path, is_first=True)
        require_no_traceback(resumed)
        assert resumed.stdout.startswith("{") and resumed.document["num_left"] == 0, resumed
    journals = {path.stem: read_journal(path) for path in victim.journals()}
    if fault.inject is not tear_tail:  # which takes away what was printed
        assert set(printed_epochs(finished.stdout)) <= {
            epoch for one in journals.values() for epoch in one.epochs
        }
    recover(store, journals, tfbench, everything=fault.inject is delete_database)
    check_runs(store, journals, fault, tfbench)
    for pattern in ("*.part", "*.reserve", "*.tmp", "*.work", "part-*"):
        assert list(store.root.rglob(pattern)) == []
    with contextlib.closing(sqlite3.connect(store.database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def require_no_traceback(done: Any) -> None:
    is_pythons_start = "init_import_site" in done.stderr or not re.search(
        r'File "(?!<frozen )', done.stderr
    )
    assert "Traceback" not in done.stderr or is_pythons_start, done


def read_journal(path: Path) -> OnDisk:
    records = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        with contextlib.suppress(ValueError):
            records.append(json.loads(line))
    epochs = {record["epoch"]["epoch"] for record in records if record["kind"] == "epoch"}
    return OnDisk(kinds={record["kind"] for record in records}, epochs=epochs)


def recover(
    store: Store, journals: dict[str, OnDisk], tfbench: Invoke, *, everything: bool
) -> None:
    """Brings MLflow up to date, twice: the second time there is nothing to do."""
    for run_id in journals:  # so that a run that has only just begun is not left alone
        os.utime(store.journal_path(run_id), (time.time() - 60,) * 2)
    arguments = ("recover", "--store", str(store.root))
    first = tfbench(*arguments, *(["--all"] if everything else []))
    require_no_traceback(first)
    assert first.exit_code == 0, first
    assert "nothing to recover" in tfbench(*arguments).stdout


def check_runs(store: Store, journals: dict[str, OnDisk], fault: Fault, tfbench: Invoke) -> None:
    """Checks that every run is readable, and once in MLflow with all its epochs.

    MLflow has its true status, too.
    """
    tracked = read_database(store)
    for run_id, expected in {
        GOOD_RUN: read_journal(store.journal_path(GOOD_RUN)),
        **journals,
    }.items():
        if not store.journal_path(run_id).exists():
            assert not expected.epochs and "ready" not in expected.kinds, (
                f"{run_id} was discarded: {expected}"
            )
            continue
        for command in (("export", run_id, "-o", "-"), ("runs", run_id)):
            done = tfbench(*command, "--store", str(store.root))
            require_no_traceback(done)
            assert done.exit_code == 0 or (
                "ready" not in expected.kinds and command[0] == "runs"
            ), done
        ((status, epochs),) = tracked[run_id]
        assert expected.epochs <= epochs
        assert status in expected.statuses(fault), expected
    compared = tfbench("compare", "--all", "--format", "json", "--store", str(store.root))
    assert (compared.exit_code, compared.stderr) == (0, "")


def read_database(store: Store) -> dict[str, list[tuple[str, set[int]]]]:
    """Returns status and epochs of MLflow's runs by tfbench's ids."""
    found: dict[str, list[tuple[str, set[int]]]] = {}
    with contextlib.closing(sqlite3.connect(store.database)) as connection:
        runs = connection.execute(
            "SELECT value, run_uuid, status FROM runs JOIN tags USING (run_uuid) WHERE key ="
            " 'tfbench.run_id'"
        ).fetchall()
        for run_id, mlflow_id, status in runs:
            rows = connection.execute(
                "SELECT step FROM metrics WHERE run_uuid = ? AND key = 'loss'", [mlflow_id]
            )
            found.setdefault(run_id, []).append((status, {step for (step,) in rows}))
    return found
