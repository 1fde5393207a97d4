"""A price on the way to the console, the JSON document and MLflow; and a warning in good time."""

from pathlib import Path

import pytest

from runs import NO_CHECKS, run, tracked_runs

pytestmark = pytest.mark.slow

RECIPE = """
[recipe]
title = "Costly"
source = "this test"
not_meant_for = ["cpu"]

[model]
name = "mlp"
hidden_units = [4]

[dataset]
name = "mnist"
data = "synthetic"

[training]
global_batch_size = 32
epochs = 2

[cost]
instance = "p2.xlarge"
currency = "EUR"
"""


def test_a_price_is_turned_into_a_cost_and_a_recipe_warns_of_the_wrong_device(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(RECIPE, encoding="utf-8")
    short = ("--devices", "cpu", "--steps", "5", *NO_CHECKS)
    done = run("run", "mine.toml", *short, "--set", "cost.price_per_hour=3600", cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    assert "warning: This recipe is not meant for cpu: " in done.stdout
    after = run("runs", "@last", cwd=tmp_path).stdout.split("FINISHED")[1]
    assert "- This recipe is not meant for cpu: " in after
    assert "at 3600 EUR an hour (p2.xlarge)" in after
    (tracked,) = tracked_runs(tmp_path / "mlruns")
    assert (tracked.data.tags["tfbench.currency"], tracked.data.tags["tfbench.instance"]) == ("EUR", "p2.xlarge")
    metrics = tracked.data.metrics
    assert metrics["cost/machine"] == pytest.approx(3600 * metrics["cost/hours"])
    assert "cost/epoch" not in metrics  # an epoch has 1,875 steps
