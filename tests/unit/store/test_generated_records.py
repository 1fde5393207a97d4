"""Whatever a journal or a sweep's record holds.

No traceback, and the runs beside it stay usable.
"""

import contextlib
import dataclasses
import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note
from matplotlib.figure import Figure

from generated import examples
from journals import build_sized_result, make_database, write_journal
from kinds import Cli
from mutations import Mutation, mutate, mutations
from profile_runs import build_profile_run, write_profile_journal
from sweeps import TWO_SETUPS, build_plan, write_sweep
from tfbench.errors import TrackingError
from tfbench.store.index import summarize_stored
from tfbench.store.journal import read_result
from tfbench.store.store import Store

pytestmark = pytest.mark.timeout(3600)  # a thousand journals on a busy machine

UNREADABLE = "could not be read, and all else was done without"
NUMBERS = itertools.count(1000)
GOOD = tuple(build_sized_result(index).request.run_id for index in (100, 101))
MORE_RECORDS = (
    {"kind": "stage", "time": 1_700_000_000.0, "name": "building the model"},
    {"kind": "note", "time": 1_700_000_000.0, "text": "a note"},
    {"kind": "checkpoint", "time": 1_700_000_000.0, "epoch": 1},
    {"kind": "stopped", "time": 1_700_000_000.0, "reason": "val_accuracy reached 0.9"},
)


@pytest.fixture
def store(tmp_path: Path, tfbench: Cli, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with two runs that are in MLflow.

    Plots are laid out, but not drawn, which takes a second each.
    """
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **options: None)
    store = Store(tmp_path / "mlruns")
    make_database(store)
    for index in (100, 101):
        write_journal(store, build_sized_result(index))
    assert tfbench("recover", "--store", str(store.root)).exit_code == 0
    return store


def new_journal(folder: Path, is_profile: bool) -> Path:
    """Writes a journal with nearly every kind of record; each has an id of its own."""
    run_id = f"{next(NUMBERS):032x}"
    other = Store(folder)
    if is_profile:
        result = build_profile_run()
        return write_profile_journal(other, replaced(result, run_id))
    path = write_journal(other, replaced(build_sized_result(2), run_id))
    first, *lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(
        first
        + b"".join(json.dumps(record).encode() + b"\n" for record in MORE_RECORDS)
        + b"".join(lines)
    )
    return path


def replaced(result: Any, run_id: str) -> Any:
    return dataclasses.replace(result, request=dataclasses.replace(result.request, run_id=run_id))


def mutated(data: bytes, changes: list[Mutation]) -> bytes:
    """Returns what becomes of a file, and notes it for the case that the test fails."""
    data = mutate(data, changes)
    note(data.decode(errors="backslashreplace"))
    return data


def without_traceback(done: Any) -> Any:
    """Returns what a command left behind.

    An exception that nobody expected has come through to the test by itself.
    """
    assert "Traceback" not in done.stderr
    assert done.exit_code in (0, 1, 2)
    return done


def require_good_runs(store: Store, tfbench: Cli) -> None:
    """The good runs can be compared, shown, exported and recovered whatever is beside them."""
    root = ("--store", str(store.root))
    without_traceback(tfbench("recover", *root))
    compared = without_traceback(tfbench("compare", "--all", "--format", "json", *root))
    assert compared.exit_code == 0 or UNREADABLE in compared.stderr, compared.stderr
    entries = [entry for row in compared.document["rows"] for entry in row["entries"]]
    assert {run["id"] for entry in entries for run in entry["runs"]} >= set(GOOD)
    page = str(store.root.parent / "report.html")
    report = without_traceback(tfbench("report", "--all", "-o", page, *root))
    assert report.exit_code == compared.exit_code, report.stderr
    for run_id in GOOD:
        assert tfbench("export", run_id, "-o", "/dev/null", *root).exit_code == 0
        assert tfbench("runs", run_id, *root).exit_code == 0


def try_run(store: Store, run_id: str, tfbench: Cli) -> None:
    """Reads a run in every way; it may be rejected, in a sentence."""
    export = ("export", run_id, "-o", "/dev/null")
    for command in (export, ("runs", run_id), ("compare", run_id)):
        without_traceback(tfbench(*command, "--store", str(store.root)))


@contextlib.contextmanager
def one_example(store: Store) -> Iterator[None]:
    """Takes from the store whatever an example has brought into it."""
    try:
        yield
    finally:
        for run_id in set(store.run_ids()) - set(GOOD):
            store.discard(run_id)


@examples(few=8, many=1000)
@given(changes=mutations, is_profile=...)
def test_a_generated_journal_in_the_store_harms_no_other_run(
    changes: list[Mutation], is_profile: bool, store: Store, tmp_path: Path, tfbench: Cli
) -> None:
    with one_example(store):
        path = new_journal(tmp_path / "other", is_profile)
        (store.journals / path.name).write_bytes(mutated(path.read_bytes(), changes))
        try_run(store, path.stem, tfbench)
        require_good_runs(store, tfbench)
        try_run(store, path.stem, tfbench)


_NO_FIGURES = "its figures cannot be made"


@pytest.mark.parametrize(
    ("found", "instead", "told"),
    [
        ('"backward":', '"other":', _NO_FIGURES),
        ('"traced":{', '"traced":{"other":{"seconds":1,"parts":{}},', _NO_FIGURES),
        ('"traced":{"forward"', '"traced":{"other"', _NO_FIGURES),
        (
            '"traced":{"forward":{"seconds":',
            '"traced":{"forward":{"seconds":-',
            "must be greater than 0",
        ),
    ],
)
def test_a_round_of_a_profile_that_no_phase_can_be_told_by_is_damage(
    found: str, instead: str, told: str, tmp_path: Path
) -> None:
    path = new_journal(tmp_path, is_profile=True)
    data = path.read_bytes()
    path.write_bytes(data.replace(found.encode(), instead.encode(), 1))
    assert path.read_bytes() != data
    with pytest.raises(TrackingError, match=told):
        summarize_stored(read_result(path), path)


@examples(few=8, many=500)
@given(changes=mutations, is_torn=...)
def test_a_generated_record_of_a_sweep_harms_no_other(
    changes: list[Mutation], is_torn: bool, store: Store, tfbench: Cli
) -> None:
    root = ("--store", str(store.root))
    with one_example(store):
        shutil.rmtree(store.root / "sweeps", ignore_errors=True)
        for sweep_id in ("good", "hurt"):
            plan = build_plan(sweep_id=sweep_id, num_rounds=1, setups=TWO_SETUPS[:1])
            write_sweep(store, plan, lambda planned: f"killed {planned.number}")
        path = store.root / "sweeps" / "hurt.json"
        data = mutated(path.read_bytes(), changes)
        data = data[: len(data) // 2] if is_torn else data
        path.write_bytes(data)
        for command in (("sweep", "--resume", "hurt", "--dry-run"), ("compare", "--sweep", "hurt")):
            done = without_traceback(tfbench(*command, *root))
            assert done.exit_code == 2 or not is_torn
        assert path.read_bytes() == data
        assert tfbench("sweep", "--resume", "good", "--dry-run", *root).exit_code == 0
        require_good_runs(store, tfbench)
