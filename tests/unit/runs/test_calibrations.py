import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import build_environment, build_placement, build_recipe, build_request, build_result, build_usage
from fake_runs import FakeRuns, Fate
from journals import build_sized_result, write_journal
from tfbench.analysis.comparison.noise import NoiseFloor
from tfbench.analysis.run.checks import find_requested_cautions
from tfbench.errors import DeviceError, InterruptedRunError, MeasurementError, TrackingError
from tfbench.records.run import DatasetSummary, RunExit, RunRequest, Summary
from tfbench.report.comparison.noise import floor_table, noise_lines
from tfbench.report.run.brief_console import BriefConsole
from tfbench.runs import session
from tfbench.runs.calibration import calibrate
from tfbench.runs.limits import RunOutcome
from tfbench.store.noise_floors import find_noise_floor, list_noise_floors, save_noise_floor
from tfbench.store.store import Store

SPEEDS = (100.0, 102.0, 104.0, 101.0, 99.0, 100.0)  # a b, b a, a b


def make_floor(*fates: Fate, num_rounds: int = 3, **fields: Any) -> NoiseFloor:
    return calibrate(build_request(**fields), num_rounds=num_rounds, execute=FakeRuns(*fates)).floor


def test_the_arms_take_turns_at_being_first() -> None:
    runs = FakeRuns(*SPEEDS)
    recipe = build_recipe(measurement={"seconds": 5.0})
    done = calibrate(build_request(name="mine", recipe=recipe), num_rounds=3, execute=runs)
    assert [request.name for request in runs.requests] == [
        "mine-a1",
        "mine-b1",
        "mine-b2",
        "mine-a2",
        "mine-a3",
        "mine-b3",
    ]
    assert runs.labels[:3] == ["round 1 of 3, a", "round 1 of 3, b", "round 2 of 3, b"]
    assert runs.requests[2].tags == {
        "tfbench.group": done.floor.group,
        "tfbench.arm": "b",
        "tfbench.round": "2",
    }
    assert (done.floor.first, done.floor.second) == ((100.0, 101.0, 99.0), (102.0, 104.0, 100.0))
    assert (done.floor.key.length, done.floor.key.recipe) == (("seconds=5.0",), "test")


def test_a_round_of_which_a_run_failed_is_left_out() -> None:
    runs = FakeRuns(100.0, 102.0, "FAILED", 101.0, 99.0, 100.0, 98.0, 97.0)
    done = calibrate(build_request(), num_rounds=4, execute=runs)
    assert (done.floor.first, done.floor.second) == ((100.0, 99.0, 97.0), (102.0, 100.0, 98.0))
    assert done.series.num_failed == 1


def test_too_few_whole_rounds_make_no_floor_and_end_it_early() -> None:
    runs = FakeRuns(100.0, "FAILED", 100.0)
    with pytest.raises(MeasurementError, match=r"needs 3 rounds .* Received: 0; of 2 runs, 1 failed\. No floor"):
        calibrate(build_request(), num_rounds=3, execute=runs)
    assert len(runs.requests) == 2


def test_a_request_to_stop_makes_no_floor() -> None:
    with pytest.raises(InterruptedRunError, match=r"which takes 3 whole rounds and has 0. The runs are, as group "):
        make_floor(100.0, "STOPPED")
    with pytest.raises(DeviceError, match="gone"):
        make_floor(DeviceError("gone"))


def test_a_request_to_stop_keeps_the_rounds_that_are_whole() -> None:
    runs = FakeRuns(100.0, 102.0, 104.0, 101.0, 99.0, 100.0, 98.0, "STOPPED")  # in the second run of the fourth round
    done = calibrate(build_request(), num_rounds=6, execute=runs)
    assert (done.series.was_interrupted, done.floor.num_rounds) == (True, 3)
    assert (done.floor.first, done.floor.second) == ((100.0, 101.0, 99.0), (102.0, 104.0, 100.0))
    with pytest.raises(InterruptedRunError, match=r"interrupted after 6 of 12 runs; .* takes 3 whole rounds and has 2"):
        calibrate(build_request(), num_rounds=6, execute=FakeRuns(*[100.0] * 5, "STOPPED"))


