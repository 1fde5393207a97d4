"""What is written beside a tracked run."""

from pathlib import Path
from typing import Any

import pytest

from builders import build_recipe, build_request, build_result
from journals import write_journal
from tfbench.analysis.run.summary import summarize_run
from tfbench.report.run import plots
from tfbench.store.store import Store
from tfbench.tracking.run_files import write_files

OF_SWEEP = {"tfbench.sweep": "abc"}


@pytest.mark.parametrize(
    ("tags", "measurement", "is_drawn"),
    [({}, {"seconds": 5}, True), (OF_SWEEP, {}, True), (OF_SWEEP, {"seconds": 5}, False)],
)
def test_only_the_limited_runs_of_a_sweep_are_not_drawn(
    tags: dict[str, str], measurement: dict[str, Any], is_drawn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Path] = []
    monkeypatch.setattr(plots, "write_plots", lambda result, summary, folder: drawn.append(folder))
    result = build_result(request=build_request(recipe=build_recipe(measurement=measurement), tags=tags))
    journal = write_journal(Store(tmp_path / "mlruns"), result)
    write_files(result, summarize_run(result), journal, tmp_path)
    assert drawn == ([tmp_path] if is_drawn else [])
    assert (tmp_path / "result.json").is_file()
