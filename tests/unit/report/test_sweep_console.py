"""What a sweep shows while it lasts, on a terminal and elsewhere."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from builders import build_progress, build_request, build_result
from screens import Screen
from sweeps import build_plan
from tfbench.records.run import RunExit, Summary, TrackedRun
from tfbench.records.sweep import PlannedRun, PlannedRunResult, list_planned_runs
from tfbench.report.run.series_console import SweepConsole
from tfbench.runs.run import Run

TRACKED = TrackedRun(tracking_uri="sqlite:///mlflow.db", experiment_id="1", run_id="a" * 32)

pytestmark = pytest.mark.usefixtures("plain_terminal")


def cell_of(number: int) -> PlannedRun:
    return list_planned_runs(build_plan())[number]


def ended(planned: PlannedRun, outcome: Any = "FINISHED", reason: str = "") -> PlannedRunResult:
    return PlannedRunResult(number=planned.number, outcome=outcome, reason=reason)


def finish(
    console: SweepConsole, status: Any = "FINISHED", reason: str = "", tracked: Any = TRACKED
) -> None:
    result = build_result(
        request=build_request(run_id="b" * 12), exit=RunExit(status=status, reason=reason)
    )
    summary = Summary(metrics={"samples_per_second": 5312.0})
    console.finish(Run(result=result, summary=summary, tracked=tracked, journal=Path("run.jsonl")))


def test_a_terminal_shows_the_progress_of_the_run_under_way_and_each_warning_once() -> None:
    screen = Screen()
    console = SweepConsole(
        build_plan(), console=Console(file=screen, width=100, force_terminal=True)
    )
    for number in (0, 1):
        console.begin(cell_of(number), number, 83.0)
        console.stage("loading data")
        console.ready(build_result())
        console.warning("the governor is powersave")
        console.progress(build_progress(steps_per_second=64.24))
        assert (
            "64.2 steps/s" in screen.last_drawing()[-1]
            and f"[{number + 1}/8, 1:23 left]" in screen.last_drawing()[-1]
        )
        assert max(map(len, screen.last_drawing())) <= 100
        finish(console, tracked=None if number else TRACKED)
    console.close()
    console.close()
    shown = " ".join(screen.getvalue().split())
    assert shown.count("warning: the governor is powersave") == 1
    assert (
        "cpu:0,cpu:1: 5,312 samples/s; not in MLflow;" in shown
        and "`tfbench recover` brings it there (" in shown
    )


@pytest.mark.parametrize(("terminal", "quiet"), [("dumb", False), ("xterm", True)])
def test_each_run_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: str, quiet: bool
) -> None:
    monkeypatch.setenv("TERM", terminal)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    console = SweepConsole(build_plan(), quiet_stdout=quiet)
    console.begin(cell_of(1), 1, 83.0)
    finish(console)
    console.end(cell_of(1), ended(cell_of(1)), Summary(metrics={}))
    console.end(cell_of(2), ended(cell_of(2), "SKIPPED", "not tried: round 1 was KILLED"), None)
    console.close()
    out, err = capsys.readouterr()
    text = err if quiet else out
    assert text.splitlines() == [
        "[2/8, 1:23 left] batch=32, mirrored cpu:0,cpu:1: 5,312 samples/s (bbbbbbbbbbbb)",
        "batch=64, mirrored cpu:0,cpu:1, round 1: SKIPPED: not tried: round 1 was KILLED",
    ]
    assert (out if quiet else err) == ""
