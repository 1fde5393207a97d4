"""Each record of a journal is read as what it tells, whatever else it holds."""

import re
import typing
from pathlib import Path

import pytest

from builders import build_epoch
from tfbench.errors import RecipeError
from tfbench.records import events
from tfbench.records.events import Event, class_of, read_event
from tfbench.records.journal import plain_fields
from tfbench.records.lines import unreadable

PACKAGE = Path(events.__file__).parents[1]


def test_a_record_is_read_as_the_class_of_its_kind() -> None:
    epoch = build_epoch()
    event = read_event({"kind": "epoch", "time": 7.5, **plain_fields(epoch=epoch)})
    assert event == events.EpochEnded(time=7.5, epoch=epoch)
    assert event.kind == "epoch"
    assert event.fields() == {"epoch": epoch}


def test_no_two_classes_are_of_one_kind() -> None:
    classes = typing.get_args(Event)
    assert len({cls.kind for cls in classes}) == len(classes)


def test_a_field_that_is_not_known_is_passed_over_and_one_that_is_missing_is_none() -> None:
    ended = read_event({"kind": "exit", "time": 1.0, "status": "KILLED", "reason": "timed out", "mood": "good"})
    assert ended == events.Exited(time=1.0, status="KILLED", reason="timed out", worker_seconds=None)


def test_a_kind_that_is_not_known_and_a_line_that_is_none_are_told_apart() -> None:
    assert read_event({"kind": "weather", "time": 3.0, "rain": True}) == events.Unknown(time=3.0)
    assert read_event(unreadable()) == events.Unreadable(time=0.0)


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
    assert {kind for kind in written if class_of({"kind": kind}) is events.Unknown} == {"orphaned"}
