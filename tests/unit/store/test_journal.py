"""The journal holds what was measured, whatever happens to the process, the disk or the reader."""

import dataclasses
import errno
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from builders import build_epoch, build_peak, build_recipe, build_request, build_span, build_usage
from journals import build_sized_result, write_journal
from outcomes import error_of
from tfbench.errors import TrackingError
from tfbench.machine.facts import BreakdownRecord, InputCheck
from tfbench.runs.record import RunExit
from tfbench.store import journal as journal_module
from tfbench.store import json_lines
from tfbench.store.journal import (
    DiskFullError,
    Journal,
    plain_fields,
    read_records,
    read_result,
    replay,
    request_fields,
)
from tfbench.store.json_lines import Follower, Record
from tfbench.store.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


@pytest.fixture
def spans_are_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "FLUSH_SECONDS", float("inf"))


def kinds(path: Path) -> list[str]:
    return [record["kind"] for record in Follower(path).read()]


@pytest.fixture
def journal(path: Path) -> Journal:
    """A journal that holds a request alone."""
    journal = Journal(path)
    journal.append("request", **request_fields(build_request()))
    return journal


def require_that_lines_only_add(records: list[Record]) -> None:
    """Any beginning of a journal gives a result, to which the lines that follow only add."""
    final = replay(records)
    before = None
    for size in range(1, len(records) + 1):
        result = replay(records[:size])
        assert result.status == ("FINISHED" if size == len(records) else "RUNNING")
        for name in ("spans", "epochs", "notes", "peak_checks"):
            values = getattr(result, name)
            assert values == getattr(final, name)[: len(values)]
            assert before is None or len(values) >= len(getattr(before, name))
        for name in ("placement", "model", "usage", "input_check", "started_at"):
            assert getattr(result, name) in (None, getattr(final, name))
            assert before is None or getattr(before, name) in (None, getattr(result, name))
        before = result


def test_what_was_measured_comes_back(tmp_path: Path) -> None:
    recipe = build_recipe(
        training={"optimizer": {"name": "sgd", "momentum": 0.9}},
        distribution={"devices": ["cpu:0", "cpu:1"], "strategy": "mirrored"},
        reference=[
            {"hardware": "h", "devices": "cpu", "source": "s", "figures": {"val_accuracy": 0.98}}
        ],
    )
    result = build_sized_result(
        0,
        request=build_request(recipe=recipe, data_dir="/data", tags={"sweep": "one"}),
        epochs=(build_epoch(val_loss=None),),
        usage=build_usage(peak_gpu_memory_bytes=(1, 2), throttled_seconds=0.5),
        input_check=InputCheck(num_batches=64, seconds=0.5),
        breakdown=BreakdownRecord(entries={"startup": 3.5, "steady": 1.0}, elapsed_seconds=4.75),
        peak_checks=tuple(build_peak(seconds=s) for s in (0.2, 0.1)),
    )
    records = list(read_records(write_journal(Store(tmp_path), result)))
    assert replay(records) == result
    require_that_lines_only_add(records)


