"""The parent's looks at the machine.

When they begin and end, what is written, and that nothing is lost by them.
"""

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import build_placement, build_result, build_settings
from fake_power import Card, Clock, FakeNvml, install_nvml
from runs import wait_until
from tfbench.machine.energy_counters import EnergyMeter
from tfbench.machine.energy_readings import MachineState
from tfbench.runs import process
from tfbench.runs.process import MachineWatch, pause_seconds
from tfbench.store import json_lines as record_lines
from tfbench.store.journal import (
    RESERVE_BYTES,
    Journal,
    plain_fields,
    read_records,
    replay,
    request_fields,
)
from tfbench.store.json_lines import Record

Start = Callable[[], MachineWatch]
GPU = "0000:86:00.0"
STARTED = {"kind": "started", "time": 2.0}
TRAINED = {"kind": "trained", "time": 3.0}


def ready(**placement: Any) -> Record:
    """Returns the record that says where a run is placed.

    On the second GPU, from which the others are hidden.
    """
    result = build_result(
        placement=build_placement(**{"devices": ("gpu:1",)} | placement),
        settings=build_settings(gpu_addresses=(GPU,)),
    )
    names = ("placement", "settings", "environment", "dataset", "model")
    fields = plain_fields(**{name: getattr(result, name) for name in names})
    return {"kind": "ready", "time": 1.0, "steps_per_epoch": 20, **fields}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path / f"{'a' * 32}.jsonl")
    journal.append("request", **request_fields(build_result().request))
    return journal


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has it look often, and wait for its thread however slow the machine is."""
    monkeypatch.setattr(process, "FIRST_SECONDS", 0.001)
    monkeypatch.setattr(process, "_PATIENCE_SECONDS", 300.0)


@pytest.fixture
def start(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Returns what begins the watch over a training on the second GPU of a machine."""
    install_nvml(monkeypatch, FakeNvml(Clock(), Card("0000:3b:00.0"), Card(GPU, clock_mhz=1200)))

    def start() -> MachineWatch:
        watch = MachineWatch(journal.path)
        watch.take_in(ready())
        watch.take_in(STARTED)
        return watch

    return start


def count_looks(path: Path) -> int:
    return sum(record["kind"] == "machine" for record in read_records(path))


def test_it_looks_at_the_gpus_in_use_from_the_start_of_the_training_to_its_end(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = install_nvml(
        monkeypatch, FakeNvml(Clock(), Card("0000:3b:00.0"), Card(GPU, clock_mhz=1200))
    )
    watch = MachineWatch(journal.path)
    watch.take_in(ready())
    assert (driver.open, count_looks(journal.path)) == (1, 0)
    watch.take_in(STARTED)
    for number in range(300):  # what the worker writes meanwhile
        journal.append("note", text=f"{number} " + "x" * 500)
    wait_until(lambda: count_looks(journal.path) >= 3, "3 looks")
    watch.take_in(TRAINED)
    number = count_looks(journal.path)
    assert driver.open == 0
    journal.append("exit", status="FINISHED", reason="", worker_seconds=1.0)
    journal.close()
    result = replay(read_records(journal.path))
    assert (result.status, result.num_unreadable_lines) == ("FINISHED", 0)
    assert [int(note.split()[0]) for note in result.notes] == list(range(300))
    assert len(result.machine_states) == number
    assert {name for state in result.machine_states for name in state.gpus} == {GPU}
    assert result.machine_states[0].gpus[GPU].clock_mhz == 1200


@pytest.mark.parametrize(
    ("owner", "what", "fault"),
    [
        (record_lines, "append", OSError(errno.ENOSPC, "No space left on device")),
        (EnergyMeter, "look", ValueError("2**63 is no temperature")),
    ],
)
def test_a_full_disk_or_an_odd_answer_ends_the_looks_and_leaves_the_reserve_for_what_was_measured(
    journal: Journal,
    monkeypatch: pytest.MonkeyPatch,
    start: Start,
    owner: Any,
    what: str,
    fault: Exception,
) -> None:
    journal.reserve()
    tried = []

    def fail(*_: Any) -> None:
        tried.append(True)
        raise fault

    monkeypatch.setattr(owner, what, fail)
    watch = start()
    watch._thread.join(60)
    watch.close()
    assert (len(tried), count_looks(journal.path)) == (1, 0)
    assert journal.path.with_suffix(".reserve").stat().st_size == RESERVE_BYTES


def test_a_driver_that_does_not_answer_keeps_nobody_waiting_and_writes_nothing_late(
    journal: Journal, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_PATIENCE_SECONDS", 0.01)
    asked = threading.Event()
    answers = threading.Event()
    look = EnergyMeter.look

    def wait_and_look(meter: EnergyMeter) -> MachineState:
        asked.set()
        assert answers.wait(60)
        return look(meter)

    monkeypatch.setattr(EnergyMeter, "look", wait_and_look)
    watch = start()
    thread = watch._thread
    assert asked.wait(60)
    watch.close()
    answers.set()
    thread.join(60)
    assert not thread.is_alive()
    assert count_looks(journal.path) == 0


def test_looks_become_rarer_the_longer_a_training_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "FIRST_SECONDS", 1.0)
    assert [pause_seconds(elapsed) for elapsed in (0, 60, 600, 3600, 86400)] == [
        1.0,
        1.0,
        1.0,
        6.0,
        30.0,
    ]
