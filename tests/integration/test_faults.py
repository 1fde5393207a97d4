"""Whatever happens to a run or a sweep, at whatever moment: what was measured is there after `tfbench recover`.

`pytest -m faults --faults 200 --seed 7` ends in one line of figures.
"""

import contextlib
import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from builders import build_request
from faults import (
    ENDS_COMMAND,
    GOOD_RUN,
    KILLS_PARENT,
    RECIPE,
    RUN,
    SWEEP,
    Fault,
    Victim,
    delete_database,
    draw_fault,
    fill_disk,
    swept_up,
    tear_tail,
    wait_until_gone,
)
from journals import build_sized_result, make_database, write_journal
from runs import Finished, printed_epochs
from tfbench.store.store import Store

pytestmark = pytest.mark.faults

Invoke = Callable[..., Any]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    numbers = range(metafunc.config.getoption("--faults"))
    seed = metafunc.config.getoption("--seed")
    ids = [f"{number}-{draw_fault(seed, number)[0].name}" for number in numbers]
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


class Findings:
    """What is wrong, by the figure that it counts in."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.counts: Counter[str] = Counter()

    def add(self, figure: str, text: str, count: int = 1) -> None:
        self.texts.append(f"{figure}: {text}")
        self.counts[figure] += count

    def check_output(self, what: str, stderr: str) -> None:
        if "Traceback" in stderr and "init_import_site" not in stderr:  # Python itself was starting
            self.add("tracebacks", f"{what}\n{stderr}")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Where the store will be."""
    return Store(tmp_path / "mlruns")


