"""What a sweep on several machines shows while it lasts: which machine does what, and what was lost."""

import io
from typing import Any

import pytest
from rich.console import Console

from screens import Clock, Screen
from sweeps import build_plan
from tfbench.records.sweep import CellResult, list_cells
from tfbench.records.tasks import list_tasks
from tfbench.report.sweep.machines import loss_lines, machine_lines
from tfbench.report.sweep.machines_console import LiveMachinesConsole, MachinesConsole, open_machines_console

PLAN = build_plan()
CELLS = list_cells(PLAN)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def result_of(cell: int, machine: str, **fields: Any) -> CellResult:
    return CellResult(**{"cell": cell, "outcome": "FINISHED", "run_id": "b" * 12, "machine": machine} | fields)


def test_the_table_has_a_line_for_what_each_machine_does() -> None:
    screen, clock = Screen(), Clock()
    console = LiveMachinesConsole(
        PLAN, console=Console(file=screen, width=100, height=24, force_terminal=True), now=clock
    )
    console.recall(CELLS[0], result_of(0, "one"), 5000.0)
    console.begun("one", CELLS[1])
    console.begun("two", CELLS[2])
    clock.time += 12
    console.tick(3)
    lines = screen.last_drawing()
    assert lines[1:3] == [
        "32                   5,000 (1/2)             > running",
        "64                             -             > running",
    ]
    assert lines[-4:] == [
        "samples/s, geometric mean of the rounds done (of all); > under way; 1 of 8 runs",
        "one: global_batch_size=32, mirrored cpu:0,cpu:1, round 1, 12 s",
        "two: global_batch_size=64, mirrored cpu:0,cpu:1, round 1, 12 s",
        "3 tasks without a machine yet",
    ]
    console.ended(CELLS[1], result_of(1, "one"), 7000.0)
    console.lost("two", list_tasks(PLAN)[1])
    console.tick(0)
    lines = screen.last_drawing()
    assert "7,000 (1/2)" in lines[1]
    assert lines[-1].endswith("2 of 8 runs")
    console.stop()


def test_what_a_lost_machine_made_is_taken_out_of_the_table() -> None:
    screen = Screen()
    console = LiveMachinesConsole(PLAN, console=Console(file=screen, width=100, height=24, force_terminal=True))
    console.ended(CELLS[0], result_of(0, "one"), 5000.0)
    console.lost("one", list_tasks(PLAN)[0])
    console.ended(CELLS[0], result_of(0, "two"), 6000.0)
    console.tick(0)
    assert "6,000 (1/2)" in screen.last_drawing()[1]
    console.ended(CELLS[1], result_of(1, "two", outcome="REFUSED", reason="no GPU", run_id=None), None)
    assert "two: global_batch_size=32, mirrored cpu:0,cpu:1, round 1: REFUSED: no GPU" in screen.getvalue()
    console.stop()


def test_elsewhere_a_line_tells_what_came_of_a_run_and_where() -> None:
    output = io.StringIO()
    console = MachinesConsole(PLAN, console=Console(file=output, width=120))
    console.recall(CELLS[0], result_of(0, "one"), 5000.0)
    console.begun("one", CELLS[1])
    console.tick(1)
    console.ended(CELLS[1], result_of(1, "one"), 7000.0)
    console.told("task 0 on machine x\x1b[31m: the machine was lost")
    assert output.getvalue().splitlines() == [
        f"[2/8] one: global_batch_size=32, mirrored cpu:0,cpu:1, round 1: 7,000 samples/s ({'b' * 12})",
        "task 0 on machine x\\u001b[31m: the machine was lost",
    ]
    assert not open_machines_console(PLAN, quiet_stdout=True).is_live


def test_machines_are_listed_with_what_they_made_and_rows_are_not_to_be_compared_across_them() -> None:
    assert machine_lines(PLAN, {0: result_of(0, "")}) == []
    of_one = {number: result_of(number, "one") for number in (0, 1, 4, 5)}
    assert machine_lines(PLAN, of_one) == ["Made on", "  one  4 runs of 1 setting"]
    lines = machine_lines(PLAN, of_one | {2: result_of(2, "second"), 3: result_of(3, "")})
    assert lines[1:4] == [
        "  one           4 runs of 1 setting",
        "  second        1 run of 1 setting",
        "  this machine  1 run of 1 setting",
    ]
    assert lines[4].startswith("  Settings were made on different machines: compare arms within a row")


def test_losses_are_listed_with_their_tasks() -> None:
    assert loss_lines([]) == []
    assert loss_lines([(3, "one", "its node died"), (4, "", "gone")])[1:] == [
        "  one, task 3: its node died",
        "  a machine, task 4: gone",
    ]
