"""Runs of a sweep: one that goes beyond a limit, and those whose prepared process is killed."""

import json
from pathlib import Path

import psutil
import pytest

from runs import NO_CHECKS, Command, journal_of, of_kind, run
from tfbench.machine.children import FORKS_MODULE

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


def test_the_end_of_the_process_that_runs_are_forked_from_costs_none_of_them(
    tmp_path: Path,
) -> None:
    setups = (
        "--setup",
        "default cpu:0",
        "--setup",
        "one_device cpu:0",
        "--vary",
        "training.global_batch_size=128",
    )
    words = (
        "--data",
        "synthetic",
        "--repeats",
        "2",
        "--seconds",
        "0.2",
        *setups,
        *NO_CHECKS,
        "--format",
        "json",
    )
    with Command(
        "sweep", "mnist_hidden100_mlp", *words, cwd=tmp_path, TFBENCH_START="prepared"
    ) as command:
        command.wait_for("started")
        children = psutil.Process(command.process.pid).children()
        (prepared,) = [child for child in children if FORKS_MODULE in child.cmdline()]
        prepared.kill()
        done = command.wait()
    assert (done.exit_code, done.document["num_runs"], done.document["num_failed"]) == (0, 4, 0), (
        done.stderr
    )
    assert "Traceback" not in done.stderr
    for path in (command.store / "journals").glob("*.jsonl"):
        (ready,) = of_kind([json.loads(line) for line in path.read_bytes().splitlines()], "ready")
        assert ready["environment"]["start"] == "forked"
