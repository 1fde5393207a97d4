from pathlib import Path

import pytest

from runs import NO_CHECKS, run
from tfbench.store.briefs import read_briefs
from tfbench.store.noise_floors import list_noise_floors
from tfbench.store.store import Store

pytestmark = pytest.mark.slow


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
