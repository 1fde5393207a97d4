"""What a sweep shows while it lasts, on a terminal and elsewhere."""

import threading
from typing import Any

import pytest
from rich.console import Console

from builders import build_progress, build_request, build_result
from screens import Clock, Screen
from sweeps import build_plan
from tfbench.records.run import RunExit, Summary, TrackedRun
from tfbench.records.sweep import Arm, Cell, CellResult, Variation, list_cells
from tfbench.report.sweep.console import LiveSweepConsole, SweepConsole, open_sweep_console
from tfbench.report.sweep.table import SweepTable

TRACKED = TrackedRun(tracking_uri="sqlite:///mlflow.db", experiment_id="1", run_id="a" * 32)
SIZES = Variation(key="model.hidden_units", values=([8], [16, 16]))
MANY = Variation(key="training.global_batch_size", values=tuple(range(10, 30)))


pytestmark = pytest.mark.usefixtures("plain_terminal")


def cell_of(number: int, **fields: Any) -> Cell:
    return list_cells(build_plan(**fields))[number]


def make_live(screen: Screen, *, height: int = 24, **fields: Any) -> tuple[LiveSweepConsole, Clock]:
    clock, terminal = Clock(), Console(file=screen, width=100, height=height, force_terminal=True)
    return LiveSweepConsole(build_plan(**fields), console=terminal, now=clock), clock


def progress(console: SweepConsole, steps_per_second: float) -> None:
    console.progress(build_progress(steps_per_second=steps_per_second))


def ended(cell: Cell, outcome: Any = "FINISHED", reason: str = "") -> CellResult:
    return CellResult(cell=cell.number, outcome=outcome, reason=reason)


def finish(console: SweepConsole, status: Any = "FINISHED", reason: str = "", tracked: Any = TRACKED) -> None:
    result = build_result(request=build_request(run_id="b" * 12), exit=RunExit(status=status, reason=reason))
    console.finish(result, Summary(metrics={"samples_per_second": 5312.0}), tracked, "")


def test_the_table_has_a_row_a_setting_and_a_column_an_arm() -> None:
    plan = build_plan(variations=(SIZES, build_plan().variations[0]))
    table = SweepTable(plan)
    table.end(Cell(0, 0, 0, 1), "FINISHED", "", 5000.0)
    table.end(Cell(0, 0, 0, 2), "FINISHED", "", 5624.0)
    table.end(Cell(0, 0, 1, 1), "FINISHED", "", 99.94)
    table.end(Cell(0, 2, 0, 1), "KILLED", "timed out: it took longer than 1 s", None)
    table.end(Cell(0, 2, 1, 1), "KILLED", "the worker was killed by SIGKILL", None)
    table.end(Cell(0, 3, 1, 1), "FINISHED", "", None)
    table.begin(Cell(0, 0, 1, 2))
    assert table.lines(100, 24) == [
        "hidden_units  global_batch_size  default cpu:0  mirrored cpu:0,cpu:1",
        "[8]           32                   5,303 (2/2)         > 99.94 (1/2)",
        "[8]           64                             -                     -",
        "[16,16]       32                     timed out                killed",
        "[16,16]       64                             -              no speed",
    ]
    table.begin(Cell(0, 1, 0, 1))
    assert table.lines(100, 24)[2].split()[2:] == [">", "running", "-"]


def test_a_point_that_failed_in_a_later_round_stands_as_what_it_is() -> None:
    table = SweepTable(build_plan())
    table.end(Cell(0, 0, 0, 1), "FINISHED", "", 5000.0)
    table.end(Cell(0, 0, 0, 2), "KILLED", "out of memory: it took 900 MiB", None)
    assert table.lines(100, 24)[1].split()[1:] == ["out", "of", "memory", "-"]


