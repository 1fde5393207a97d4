from pathlib import Path

import pytest

from runs import NO_CHECKS, run
from tfbench.runs.baseline import read_baseline
from tfbench.store.store import Store

pytestmark = pytest.mark.slow

CHECK = ("check", "sine_lstm", "--steps", "2", "--repeats", "2", "--no-mlflow", *NO_CHECKS)


def test_a_check_against_a_file_and_against_the_runs_of_it_is_the_same(tmp_path: Path) -> None:
    saved = run(*CHECK, "--save", "baseline.json", cwd=tmp_path)
    assert saved.exit_code == 0, saved.stderr
    store = Store(tmp_path / "mlruns")
    kept = read_baseline(store, str(tmp_path / "baseline.json")).sample
    assert read_baseline(store, kept.run_ids[1]).sample == read_baseline(store, kept.group).sample == kept
    done = run(*CHECK, "--repeats", "1", "--baseline", kept.group, "--format", "json", cwd=tmp_path)
    # One run of two steps says little, so that anything can come of it but a refusal.
    assert done.exit_code in (0, 3), done.stderr
    document = done.document
    assert (document["judgement"] == "regression") == (done.exit_code == 3)
    assert document["unequal"] == [] and document["changed"] == []
    assert document["baseline"]["samples_per_second"] == list(kept.samples_per_second)
