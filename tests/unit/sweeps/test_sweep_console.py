"""What a sweep shows while it lasts, on a terminal and elsewhere."""

import dataclasses
import functools
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from builders import build_progress, build_request, build_result
from fake_runs import FakeMaker, FakeRuns
from screens import Screen
from sweeps import BATCH, BATCHES, TWO_SETUPS, build_brief, build_plan
from tfbench.comparisons.comparison import Comparison, compare
from tfbench.comparisons.comparison_text import comparison_table, live_table
from tfbench.runs.observer import SweepProgress
from tfbench.runs.record import RunExit, Summary, TrackedRun
from tfbench.runs.stored_run import Run
from tfbench.store.store import Store
from tfbench.sweeps import series_console
from tfbench.sweeps.execution import make_sweep, new_sweep
from tfbench.sweeps.plan import (
    PlannedRun,
    PlannedRunResult,
    Refinement,
    Setup,
    SweepPlan,
    Variation,
    add_values,
    list_planned_runs,
)
from tfbench.sweeps.series_console import SweepConsole, describe_left, describe_progress
from tfbench.tags import REPEATS_TAG

TRACKED = TrackedRun(tracking_uri="sqlite:///mlflow.db", experiment_id="1", run_id="a" * 32)
ADDING = build_plan(num_rounds=8, first_rounds=3)
FOUR_GPUS = Setup(strategy="mirrored", devices=("gpu:0", "gpu:1", "gpu:2", "gpu:3"))
LONG = Variation(key="model.hidden_units", values=([1000, 1000, 1000], [4000, 4000, 4000]))

pytestmark = pytest.mark.usefixtures("plain_terminal")


def run_of(number: int, plan: SweepPlan = ADDING) -> PlannedRun:
    return list_planned_runs(plan)[number]


def ended(planned: PlannedRun, outcome: Any = "FINISHED", reason: str = "") -> PlannedRunResult:
    return PlannedRunResult(number=planned.number, outcome=outcome, reason=reason)


def after(num_done: int, num_due: int, fewest: float, most: float) -> SweepProgress:
    return SweepProgress(num_done, num_due, (fewest, most))


def finish(
    console: SweepConsole, status: Any = "FINISHED", reason: str = "", tracked: Any = TRACKED
) -> None:
    result = build_result(
        request=build_request(run_id="b" * 12), exit=RunExit(status=status, reason=reason)
    )
    summary = Summary(metrics={"samples_per_second": 5312.0})
    console.finish(Run(result=result, summary=summary, tracked=tracked, journal=Path("run.jsonl")))


