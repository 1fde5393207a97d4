"""Each record of a journal is read as what it tells, whatever else it holds."""

import re
from pathlib import Path

from builders import build_epoch
from tfbench.records import events
from tfbench.records.events import class_of

PACKAGE = Path(events.__file__).parents[1]
EPOCH = build_epoch()


def test_every_kind_that_is_written_is_known() -> None:
    written = {
        kind
        for room in ("worker", "runs", "backends")
        for path in (PACKAGE / room).rglob("*.py")
        for kind in re.findall(r'journal\.append\(\s*"(\w+)"', path.read_text(encoding="utf-8"))
    }
    assert "ready" in written
    assert {kind for kind in written if class_of({"kind": kind}) is events.Unknown} == {"orphaned", "worker"}
