"""Each record of a journal is read as what it tells, whatever else it holds."""

import re
from pathlib import Path

from outcomes import error_of
from tfbench.errors import RecipeError
from tfbench.schema import to_plain
from tfbench.store import events

PACKAGE = Path(events.__file__).parents[1]


def test_what_a_nested_record_does_not_know_is_said_with_what_it_knows() -> None:
    state = {"seconds": 1.0, "gpus": {"a": {"clock": 1.0}}, "joules": {}, "jouls": {}}
    fields = {"kind": "machine", "time": 1.0, "state": state}
    gpu, outer = error_of(RecipeError, events.read_fields, fields).splitlines()
    assert (
        outer
        == "machine.state.jouls: unknown key. Did you mean 'joules'? Known keys: seconds, gpus,"
        " joules."
    )
    assert gpu.startswith(
        "machine.state.gpus.a.clock: unknown key. Did you mean 'clock_mhz'? Known keys: clock_mhz, "
    )


def test_readings_of_processors_in_older_records_are_read() -> None:
    source = {"name": "package-0", "part": "package", "resolution_seconds": 0.001}
    source |= {"range_joules": 8000.0}
    sources = {"sources": [source], "problems": ["CPU: permission denied"]}
    looked = {"seconds": 1.0, "gpus": {}, "joules": {"package-0": 7.0}}
    for kind, fields in {
        "energy_sources": {"energy": sources},
        "machine": {"state": looked},
    }.items():
        (name,) = fields
        read = events.read_fields({"kind": kind, "time": 1.0, **fields})
        assert to_plain(read[name]) == fields[name]


def test_every_kind_that_is_written_is_known() -> None:
    written = {
        kind
        for room in ("measure", "runs", "backends")
        for path in (PACKAGE / room).rglob("*.py")
        for kind in re.findall(r'journal\.append\(\s*"(\w+)"', path.read_text(encoding="utf-8"))
    }
    assert "ready" in written
    assert {kind for kind in written if kind not in events.KINDS} == {"orphaned", "worker"}