def in_terminal(plan: SweepPlan, screen: Screen, width: int = 80, height: int = 24) -> SweepConsole:
    console = Console(file=screen, width=width, height=height, force_terminal=True)
    return SweepConsole(plan, console=console, is_tracked=False)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that stands still; `seconds` is what it shows."""
    clock = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(series_console, "time", SimpleNamespace(monotonic=lambda: clock.seconds))
    return clock


def sweep_in_terminal(store: Store, plan: SweepPlan, width: int, height: int = 24) -> Screen:
    """Makes a sweep of runs that scatter so much that rounds are added, and one that fails."""
    scatter = itertools.cycle((100.0, 131.0, 88.0, 112.0, 95.0))
    runs = FakeRuns("FAILED", 1.0, samples_per_second=lambda number: next(scatter))
    screen = Screen()
    with in_terminal(plan, screen, width, height) as console:
        make_sweep(new_sweep(store, plan), FakeMaker(store, runs), console)
    return screen


def compared(
    speeds: Sequence[Sequence[float]],
    setups: Sequence[Setup] = TWO_SETUPS,
    batches: Sequence[int] = (32, 64),
    repeats: str = "3..20",
) -> Comparison:
    """Compares setups that have these speeds in their rounds, at all batch sizes."""
    briefs = []
    for batch, (setup, own) in itertools.product(batches, zip(setups, speeds, strict=True)):
        for number, speed in enumerate(own, start=1):
            brief = build_brief(speed, setup=setup, batch=batch, round_number=number)
            tags = brief.tags | {REPEATS_TAG: repeats}
            briefs.append(dataclasses.replace(brief, tags=tags))
    return compare(briefs, keys=[BATCH])


STEADY = (100.0, 101.0, 99.0)
TWICE = (200.0, 202.0, 199.0)
NOISY = (100.0, 160.0, 90.0)


def test_a_terminal_shows_the_table_the_run_under_way_and_the_time_left() -> None:
    screen = Screen()
    with in_terminal(ADDING, screen) as console:
        console.begin(run_of(1), after(1, 12, 40.0, 190.0))
        console.stage("loading data")
        assert screen.last_drawing() == [
            "Run 2/12: batch=32, mirrored cpu:0,cpu:1  loading data  0:40 to 3:10 left"
        ]
        console.compare(compared([STEADY, NOISY]), after(2, 12, 38.0, 188.0))
        console.begin(run_of(2), after(2, 12, 38.0, 188.0))
        console.progress(build_progress())
        assert screen.last_drawing() == [
            "batch    A      B              speed-up  rounds  decided",
            "   32  100  112.9  1.13x [0.49, 2.61] !       3  not yet",
            "   64  100  112.9  1.13x [0.49, 2.61] !       3  not yet",
            "A = default cpu:0 (baseline);  B = mirrored cpu:0,cpu:1",
            "Ratios [95 % CI], ! inconclusive. More: tfbench help results",
            "",
            "Run 3/12: batch=64, mirrored cpu:0,cpu:1  17 %  0:38 to 3:08 left",
        ]
        console.compare(compared([STEADY, TWICE]), after(12, 12, 0.0, 0.0))
        assert screen.last_drawing() == []


def test_the_time_left_goes_on_while_a_run_lasts(clock: SimpleNamespace) -> None:
    screen = Screen()
    with in_terminal(ADDING, screen) as console:
        console.begin(run_of(0), after(0, 12, 40.0, 190.0))
        clock.seconds += 30.0
        console.progress(build_progress())
        assert screen.last_drawing()[-1].endswith("  17 %  0:10 to 2:40 left")
        clock.seconds += 1000.0
        console.progress(build_progress())
        assert screen.last_drawing()[-1].endswith("  17 %")


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"setups": (*TWO_SETUPS, FOUR_GPUS), "variations": (LONG, BATCHES)},
        {"variations": (), "first_rounds": None},
        {"time_budget_seconds": 1e6},
    ],
)
def test_nothing_is_wider_than_the_terminal_and_nothing_is_left_in_the_end(
    store: Store, width: int, fields: dict[str, Any]
) -> None:
    plan = build_plan(**{"num_rounds": 6, "first_rounds": 2} | fields)
    screen = sweep_in_terminal(store, plan, width)
    lines = list(itertools.chain(*screen.drawings()))
    assert max(map(len, lines)) <= width
    assert any(line.endswith(" left") for line in lines)
    assert screen.last_drawing() == []
    assert any("SKIPPED" in line for line in lines)
    # What is too long for a line takes several.
    assert not any(line.endswith("...") for line in lines)


def rows_of(drawing: Sequence[str]) -> list[str]:
    return [line for line in drawing if line.strip()[:1].isdecimal()]


@pytest.mark.parametrize(("num_settled", "num_shown"), [(0, 2), (9, 11), (200, 16)])
def test_each_configuration_has_a_row_and_a_tall_table_keeps_those_that_are_undecided(
    num_settled: int, num_shown: int
) -> None:
    settled = compared([STEADY, TWICE], batches=range(1, num_settled + 1))
    undecided = compared([STEADY, NOISY], batches=(1000, 1001))
    found = dataclasses.replace(undecided, rows=(*settled.rows, *undecided.rows))
    screen = Screen()
    with in_terminal(ADDING, screen) as console:
        console.begin(run_of(0), after(0, 12, 40.0, 190.0))
        console.compare(found, after(2, 12, 38.0, 188.0))
        drawing = screen.last_drawing()
    assert len(drawing) < 24
    batches = [int(row.split()[0]) for row in rows_of(drawing)]
    assert batches == [*range(1, num_shown - 1), 1000, 1001]
    note = f"Not shown: {num_settled + 2 - num_shown} rows, 0 undecided"
    assert (note in drawing) == (num_settled == 200)


@pytest.mark.parametrize(
    ("speeds", "repeats", "rounds", "decided"),
    [
        ((STEADY[:1], TWICE[:1]), "3..20", "1", "not yet"),
        ((STEADY, TWICE), "3..20", "3", "yes"),
        ((STEADY, NOISY), "3..20", "3", "not yet"),
        ((STEADY, NOISY), "3..3", "3", "no"),
        ((STEADY, (*TWICE, 200.0), NOISY), "3..20", "3 to 4", "1 of 3"),
    ],
)
def test_a_row_says_how_many_rounds_it_has_and_whether_it_is_decided(
    speeds: Any, repeats: str, rounds: str, decided: str
) -> None:
    setups = (*TWO_SETUPS, FOUR_GPUS)[: len(speeds)]
    row = live_table(compared(speeds, setups, (32,), repeats)).rows[0]
    assert (row["rounds"], row["decided"]) == (rounds, decided)


def test_the_table_has_rounds_in_the_end_and_one_of_other_runs_has_none() -> None:
    final = comparison_table(compared([STEADY, TWICE]))
    assert [column.title for column in final.columns][-2:] == ["speed-up", "rounds"]
    other = comparison_table(compared([STEADY, TWICE], repeats=""))
    assert [column.title for column in other.columns] == [
        *["batch", "parameters", "default cpu:0", "mirrored cpu:0,cpu:1", "speed-up"]
    ]


def printed(capsys: pytest.CaptureFixture[str], *, is_quiet: bool) -> list[str]:
    """Returns what a console printed where there is no terminal, without colours."""
    out, err = capsys.readouterr()
    text, other = (err, out) if is_quiet else (out, err)
    assert other == ""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()


def end_runs(console: SweepConsole, planned_runs: Sequence[PlannedRun]) -> None:
    for planned in planned_runs:
        console.end(planned, ended(planned), Summary(metrics={}))


@pytest.mark.parametrize(("terminal", "quiet"), [("dumb", False), ("xterm", True)])
def test_elsewhere_each_round_is_a_line_and_so_is_what_went_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: str, quiet: bool
) -> None:
    monkeypatch.setenv("TERM", terminal)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    lines = functools.partial(printed, capsys, is_quiet=quiet)
    with SweepConsole(ADDING, quiet_stdout=quiet) as console:
        for number in range(4):
            console.begin(run_of(number), after(number, 12, 40.0, 190.0))
            console.stage("loading data")
            console.warning("the governor is powersave")
            finish(console)
            console.close()
            end_runs(console, [run_of(number)])
        console.compare(compared([STEADY[:1], TWICE[:1]]), after(4, 12, 14.0, 231.0))
        assert lines() == [
            "warning: the governor is powersave",
            "Round 1: 0 of 2 comparisons decided; 8 runs next, 0:14 to 3:51 left",
        ]
        console.begin(run_of(4), after(4, 12, 14.0, 231.0))
        finish(console, tracked=None)
        finish(console, "KILLED", "out of memory")
        console.end(run_of(4), ended(run_of(4), "KILLED"), Summary(metrics={}))
        console.end(run_of(5), ended(run_of(5), "SKIPPED", "not tried: round 1 was KILLED"), None)
        untracked, killed, skipped = lines()
        name = "batch=32, mirrored cpu:0,cpu:1, round 2"
        assert untracked.startswith(f"{name}: 5,312 samples/s; not in MLflow; `tfbench recover")
        assert killed == f"{name}: KILLED: out of memory (bbbbbbbbbbbb)"
        assert skipped == (
            "batch=32, default cpu:0, round 2: SKIPPED: not tried: round 1 was KILLED"
        )
        console.compare(compared([STEADY, TWICE]), after(12, 12, 0.0, 0.0))
        assert lines() == ["Round 2 (1 of 2 configurations): 2 of 2 comparisons decided"]


@pytest.mark.parametrize(
    ("fields", "progress", "line"),
    [
        ({}, after(4, 8, 14.0, 14.0), "Round 1 of 2: 4 runs next, 0:14 left"),
        ({}, after(4, 8, 0.1, 0.1), "Round 1 of 2: 4 runs next"),
        ({}, after(8, 8, 0.0, 0.0), "Round 1 of 2: 2 of 2 comparisons decided"),
        (  # one setup is compared with none
            {"first_rounds": 2, "num_rounds": 9, "setups": TWO_SETUPS[:1]},
            after(2, 4, 14.0, 14.0),
            "Round 1 of 2: 2 runs next, 0:14 left",
        ),
        (  # the time budget is used up
            {"first_rounds": 2},
            after(4, 8, 0.0, 0.0),
            "Round 1: 2 of 2 comparisons decided",
        ),
    ],
)
def test_the_line_of_a_round(
    capsys: pytest.CaptureFixture[str], fields: dict[str, Any], progress: SweepProgress, line: str
) -> None:
    plan = build_plan(**fields)
    with SweepConsole(plan, is_tracked=False) as console:
        end_runs(console, list_planned_runs(plan)[: 2 * len(plan.setups)])
        console.compare(compared([STEADY, TWICE][: len(plan.setups)], plan.setups), progress)
    assert capsys.readouterr().out.splitlines() == [line]


def test_values_that_are_added_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    plan = dataclasses.replace(ADDING, refinement=Refinement(num_first=2, most=5))
    longer = add_values(plan, [48, 56])
    num_before = len(list_planned_runs(plan))
    planned_runs = list_planned_runs(longer)
    found = compared([STEADY, TWICE])
    with SweepConsole(plan, is_tracked=False) as console:
        end_runs(console, planned_runs[8:12])  # the third round
        console.extend(longer)
        console.compare(found, after(12, 24, 14.0, 14.0))
        end_runs(console, planned_runs[num_before : num_before + 2])
        console.compare(found, after(14, 24, 12.0, 12.0))
    assert capsys.readouterr().out.splitlines() == [
        "Round 3: 2 of 2 comparisons decided; batch 48, 56 added; 12 runs next, 0:14 left",
        "Round 1 (1 of 2 configurations): 2 of 2 comparisons decided; 10 runs next, 0:12 left",
    ]


def test_each_run_of_a_task_is_a_line_and_after_the_last_no_time_is_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = build_plan()
    with SweepConsole(plan, is_task=True, is_tracked=False) as console:
        for number in (6, 7):
            console.begin(run_of(number, plan), after(number, 8, 83.0, 83.0))
            finish(console)
    assert capsys.readouterr().out.splitlines() == [
        "[7/8, 1:23 left] batch=64, default cpu:0: 5,312 samples/s (bbbbbbbbbbbb)",
        "[8/8] batch=64, mirrored cpu:0,cpu:1: 5,312 samples/s (bbbbbbbbbbbb)",
    ]


@pytest.mark.parametrize(
    ("fields", "limit_seconds", "text"),
    [
        ({}, None, "17 %"),
        ({"total_steps": 200}, None, "100 %"),
        ({"total_steps": None, "seconds_left": 8.0}, 10.0, "20 %"),
        ({"total_steps": None, "seconds_left": 12.0}, 10.0, "0 %"),
        ({"total_steps": None, "seconds_left": None}, None, "300 steps"),
    ],
)
def test_how_far_a_run_is(fields: dict[str, Any], limit_seconds: float | None, text: str) -> None:
    assert describe_progress(build_progress(**fields), limit_seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        ((40.0, 190.0), "0:40 to 3:10 left"),
        ((83.0, 83.2), "1:23 left"),
        ((0.0, 8.0), "0:00 to 0:08 left"),
        ((0.0, 0.4), ""),
    ],
)
def test_the_time_left_is_a_range_or_nothing(seconds: tuple[float, float], text: str) -> None:
    assert describe_left(seconds) == text
