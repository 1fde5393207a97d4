"""A run of a sweep that goes beyond a limit."""

from pathlib import Path

import pytest

from runs import journal_of, of_kind, run

pytestmark = pytest.mark.slow


QUICK = (
    "sweep",
    "mnist_hidden100_mlp",
    "--data",
    "synthetic",
    "--setup",
    "default cpu:0",
    "--repeats",
    "1",
    "--no-mlflow",
)


def test_a_run_that_takes_too_long_stands_in_the_table_as_what_it_is(tmp_path: Path) -> None:
    done = run(*QUICK, "--run-timeout", "1s", cwd=tmp_path)
    assert (done.exit_code, "timed out" in done.stdout) == (1, True)
    (ended,) = of_kind(journal_of(tmp_path / "mlruns"), "exit")
    reason = "timed out: it took longer than the 1 s that --run-timeout allows"
    assert (ended["status"], ended["reason"]) == ("KILLED", reason)
