"""What several commands are tested with."""

from collections.abc import Callable
from pathlib import Path

import pytest

from searches import PlantedRuns, plant_runs


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, in_tmp_path: Path) -> Callable[..., PlantedRuns]:
    """Lets commands make planted runs, whose briefs are read as if they were in the store."""
    return plant_runs(monkeypatch)


@pytest.fixture
def settings(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the user's settings, not yet there."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(in_tmp_path / "config"))
    path = in_tmp_path / "config" / "tfbench" / "config.toml"
    path.parent.mkdir(parents=True)
    return path
