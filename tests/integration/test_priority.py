"""A run under another niceness: what is recorded of it, and that it is not compared with one under the usual."""

import os
from pathlib import Path

import pytest

from runs import NO_CHECKS, Command, of_kind, run

SHORT = ("--steps", "12", "--no-mlflow", *NO_CHECKS)


def test_setups_under_another_niceness_are_recorded_cautioned_and_rejected(tmp_path: Path) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    if own > 16:
        pytest.skip("the tests run with the highest niceness already")
    found = {}
    for name, strategy, nicer_by in (("usual", "default", 0), ("nice", "one_device", 3)):
        options = ("--strategy", strategy, "--devices", "cpu:0", "--name", name, *SHORT)
        command = Command("run", "sine_lstm", *options, cwd=tmp_path, nicer_by=nicer_by)
        finished = command.wait()
        assert finished.exit_code == 0, finished.stderr
        (ready,) = of_kind(command.journal(), "ready")
        found[name] = ready["environment"]
        shown = " ".join(run("runs", name, cwd=tmp_path).stdout.split())
        assert f"niceness {own + nicer_by}" in shown or own + nicer_by == 0
    assert (found["usual"]["niceness"], found["nice"]["niceness"]) == (own, own + 3)

    difference = run("diff", "usual", "nice", "--format", "json", cwd=tmp_path).document
    assert {"name": "niceness", "a": own, "b": own + 3} in difference["unequal"]
    compared = run("compare", "usual", "nice", "--baseline", "default cpu:0", "--format", "json", cwd=tmp_path)
    entries = [entry for row in compared.document["rows"] for entry in row["entries"]]
    (setup,) = (entry for entry in entries if entry["unequal"])
    assert setup["unequal"] == [{"name": "niceness", "a": own, "b": own + 3}]
    assert setup["speedup"] is None
