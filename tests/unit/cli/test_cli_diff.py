"""`tfbench diff`: how runs are named, and what mistakes get."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journals import build_sized_result, write_journal
from tfbench.store.store import Store

Cli = Callable[..., Any]
RUNS = {index: build_sized_result(index) for index in (0, 3)}  # of one network, at batch sizes 32 and 128
FIRST, SECOND = (run.request.run_id for run in RUNS.values())


@pytest.fixture(autouse=True)
def store(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store that holds them."""
    monkeypatch.setenv("COLUMNS", "80")
    store = Store(Path("mlruns"))
    for run in RUNS.values():
        write_journal(store, run)
    return store


def test_diff_names_what_differs_and_judges_no_two_single_runs(tfbench: Cli) -> None:
    done = tfbench("diff", FIRST, "@last")
    assert (done.exit_code, done.stderr) == (0, "")
    written = json.loads(tfbench("diff", FIRST, SECOND, "--format", "json").stdout)
    assert written["results"][0]["ratio"] == pytest.approx(2.0)  # with four times the batch in these journals
    assert [one["name"] for one in written["unequal"]] == ["global_batch_size"]
    assert FIRST in done.stdout and SECOND in done.stdout