@pytest.mark.parametrize(
    ("running", "height", "expected"),
    [
        (0, 6, ["10", "11", "12", "13", "... 16 more"]),
        (10, 6, ["... 9 more", "19", "20", "21", "... 8 more"]),
        (19, 6, ["... 16 more", "26", "27", "28", "29"]),
        (5, 2, ["... 5 more", "15", "... 14 more"]),
        (5, 21, [str(value) for value in range(10, 30)]),
    ],
)
def test_rows_beyond_the_height_are_counted(running: int, height: int, expected: list[str]) -> None:
    table = SweepTable(build_plan(variations=(MANY,)))
    table.begin(Cell(0, running, 0, 1))
    lines = [line if "more" in line else line.split()[0] for line in table.lines(100, height)[1:]]
    assert lines == expected


def test_columns_beyond_the_width_are_left_out_around_the_run_under_way() -> None:
    arms = tuple(Arm(strategy="one_device", devices=(f"gpu:{number}",)) for number in range(8))
    table = SweepTable(build_plan(arms=arms))
    table.begin(Cell(0, 0, 4, 1))
    header, row, _ = table.lines(70, 24)
    assert header == "global_batch_size  ...  one_device gpu:4  one_device gpu:5  ..."
    assert row == "32                 ...         > running                 -  ..."
    assert all(len(line) <= 30 for line in table.lines(30, 24))


def test_a_sweep_of_one_setting_has_arms_only() -> None:
    table = SweepTable(build_plan(variations=()))
    table.begin(Cell(0, 0, 1, 1))
    assert table.lines(80, 24) == [
        "  default cpu:0  mirrored cpu:0,cpu:1".strip(),
        "            -             > running",
    ]


def test_a_terminal_shows_the_table_and_what_is_being_done() -> None:
    screen = Screen()
    live, clock = make_live(screen)
    live.begin(cell_of(0), 0, 83.0)
    live.stage("loading data")
    clock.time += 3
    progress(live, 64.24)
    assert screen.last_drawing() == [
        "global_batch_size  default cpu:0  mirrored cpu:0,cpu:1",
        "32                     > running                     -",
        "64                             -                     -",
        "",
        "samples/s, geometric mean of the rounds done (of all); > under way",
        "run 1 of 8, about 1:20 left: training, 64.2 steps/s",
    ]
    live.stop()
    live.stop()
    assert screen.getvalue().count("\x1b[?25h") == 1  # the cursor is back


def test_progress_is_drawn_twice_a_second_at_most_and_by_no_thread() -> None:
    screen = Screen()
    live, clock = make_live(screen)
    threads = threading.active_count()
    live.begin(cell_of(0), 0, 83.0)
    for _ in range(100):
        clock.time += 0.01
        progress(live, 50.0)
    assert screen.getvalue().count("run 1 of 8") == 3  # as it began, and after half a second and another
    assert threading.active_count() == threads
    live.stop()


def test_how_long_a_start_takes_is_drawn_until_the_training_begins() -> None:
    screen = Screen()
    live, clock = make_live(screen)
    threads = threading.active_count()
    live.begin(cell_of(0), 0, 83.0)
    live.stage("starting TensorFlow")
    assert threading.active_count() == threads + 1
    clock.time += 12
    live.tick()
    assert screen.last_drawing()[-1] == "run 1 of 8, about 1:11 left: starting TensorFlow, 12 s"
    live.stage("comparing a first step of 2 replicas with that of one, on every device that there is")
    clock.time += 2
    live.tick()
    last = screen.last_drawing()[-1]
    assert last.endswith("..., 2 s") and len(last) == 99  # what does not fit is cut, not the time
    progress(live, 50.0)
    assert threading.active_count() == threads
    clock.time += 100
    progress(live, 50.0)
    assert screen.last_drawing()[-1] == "run 1 of 8, longer than guessed: training, 50.0 steps/s"
    live.stop()


def test_a_sweep_that_is_stopped_while_it_starts_leaves_no_thread_behind() -> None:
    threads = threading.active_count()
    live, _ = make_live(Screen())
    live.begin(cell_of(0), 0, 83.0)
    live.stop()
    assert threading.active_count() == threads


