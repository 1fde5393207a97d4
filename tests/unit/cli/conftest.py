"""What several commands are tested with."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kinds import Child, Fields
from searches import MakeRuns, plant_runs
from tfbench.machine import frameworks


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, in_tmp_path: Path) -> MakeRuns:
    """Lets commands make planted runs, whose briefs are read as if they were in the store."""
    return plant_runs(monkeypatch)


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Child:
    """Stands in for the process that a command asks: `child(reply)`, None for no answer.

    Returns what it is given.
    """

    def answer(reply: Fields | None) -> list[Fields]:
        given = []

        def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
            given.append(options)
            if reply is None:
                raise subprocess.TimeoutExpired(command, options["timeout"])
            return subprocess.CompletedProcess(
                command, 0, json.dumps(reply) + "\n", "W0000 1 x.cc:1] chatter\n"
            )

        monkeypatch.setattr(subprocess, "run", run)
        monkeypatch.setattr(frameworks, "is_installed", lambda backend: backend == "tensorflow")
        return given

    return answer


@pytest.fixture
def settings(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the user's settings, not yet there."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(in_tmp_path / "config"))
    path = in_tmp_path / "config" / "tfbench" / "config.toml"
    path.parent.mkdir(parents=True)
    return path