def test_a_floor_is_found_for_its_machine_placement_and_workload_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "mlruns")
    assert list_noise_floors(store) == []
    result = build_result(dataset=None)
    assert find_noise_floor(store, result) is None
    floor = make_floor(*SPEEDS, recipe=result.request.recipe)
    path = save_noise_floor(store, floor)
    assert path == tmp_path / "mlruns" / "noise" / f"{floor.group}.json"
    assert find_noise_floor(store, result) == floor
    assert find_noise_floor(store, build_result(environment=build_environment(hostname="other"))) is None
    assert find_noise_floor(store, build_result(placement=build_placement(global_batch_size=64))) is None
    assert find_noise_floor(store, build_result(placement=None)) is None


def test_the_newest_floor_counts_and_a_damaged_file_does_not(tmp_path: Path) -> None:
    store = Store(tmp_path)
    result = build_result(dataset=None)
    floors = [make_floor(speed, recipe=result.request.recipe) for speed in (100.0, 200.0)]
    for floor in reversed(floors):
        save_noise_floor(store, floor)
    (tmp_path / "noise" / "torn.json").write_text('{"group": "torn", "cre', encoding="utf-8")
    (tmp_path / "noise" / "other.json").write_text('{"group": "other"}', encoding="utf-8")
    assert list_noise_floors(store) == floors[::-1]
    assert find_noise_floor(store, result) == floors[1]


def test_a_floor_that_cannot_be_written_leaves_nothing_half(tmp_path: Path) -> None:
    (tmp_path / "noise").write_text("a file", encoding="utf-8")
    with pytest.raises(TrackingError, match=r"noise/[0-9a-f]{12}\.json: cannot be written: "):
        save_noise_floor(Store(tmp_path), make_floor(100.0))


def test_what_a_floor_means_is_said() -> None:
    floor = make_floor(*SPEEDS, recipe=build_recipe(measurement={"seconds": 5.0}))
    lines = noise_lines(floor, 0, 80)
    assert lines == [
        "Noise floor of test: one_device on cpu:0, batch 32; 3 rounds of two runs of 5 s",
        f"  {100 * floor.unpaired_limit():5.1f} %  between two single runs",
        f"  {100 * floor.unpaired_limit(3):5.1f} %  between the means of 3 and 3 runs",
        f"  {100 * floor.paired_limit(3):5.1f} %  between two arms that take turns for 3 rounds",
        "  Both arms were the same, so all of it is noise: by this alone, speeds that",
        "  differ by less show no measurable difference (95 %). It counts beside the",
        "  runs' own scatter, for runs with the same settings, batch size, devices and",
        "  length. What differs from one hour or day to the next is not in it.",
    ]
    assert "Runs that failed: 2; their rounds are left out." in " ".join(noise_lines(floor, 2, 500))


def test_floors_stand_in_a_table() -> None:
    floor = make_floor(*SPEEDS)
    head, row = floor_table([floor], 120)
    assert head.split("  ")[0].strip() == "created, UTC"
    assert row.endswith(f"bench  {floor.group}")
    assert "test    one_device on cpu:0  32     3       " in row
    key = dataclasses.replace(floor.key, settings=(*floor.key.settings, "backend=jax"))
    assert "one_device on cpu:0 by JAX" in floor_table([dataclasses.replace(floor, key=key)], 120)[1]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, in_tmp_path: Path) -> Callable[..., FakeRuns]:
    """Lets `tfbench calibrate` make runs that end as they are told to."""

    def use(*fates: Fate) -> FakeRuns:
        runs = FakeRuns(*fates)
        monkeypatch.setattr(session, "execute_run", lambda request, *rest: runs(request))
        return runs

    return use


def test_calibrate_stores_a_floor_that_list_shows(tfbench: Callable[..., Any], fake: Callable[..., FakeRuns]) -> None:
    assert tfbench("calibrate", "--list").stdout.startswith("No noise floors in mlruns.")
    runs = fake(*SPEEDS)
    done = tfbench("calibrate", "sine_lstm", "--rounds", "3")
    assert done.exit_code == 0
    assert "Noise floor of sine_lstm: " in done.stdout
    assert f"\n\n  stored as mlruns/noise/{runs.requests[0].tags['tfbench.group']}.json\n" in done.stdout
    assert {request.recipe.measurement.seconds for request in runs.requests} == {5.0}
    listed = tfbench("calibrate", "--list")
    assert runs.requests[0].tags["tfbench.group"] in listed.stdout
    (floor,) = json.loads(tfbench("calibrate", "--list", "--format", "json").stdout)
    assert (floor["first"], floor["num_rounds"]) == ([100.0, 101.0, 99.0], 3)
    assert floor["limits"].keys() == {"single_runs", "means", "pairs"}