def test_what_a_cell_has_no_room_for_is_said_above_the_table() -> None:
    screen = Screen()
    live, _ = make_live(screen)
    live.begin(cell_of(0), 0, 83.0)
    finish(live)
    live.end(cell_of(0), ended(cell_of(0)), Summary(metrics={"samples_per_second": 5312.0}))
    live.close()  # of the run, not of the table
    live.begin(cell_of(1), 1, 70.0)
    assert "5,312 (1/2)" in screen.last_drawing()[1]
    assert "global_batch_size=32, default cpu:0, round 1" not in screen.getvalue()
    finish(live, "KILLED", "timed out: it took longer than the 1 s that --run-timeout allows")
    assert "mirrored cpu:0,cpu:1, round 1: KILLED: timed out: it took longer than the 1 s" in screen.getvalue()
    live.begin(cell_of(2), 2, 60.0)
    finish(live, tracked=None)
    assert "round 1: 5,312 samples/s; not in MLflow;" in screen.getvalue()
    assert "`tfbench recover` brings it there (" in screen.getvalue()  # on a line of its own
    live.end(cell_of(3), ended(cell_of(3), "REFUSED", "there is no gpu:7"), None)
    assert "round 1: REFUSED: there is no gpu:7" in screen.getvalue()
    live.end(cell_of(4), ended(cell_of(4), "SKIPPED", "not tried: round 1 was REFUSED"), None)
    assert "not tried" not in screen.getvalue()
    live.stop()


def test_a_warning_is_given_once_in_a_sweep() -> None:
    screen = Screen()
    live, _ = make_live(screen)
    live.begin(cell_of(0), 0, 1.0)
    live.caution("the governor is powersave")
    live.begin(cell_of(1), 1, 1.0)
    live.caution("the governor is powersave")
    assert screen.getvalue().count("warning: the governor is powersave") == 1
    live.stop()


def test_a_sweep_that_goes_on_shows_what_was_measured_before() -> None:
    screen = Screen()
    live, _ = make_live(screen)
    live.recall(cell_of(0), ended(cell_of(0)), 5312.0)
    live.begin(cell_of(1), 1, 70.0)
    assert screen.last_drawing()[1].split()[1:] == ["5,312", "(1/2)", ">", "running"]
    live.stop()


def test_the_table_is_drawn_anew_when_the_terminal_changes_its_size() -> None:
    screen = Screen()
    live, _ = make_live(screen, variations=(MANY,))
    live.begin(cell_of(0, variations=(MANY,)), 0, 70.0)
    live._console.height = 10
    live.stage("loading data")
    drawn = screen.getvalue().split("\x1b[2J")[1]  # the screen was emptied
    assert "... 16 more" in drawn
    live.stop()


@pytest.mark.parametrize(("terminal", "quiet"), [("dumb", False), ("xterm", True)])
def test_lines_where_no_table_can_be_drawn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: str, quiet: bool
) -> None:
    monkeypatch.setenv("TERM", terminal)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    console = open_sweep_console(build_plan(), quiet_stdout=quiet)
    assert not isinstance(console, LiveSweepConsole)
    console.recall(cell_of(0), ended(cell_of(0)), 5312.0)
    console.begin(cell_of(1), 1, 83.0)
    finish(console)
    console.end(cell_of(1), ended(cell_of(1)), Summary(metrics={}))
    console.end(cell_of(2), ended(cell_of(2), "SKIPPED", "not tried: round 1 was KILLED"), None)
    console.stop()
    out, err = capsys.readouterr()
    text = err if quiet else out
    assert text.splitlines() == [
        "[2/8, 1:23 left] global_batch_size=32, mirrored cpu:0,cpu:1, round 1: 5,312 samples/s (bbbbbbbbbbbb)",
        "global_batch_size=64, mirrored cpu:0,cpu:1, round 1: SKIPPED: not tried: round 1 was KILLED",
    ]
    assert (out if quiet else err) == ""