def test_a_fault_costs_nothing_that_was_measured(
    number: int,
    tmp_path: Path,
    store: Store,
    tfbench: Invoke,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    fault, chance = draw_fault(request.config.getoption("--seed"), number)
    findings = Findings()
    with contextlib.ExitStack() as stack:
        prepare(store, tmp_path, fault)
        victim = Victim(*(SWEEP if fault.is_sweep else RUN), cwd=tmp_path, mark=str(tmp_path))
        stack.enter_context(swept_up(victim.mark))
        victim.wait_for_moment(fault.moment)
        came_too_late = victim.has_ended
        fault.inject(victim, chance)
        finished = victim.wait()
        for process in wait_until_gone(victim.mark):
            findings.add("processes left", process)
        findings.check_output("the command", finished.stderr)
        left = sorted(path.name for path in victim.temporary.iterdir())
        if left and fault.inject not in KILLS_PARENT:  # which nothing is tidied up after
            findings.add("temporaries left", ", ".join(left), len(left))
        if fault.inject not in ENDS_COMMAND and finished.exit_code and "epoch " in finished.stdout:
            findings.add("untrue statuses", f"it ended with exit code {finished.exit_code} on account of the fault")

        if victim.is_sweep:
            check_sweep_goes_on(tmp_path, store, findings)
        journals = {path.stem: read_journal(path) for path in victim.journals()}
        if fault.inject is not tear_tail:  # which takes away what was printed
            check_printed(finished.stdout, journals, findings)
        recover(store, journals, tfbench, findings, everything=fault.inject is delete_database)
        check_runs(store, journals, fault, tfbench, findings)
        check_store(store, findings)
    record_property("faults", dict(findings.counts))
    where = f"{fault}{', which came after the end' if came_too_late else ''}"
    assert not findings.texts, "\n".join([where, *findings.texts, finished.stdout, finished.stderr])


def prepare(store: Store, folder: Path, fault: Fault) -> None:
    """Writes the recipe, and a store with a run that is not in MLflow yet."""
    (folder / "small.toml").write_text(RECIPE)
    good = build_sized_result(0, request=build_request(run_id=GOOD_RUN, name="good"))
    write_journal(store, good)
    if fault.has_database:
        make_database(store)


def read_journal(path: Path) -> OnDisk:
    records = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        with contextlib.suppress(ValueError):
            records.append(json.loads(line))
    epochs = {record["epoch"]["epoch"] for record in records if record["kind"] == "epoch"}
    return OnDisk(kinds={record["kind"] for record in records}, epochs=epochs)


def check_sweep_goes_on(folder: Path, store: Store, findings: Findings) -> None:
    """A sweep of which there is a record goes on to its end."""
    if not list((store.root / "sweeps").glob("*.json")):
        return
    resumed = Victim("sweep", "--resume", "@last", "--format", "json", cwd=folder, mark=str(folder)).wait()
    findings.check_output("sweep --resume", resumed.stderr)
    if not is_whole(resumed):
        findings.add("runs unreadable", f"sweep --resume: exit code {resumed.exit_code}\n{resumed.stderr}")


def is_whole(resumed: Finished) -> bool:
    return resumed.stdout.startswith("{") and resumed.document["num_left"] == 0


def check_printed(stdout: str, journals: dict[str, OnDisk], findings: Findings) -> None:
    """Of a run, whose epochs are printed one a line: each is in its journal."""
    lost = set(printed_epochs(stdout)) - {epoch for journal in journals.values() for epoch in journal.epochs}
    if lost:
        findings.add("epochs lost", f"printed, but in no journal: {sorted(lost)}", len(lost))


def recover(
    store: Store, journals: dict[str, OnDisk], tfbench: Invoke, findings: Findings, *, everything: bool
) -> None:
    """Brings MLflow up to date, twice: the second time there is nothing to do."""
    for run_id in journals:  # so that a run that has only just begun is not left alone
        os.utime(store.journal_path(run_id), (time.time() - 60,) * 2)
    arguments = ("recover", "--store", str(store.root))
    first = invoke(tfbench, findings, *arguments, *(["--all"] if everything else []))
    if first and first.exit_code:
        findings.add("runs unreadable", f"recover: {first.stdout}{first.stderr}")
    again = invoke(tfbench, findings, *arguments)
    if again and "nothing to recover" not in again.stdout:
        findings.add("runs unreadable", f"recover, once more: {again.stdout}{again.stderr}")


def check_runs(store: Store, journals: dict[str, OnDisk], fault: Fault, tfbench: Invoke, findings: Findings) -> None:
    """Every run can be read in every way, and stands in MLflow once, as what it is, with all its epochs."""
    tracked = read_database(store)
    for run_id, expected in {GOOD_RUN: read_journal(store.journal_path(GOOD_RUN)), **journals}.items():
        if not store.journal_path(run_id).exists():
            if expected.epochs or "ready" in expected.kinds:
                findings.add("epochs lost", f"{run_id} was discarded: {expected}", len(expected.epochs))
            continue
        for command in (("export", run_id, "-o", "-"), ("runs", run_id)):
            done = invoke(tfbench, findings, *command, "--store", str(store.root))
            if done and done.exit_code and ("ready" in expected.kinds or command[0] == "export"):
                findings.add("runs unreadable", f"{command}: {done.stderr}")
        if len(tracked.get(run_id, ())) != 1:
            findings.add("runs unreadable", f"{run_id} is in MLflow {len(tracked.get(run_id, ()))} times")
            continue
        ((status, epochs),) = tracked[run_id]
        if lost := expected.epochs - epochs:
            findings.add("epochs lost", f"{run_id}: not in MLflow: {sorted(lost)}", len(lost))
        if status not in expected.statuses(fault):
            findings.add("untrue statuses", f"{run_id}: {status} in MLflow, but {expected.kinds} in the journal")
    compared = invoke(tfbench, findings, "compare", "--all", "--format", "json", "--store", str(store.root))
    if compared and (compared.exit_code or compared.stderr):
        findings.add("runs unreadable", f"compare --all: {compared.stderr}")


def check_store(store: Store, findings: Findings) -> None:
    """No temporary is left after the recovery, and the database is sound."""
    for pattern in ("*.part", "*.reserve", "*.tmp", "part-*"):
        for path in store.root.rglob(pattern):
            findings.add("temporaries left", str(path))
    with contextlib.closing(sqlite3.connect(store.database)) as connection:
        (answer,) = connection.execute("PRAGMA integrity_check").fetchone()
    if answer != "ok":
        findings.add("runs unreadable", f"the database: {answer}")


def read_database(store: Store) -> dict[str, list[tuple[str, set[int]]]]:
    """Returns status and epochs of MLflow's runs by tfbench's ids."""
    found: dict[str, list[tuple[str, set[int]]]] = {}
    with contextlib.closing(sqlite3.connect(store.database)) as connection:
        runs = connection.execute(
            "SELECT value, run_uuid, status FROM runs JOIN tags USING (run_uuid) WHERE key = 'tfbench.run_id'"
        ).fetchall()
        for run_id, mlflow_id, status in runs:
            rows = connection.execute("SELECT step FROM metrics WHERE run_uuid = ? AND key = 'loss'", [mlflow_id])
            found.setdefault(run_id, []).append((status, {step for (step,) in rows}))
    return found


def invoke(tfbench: Invoke, findings: Findings, *arguments: str) -> Any:
    """Runs a command in this process; None: it ended in a traceback."""
    try:
        done = tfbench(*arguments)
    except Exception as error:
        findings.add("tracebacks", f"{' '.join(arguments)}: {type(error).__name__}: {error}")
        return None
    findings.check_output(" ".join(arguments), done.stderr)
    return done