def test_ctrl_c_stores_a_floor_of_the_rounds_that_are_whole(
    tfbench: Callable[..., Any], fake: Callable[..., FakeRuns]
) -> None:
    runs = fake(*[100.0] * 6, "STOPPED")
    done = tfbench("calibrate", "sine_lstm", "--rounds", "6")
    assert done.exit_code == 130
    assert "Interrupted: the noise floor rests on 3 rounds, those done by then." in done.stdout
    assert f"stored as mlruns/noise/{runs.requests[0].tags['tfbench.group']}.json" in done.stdout


def test_damaged_floors_are_named_on_stderr(tfbench: Callable[..., Any], in_tmp_path: Path) -> None:
    store = Store(Path("mlruns"))
    for index in (0, 1):
        write_journal(store, build_sized_result(index))
    (in_tmp_path / "mlruns" / "noise").mkdir()
    for name, text in (("deep", "[" * 100_000), ("torn", "{")):
        (in_tmp_path / "mlruns" / "noise" / f"{name}.json").write_text(text, encoding="utf-8")
    said = "".join(
        f"Warning: mlruns/noise/{name}.json: is no noise floor of this version of tfbench, or damaged, and does not "
        "count. `tfbench calibrate RECIPE` measures it again.\n"
        for name in ("deep", "torn")
    )
    for arguments in (("calibrate", "--list"), ("compare", "--all"), ("diff", *store.run_ids())):
        done = tfbench(*arguments)
        assert (done.exit_code, done.stderr) == (0, said)
        assert "torn" not in done.stdout


def test_a_floor_that_cannot_be_stored_is_shown_all_the_same(
    tfbench: Callable[..., Any], fake: Callable[..., FakeRuns], in_tmp_path: Path
) -> None:
    fake(*SPEEDS)
    (in_tmp_path / "mlruns").mkdir()
    (in_tmp_path / "mlruns" / "noise").write_text("a file", encoding="utf-8")
    done = tfbench("calibrate", "sine_lstm", "--rounds", "3")
    assert done.exit_code == 2
    assert "Noise floor of sine_lstm: " in done.stdout and "stored as" not in done.stdout
    assert ".json: cannot be written: File exists." in done.stderr


def test_calibrate_gives_json(tfbench: Callable[..., Any], fake: Callable[..., FakeRuns]) -> None:
    runs = fake(100.0, 102.0, 104.0, 101.0, 99.0, 100.0, 98.0, "FAILED")
    done = tfbench("calibrate", "sine_lstm", "--rounds", "4", "--steps", "7", "--format", "json")
    assert done.exit_code == 1  # a run failed
    document = json.loads(done.stdout)
    assert document.keys() == {"format_version", "group", "noise_floor", "num_failed", "cautions", "runs"}
    assert (document["cautions"], document["noise_floor"]["confidence"]) == ([], 0.95)
    assert (document["num_failed"], len(document["runs"]), document["noise_floor"]["num_rounds"]) == (1, 8, 3)
    assert (runs.requests[0].recipe.measurement.steps, runs.requests[0].recipe.measurement.seconds) == (7, None)


@pytest.mark.parametrize(
    ("limits", "steps", "seconds"),
    [
        ((), None, 5.0),
        (("--seconds", "2"), None, 2.0),
        (("--set", "measurement.seconds=2"), None, 2.0),
        (("--set", "measurement.steps=7"), 7, None),
    ],
)
def test_a_calibrations_runs_are_as_long_as_asked_for(
    tfbench: Callable[..., Any],
    fake: Callable[..., FakeRuns],
    limits: tuple[str, ...],
    steps: int | None,
    seconds: float | None,
) -> None:
    runs = fake(*SPEEDS)
    assert tfbench("calibrate", "sine_lstm", "--rounds", "3", *limits).exit_code == 0
    measurement = runs.requests[0].recipe.measurement
    assert (measurement.steps, measurement.seconds) == (steps, seconds)


