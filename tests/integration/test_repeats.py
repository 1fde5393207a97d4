from pathlib import Path

import pytest

from runs import NO_CHECKS, run, tracked_runs
from tfbench.store.briefs import read_briefs
from tfbench.store.noise_floors import list_noise_floors
from tfbench.store.store import Store

pytestmark = pytest.mark.slow


def test_repeats_are_runs_of_their_own_in_one_group(tmp_path: Path) -> None:
    done = run("run", "sine_lstm", "--steps", "2", "--repeats", "2", *NO_CHECKS, "--format", "json", cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    document = done.document
    runs = document["runs"]
    assert [one["name"].rpartition("-")[2] for one in runs] == ["r1", "r2"]
    assert len({one["run_id"] for one in runs}) == 2
    speeds = document["repeats"]["metrics"]["samples_per_second"]
    assert speeds["values"] == [one["summary"]["samples_per_second"] for one in runs]
    assert speeds["low"] < speeds["center"] < speeds["high"]
    tracked = tracked_runs(tmp_path / "mlruns")
    assert [one.data.tags["tfbench.repeat"] for one in tracked] == ["1", "2"]
    assert {one.data.tags["tfbench.group"] for one in tracked} == {document["group"]}
    assert [one.info.run_name for one in tracked] == [one["name"] for one in runs]
    assert len(list((tmp_path / "mlruns" / "journals").glob("*.jsonl"))) == 2


def test_a_calibration_leaves_its_runs_and_a_floor(tmp_path: Path) -> None:
    arguments = ("--rounds", "3", "--steps", "2", "--no-mlflow", *NO_CHECKS)
    done = run("calibrate", "sine_lstm", *arguments, cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.count(" samples/s") == 6
    heading = "Noise floor of sine_lstm: default on cpu:0, batch 10; 3 rounds of two runs of 2 steps"
    assert heading in " ".join(done.stdout.split())
    store = Store(tmp_path / "mlruns")
    (floor,) = list_noise_floors(store)
    briefs = sorted(read_briefs(store, store.run_ids()).found, key=lambda brief: brief.created)
    assert {brief.tags["tfbench.group"] for brief in briefs} == {floor.group}
    speeds = {brief.tags["tfbench.arm"] + brief.tags["tfbench.round"]: brief.speed for brief in briefs}
    assert list(speeds) == ["a1", "b1", "b2", "a2", "a3", "b3"]
    assert floor.first == pytest.approx([speeds[f"a{number}"] for number in (1, 2, 3)])
    assert floor.second == pytest.approx([speeds[f"b{number}"] for number in (1, 2, 3)])