def test_a_run_ends_when_its_training_does_and_not_when_its_process_does(
    path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for moment, kind, fields in (
        (100.0, "finished", {}),
        (107.0, "exit", {"status": "FINISHED", "reason": ""}),
    ):
        monkeypatch.setattr(time, "time", lambda moment=moment: moment)
        journal.append(kind, **fields)
    journal.close()
    assert replay(read_records(path)).ended_at == 100.0


def test_a_journal_is_read_a_record_at_a_time(
    path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        journal.append("note", text=str(number))
    journal.close()
    parsed = []
    parse = json_lines.parse
    monkeypatch.setattr(json_lines, "parse", lambda line: parsed.append(line) or parse(line))
    records = read_records(path)
    for number in range(1, 5):
        next(records)
        assert len(parsed) == number


def test_follows_what_is_added_and_leaves_a_line_still_being_written_for_later(
    path: Path, journal: Journal
) -> None:
    follower = Follower(path)
    assert [record["kind"] for record in follower.read()] == ["request"]
    assert follower.read() == []
    journal.append("note", text="ü\n")
    assert [record["kind"] for record in follower.read()] == ["note"]
    journal.close()
    with path.open("ab", buffering=0) as file:
        file.write(b'{"kind":"started",')
        assert follower.read() == []
        assert len(list(read_records(path))) == 2
        file.write(b'"time":1.0}\n')
    assert follower.read() == [{"kind": "started", "time": 1.0}]


@pytest.mark.parametrize("torn", [b'{"kind":"epoch","epo', b'{"kind":"note","text":"\xc3'])
def test_a_line_that_a_killed_writer_left_half_written_is_ended_before_the_next_one(
    path: Path, journal: Journal, torn: bytes
) -> None:
    journal.close()
    with path.open("ab") as file:
        file.write(torn)
    journal = Journal(path)
    journal.append("note", text="ü")
    journal.append("exit", status="KILLED", reason="no")
    journal.close()
    assert kinds(path) == ["request", "unreadable", "note", "exit"]
    result = replay(read_records(path))
    assert (result.num_unreadable_lines, result.notes, result.status) == (1, ("ü",), "KILLED")
    assert path.read_bytes().splitlines()[1] == torn  # nothing that was written is ever changed


@pytest.mark.parametrize(
    "line",
    [
        b"[1]",
        b'{"kind":5,"time":1.0}',
        b'{"kind":"note","text":"without a time"}',
        b'{"kind":"note","time":1e999,"text":"x"}',
        b'{"kind":"note","time":1.0,"x":' + b"[" * 2000 + b"]" * 2000 + b"}",
        b'{"kind":"note","time":1.0,"text":"\xff\xfe"}',
    ],
)
def test_a_line_that_is_no_record_is_counted_and_costs_no_other(
    path: Path, journal: Journal, line: bytes
) -> None:
    journal.append("note", text="before")
    with path.open("ab") as file:
        file.write(line + b"\n")
    journal.append("note", text="after")
    journal.close()
    result = replay(read_records(path))
    assert (result.notes, result.num_unreadable_lines) == (("before", "after"), 1)


def test_a_journal_whose_beginning_is_damaged_says_all_the_same(tmp_path: Path) -> None:
    store = Store(tmp_path)
    written = build_sized_result(1)
    path = write_journal(store, written)
    whole = read_result(path)
    first, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"\0" * len(first) + b"".join(rest))
    found = read_result(path)
    assert found == dataclasses.replace(whole, num_unreadable_lines=1)
    assert [head.run_id for head in store.heads()] == [path.stem]


def test_a_last_line_that_lacks_only_its_end_counts(path: Path, journal: Journal) -> None:
    journal.append("exit", status="KILLED", reason="timed out")
    journal.close()
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    assert replay(read_records(path)).exit == RunExit(status="KILLED", reason="timed out")


def test_a_text_that_is_no_unicode_does_not_cost_its_record(path: Path, journal: Journal) -> None:
    journal.append("note", text="data-\udcff")
    journal.close()
    assert replay(read_records(path)).notes == ("data-?",)


@pytest.mark.usefixtures("spans_are_held_back")
def test_spans_are_held_back_until_the_next_record_or_the_end(path: Path, journal: Journal) -> None:
    journal.append_span(build_span(first_step=1, last_step=1))
    journal.append_span(build_span(first_step=2, last_step=9))
    assert kinds(path) == ["request"]
    journal.append("invented_later", x=1)
    assert kinds(path) == ["request", "spans", "invented_later"]
    journal.append_span(build_span(first_step=10, last_step=10))
    journal.close()
    assert [span.num_steps for span in replay(read_records(path)).spans] == [1, 8, 1]


def test_a_span_is_written_a_second_after_the_last_ones_at_most(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    clock = SimpleNamespace(monotonic=lambda: now, time=time.time)
    monkeypatch.setattr(journal_module, "time", clock)
    journal = Journal(path)
    written = []
    for step, seconds in enumerate((0.5, 1.0, 1.9, 2.0), start=1):
        now = 100.0 + seconds
        journal.append_span(build_span(first_step=step, last_step=step))
        written.append(len(kinds(path)))
    assert written == [0, 1, 1, 2]


def test_two_processes_append_whole_lines(path: Path, journal: Journal) -> None:
    journal.close()
    code = (
        "import sys; from pathlib import Path; from tfbench.store.journal import Journal\njournal"
        " = Journal(Path(sys.argv[1]))\nfor index in range(300): journal.append('note',"
        " text=f'{sys.argv[2]} {index} ' + 'x' * 3000)\njournal.close()\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in ("a", "b")
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    notes = replay(read_records(path)).notes
    for name in ("a", "b"):
        assert [note.split()[1] for note in notes if note.startswith(name)] == [
            str(index) for index in range(300)
        ]


@pytest.mark.usefixtures("spans_are_held_back")
def test_writes_spans_and_record_from_the_reserve_when_the_disk_is_full(
    path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = path.with_suffix(".reserve")
    real_write = os.write
    journal.reserve()
    # As long as the reserve lies on it, the disk takes a part of a line.
    monkeypatch.setattr(
        os, "write", lambda file, data: real_write(file, data[:10] if reserve.exists() else data)
    )
    journal.append_span(build_span())
    with pytest.raises(DiskFullError) as caught:
        journal.append("epoch", **plain_fields(epoch=build_epoch()))
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(path))
    assert kinds(path) == ["request", "spans", "epoch"]
    assert replay(read_records(path)).epochs == (build_epoch(),)
    assert not reserve.exists()


def test_a_disk_full_beyond_the_reserve_leaves_whole_lines(
    path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real_write(file, data[:10]))
    with pytest.raises(OSError, match="No space left"):
        journal.append("started")
    assert kinds(path) == ["request"]
    assert path.read_bytes().endswith(b"\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a tfbench journal: it holds no request"),
        (b'{"kind":"epoch"}\n', "is not a tfbench journal: it holds no request"),
        (
            b'{"kind":"request","time":1,"format_version":99,"request":{}}\n',
            "its format is 99; this version of tfbench",
        ),
    ],
)
def test_a_file_that_is_no_journal_is_named(path: Path, content: bytes, message: str) -> None:
    path.write_bytes(content)
    assert f"{path}: {message}" in error_of(TrackingError, read_result, path)


def test_a_journal_is_synced_no_more_often_than_asked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    journal = Journal(path)
    for every_seconds in (3600.0, 3600.0, 0.0, 3600.0):
        journal.sync(every_seconds)
    assert len(synced) == 2