def test_what_disturbed_a_calibration_is_said(
    tfbench: Callable[..., Any], in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, busy_cores = FakeRuns(*SPEEDS), iter([0, 1, 2, 3, 0, 0])

    def execute(request: RunRequest, *rest: Any) -> RunOutcome:
        outcome = runs(request)
        usage = build_usage(busy_cpu_seconds=8.0 + 4 * next(busy_cores))
        result = dataclasses.replace(outcome.result, usage=usage, notes=("not alone",) * (len(runs.requests) == 2))
        return dataclasses.replace(outcome, result=result)

    monkeypatch.setattr(session, "execute_run", execute)
    done = tfbench("calibrate", "sine_lstm", "--rounds", "3", "--format", "json")
    assert "\nWarnings\n- in " in done.stderr and "- in 3 of 6 runs: other processes kept 1.0 of 8" in done.stderr
    noticed, load = sorted(json.loads(done.stdout)["cautions"])
    assert noticed == "in 1 of 6 runs: not alone"
    assert load.startswith("in 3 of 6 runs: other processes kept 1.0 of 8 ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sine_lstm", "--rounds", "2"], "--rounds: must be from 3 to 10000. Received: 2."),
        (["sine_lstm", "--seconds", "0"], "measurement.seconds"),
        (["sine_lstm", "--set", "model.unit=3"], "model.unit: unknown key."),
        ([], "Missing argument 'RECIPE'. `tfbench list` shows the recipes, --list the noise floors."),
        (["sine_lstm", "--list"], "--list shows what is stored, of all recipes: leave RECIPE out."),
        (["sine_lst"], "Did you mean 'sine_lstm'?"),
    ],
)
def test_an_impossible_calibration_is_refused(
    tfbench: Callable[..., Any], in_tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = tfbench("calibrate", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr and done.stderr.count("Error: ") == 1
    assert list(in_tmp_path.iterdir()) == []


JOURNAL = "mlruns/journals/a.jsonl"


def test_a_run_of_a_series_is_a_line_and_a_warning_is_given_once(capsys: pytest.CaptureFixture[str]) -> None:
    warned: set[str] = set()
    for label, status, cautions in (("round 1, a", "FINISHED", ()), ("round 1, b", "FAILED", ("x", "y"))):
        console = BriefConsole(label, warned, quiet_stdout=False)
        console.stage("loading data")
        console.caution("two replicas share the cores")
        result = build_result(exit=RunExit(status=status, reason="out of memory" if status == "FAILED" else ""))
        console.ready(result)
        console.epoch(result.epochs[0])
        console.finish(result, Summary(metrics={"samples_per_second": 1234.5}, cautions=cautions), None, JOURNAL)
    run_id = build_request().run_id
    asked_for = build_result(
        request=build_request(recipe=build_recipe(measurement={"steps": 20})),
        dataset=DatasetSummary(name="x", source="x", synthetic=True, train_samples=1, validation_samples=1),
    )
    cautions = find_requested_cautions(asked_for)
    assert [caution.partition(" ")[0] for caution in cautions] == ["synthetic", "limited"]
    for label, more in (("round 2, a", ()), ("round 2, b", ("x",))):
        summary = Summary(metrics={"samples_per_second": 1234.5}, cautions=(*cautions, *more))
        BriefConsole(label, warned, quiet_stdout=False).finish(asked_for, summary, None, JOURNAL)
    assert capsys.readouterr().out.splitlines() == [
        "warning: two replicas share the cores",
        f"round 1, a: 1,234 samples/s; not in MLflow; `tfbench recover` brings it there ({run_id})",
        f"round 1, b: FAILED: out of memory; not in MLflow; `tfbench recover` brings it there; 2 warnings ({run_id})",
        f"round 2, a: 1,234 samples/s; not in MLflow; `tfbench recover` brings it there ({run_id})",
        f"round 2, b: 1,234 samples/s; not in MLflow; `tfbench recover` brings it there; 1 warning ({run_id})",
    ]
