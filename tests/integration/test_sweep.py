"""Runs of a sweep that go beyond a limit."""

from pathlib import Path

import pytest

from runs import journal_of, of_kind, run

pytestmark = pytest.mark.slow

QUICK = ("sweep", "mnist_hidden100_mlp", "--data", "synthetic", "--repeats", "1", "--no-mlflow")


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        (
            ("--run-timeout", "1s"),
            "timed out: it took longer than the 1 s that --run-timeout allows",
        ),
        (("--memory-limit", "100MiB"), "out of memory: it took "),
    ],
)
def test_a_run_that_takes_too_long_or_too_much_stands_in_the_table_as_what_it_is(
    tmp_path: Path, limit: tuple[str, str], reason: str
) -> None:
    done = run(*QUICK, "--setup", "default cpu:0", *limit, cwd=tmp_path)
    assert (done.exit_code, reason.partition(":")[0] in done.stdout) == (1, True)
    (ended,) = of_kind(journal_of(tmp_path / "mlruns"), "exit")
    assert (ended["status"], ended["reason"].startswith(reason)) == ("KILLED", True)
