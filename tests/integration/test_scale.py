"""`tfbench scale` as a user calls it: measured, compared again, reported."""

import json
from pathlib import Path

import pytest

from runs import run, tracked_runs

pytestmark = pytest.mark.slow

SCALE = (
    *("scale", "mnist_hidden100_mlp", "--data", "synthetic", "--replicas", "1,2", "--devices", "cpu"),
    *("--weak", "--per-replica-batch-size", "32", "--repeats", "1", "--no-mlflow", "--set", "measurement.steps=5"),
)


def test_weak_scaling_is_measured_compared_and_reported(tmp_path: Path) -> None:
    done = run(*SCALE, "--format", "json", cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    scaling = json.loads(done.stdout)["scaling"]
    assert (scaling["kind"], scaling["batch_size"], scaling["shares_cores"]) == ("weak", 32, True)
    one, two = scaling["points"]
    assert (one["global_batch_size"], two["global_batch_size"]) == (32, 64)
    # 784 x 100 + 100 and 100 x 10 + 10 weights of 4 bytes
    assert (one["exchanged_bytes"], two["exchanged_bytes"]) == (0, 4 * 79_510)
    assert two["speedup"]["value"] == pytest.approx(two["samples_per_second"] / one["samples_per_second"])
    assert two["efficiency"] is None  # of replicas that share cores
    assert two["judgement"] == "not judged"
    assert two["input_share"] > 0
    assert tracked_runs(tmp_path / "mlruns") == []  # until somebody asks for it
    assert "tfbench recover" in done.stderr and "tfbench ui" not in done.stderr
    assert run("recover", cwd=tmp_path).exit_code == 0
    assert len(tracked_runs(tmp_path / "mlruns")) == 2
    again = run("compare", "--sweep", "@last", cwd=tmp_path)
    assert "Weak scaling: 32 samples a step for each replica" in " ".join(again.stdout.split())
    report = run("report", "--sweep", "@last", "--no-mlflow", "--plots", "plots", cwd=tmp_path)
    assert report.exit_code == 0, report.stderr
    assert "scaling.png" in report.stdout
    assert (tmp_path / "plots" / "scaling.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "tfbench-report.html").read_text(encoding="utf-8")
    unfolded = " ".join(page.replace("\\\n", "").split())
    assert "tfbench scale mnist_hidden100_mlp --replicas 1,2 --devices cpu --weak" in unfolded
