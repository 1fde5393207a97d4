"""Each record of a journal is read as what it tells, whatever else it holds."""

import re
from pathlib import Path

import pytest

from builders import build_epoch
from tfbench.errors import RecipeError
from tfbench.records import events
from tfbench.records.events import class_of, read_event

PACKAGE = Path(events.__file__).parents[1]
EPOCH = build_epoch()


def test_what_a_record_is_is_known_before_its_fields_are_read() -> None:
    damaged = {"kind": "exit", "time": 1.0, "status": "HAPPY"}
    assert class_of(damaged) is events.Exited
    with pytest.raises(RecipeError) as caught:
        read_event(damaged)
    assert str(caught.value).splitlines() == [
        "exit.status: must be one of RUNNING, FINISHED, FAILED, KILLED. Received: 'HAPPY'.",
        "exit.reason: missing.",
    ]


def test_every_kind_that_is_written_is_known() -> None:
    written = {
        kind
        for room in ("worker", "runs", "backends")
        for path in (PACKAGE / room).rglob("*.py")
        for kind in re.findall(r'journal\.append\(\s*"(\w+)"', path.read_text(encoding="utf-8"))
    }
    assert "ready" in written
    assert {kind for kind in written if class_of({"kind": kind}) is events.Unknown} == {"orphaned", "worker"}
