"""A run of a sweep that goes beyond a limit."""

from pathlib import Path

import pytest

from runs import journal_of, of_kind, run

pytestmark = pytest.mark.slow


def test_a_run_that_takes_too_long_or_too_much_stands_in_the_table_as_what_it_is(tmp_path: Path) -> None:
    common = (
        "sweep",
        "mnist_hidden100_mlp",
        "--data",
        "synthetic",
        "--arm",
        "default cpu:0",
        "--repeats",
        "1",
        "--no-mlflow",
    )
    late = run(*common, "--run-timeout", "1s", cwd=tmp_path)
    assert late.exit_code == 1
    assert "timed out" in late.stdout
    (ended,) = of_kind(journal_of(tmp_path / "mlruns"), "exit")
    assert (ended["status"], ended["reason"]) == (
        "KILLED",
        "timed out: it took longer than the 1 s that --run-timeout allows",
    )
    large = run(*common, "--memory-limit", "100MiB", "--store", "second", cwd=tmp_path)
    assert large.exit_code == 1
    (ended,) = of_kind(journal_of(tmp_path / "second"), "exit")
    assert ended["status"] == "KILLED"
    assert ended["reason"].startswith("out of memory: it took ")
    assert "out of memory" in large.stdout
