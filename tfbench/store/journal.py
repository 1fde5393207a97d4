"""The journal: one append-only file per run, one JSON object per line.

It is the truth: all else can be rebuilt from it.
"""

import contextlib
import errno
import gc
import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tfbench.errors import RecipeError, TrackingError
from tfbench.profiles.readings import Profile
from tfbench.recipe import tables
from tfbench.runs.record import RunExit, RunRequest, RunResult, StepSpan
from tfbench.schema import build, to_plain
from tfbench.store import events
from tfbench.store import json_lines as record_lines
from tfbench.store.events import Fields
from tfbench.store.json_lines import Record
from tfbench.wording import count

FORMAT_VERSION = 1
FLUSH_SECONDS = 1.0  # spans are held back at most this long
# epochs are on the disk at most so long after their end, or once the next one ends
SYNC_SECONDS = 1.0
# kept free on disk, so that what was measured can still be written when the disk is full
RESERVE_BYTES = 65_536

# Kinds of records that change the stage of a run, or when it began or ended.
_MILESTONES = ("stage", "started", "finished", "failed", "exit")
# Where a field of a kind of record goes in the result, if that calls it otherwise.
_NAMES = {
    "epoch.epoch": "epochs",
    "profile_round.round": "rounds",
    "evaluation.evaluation": "evaluations",
    "peak_check.peak_check": "peak_checks",
    "note.text": "notes",
    "energy.reading": "energy_readings",
    "machine.state": "machine_states",
    "checkpoint.epoch": "checkpoint_epoch",
    "stopped.reason": "stop_reason",
    "profile_layers.problem": "layers_problem",
    "profile_operations.num_steps": "num_traced_steps",
    "profile_operations.step_seconds": "traced_step_seconds",
}
_LISTS = (
    "spans",
    "epochs",
    "evaluations",
    "peak_checks",
    "notes",
    "energy_readings",
    "machine_states",
    "rounds",
)


class Journal:
    """Appends to one run's journal, as several processes may at once.

    Lines are written whole or not at all.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reserve_path = path.with_suffix(".reserve")
        self._lock = threading.Lock()
        self._spans: list[list[float]] = []
        self._flushed = time.monotonic()
        self._synced = float("-inf")
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def reserve(self) -> None:
        """Reserves disk space, which is given up to write the last records to a full disk."""
        with contextlib.suppress(FileExistsError), self._reserve_path.open("xb") as file:
            file.write(b"\0" * RESERVE_BYTES)

    def append(self, kind: str, **fields: Any) -> None:
        """Writes one record, and the spans that were held back before it.

        Raises:
            OSError: The disk is full or the file cannot be written; nothing of the record is in the
                file then.
        """
        with self._lock:
            self._write(*self._held_back(), {"kind": kind, "time": time.time(), **fields})

    def sync(self, every_seconds: float = 0.0) -> None:
        """Waits until all that was written is on disk.

        It does nothing if it did so less than `every_seconds` ago.
        """
        with self._lock:
            if time.monotonic() - self._synced >= every_seconds:
                os.fsync(self._file)
                self._synced = time.monotonic()

    def append_span(self, span: StepSpan) -> None:
        """Holds a span back, to be written at most a second later or with the next record."""
        with self._lock:
            self._spans.append([span.epoch, span.first_step, span.last_step, span.seconds])
            if time.monotonic() - self._flushed >= FLUSH_SECONDS:
                self._write(*self._held_back())

    def close(self) -> None:
        """Writes what was held back, and gives the reserved space back."""
        with self._lock:
            try:
                self._write(*self._held_back())
            finally:
                os.close(self._file)
        self.release_reserve()

    def release_reserve(self) -> None:
        """Gives the reserved disk space back."""
        self._reserve_path.unlink(missing_ok=True)

    def _held_back(self) -> list[Record]:
        self._flushed = time.monotonic()
        if not self._spans:
            return []
        record = {"kind": "spans", "time": time.time(), "spans": self._spans}
        self._spans = []
        return [record]

    def _write(self, *records: Record) -> None:
        lines = record_lines.encode(records)
        try:
            record_lines.append(self._file, lines)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self.release_reserve()
            record_lines.append(self._file, lines)
            raise DiskFullError(error.errno, os.strerror(error.errno), str(self.path)) from error


class DiskFullError(OSError):
    """The disk is full.

    This record was still written, from the space set aside, but the run should end.
    """


class Replay:
    """Rebuilds a run's result, record by record.

    Any beginning of a journal gives the result as of then.
    """

    def __init__(self) -> None:
        self.kinds: set[str] = set()  # of records that there are
        self.last_time = 0.0  # when the latest record was written, in seconds since 1970
        self._values: Fields = {}
        self._profile: Fields = {}
        self._lists: dict[str, list[Any]] = {name: [] for name in _LISTS}
        self._num_unreadable_lines = 0
        self._damage: RecipeError | None = None  # of a request
        self._epoch = 0  # of the last span

    def apply(self, record: Record) -> Fields:
        """Takes in one record, and returns its fields.

        A kind that this version does not know is passed over.

        Raises:
            RecipeError: A field is not of its type.
            TrackingError: The journal is of another format.
        """
        fields = events.read_fields(record)
        kind = record["kind"]
        self.kinds.add(kind)
        self.last_time = max(self.last_time, float(record["time"]))
        if kind == "request":
            self._take_request(record)
        elif kind == "spans":
            self._add_spans(fields["spans"])
        elif kind in _MILESTONES:
            self._pass_milestone(kind, fields)
        elif kind == record_lines.UNREADABLE:
            self._num_unreadable_lines += 1
        elif kind != "rejected":
            self._keep(kind, fields)
        return fields

    def result(self) -> RunResult:
        """Returns what is known so far.

        Raises:
            RecipeError: The request is damaged wherever it stands.
            TrackingError: There is none.
        """
        if "request" not in self._values:
            raise self._damage or TrackingError("is not a tfbench journal: it holds no request")
        lists: Fields = {name: tuple(values) for name, values in self._lists.items()}
        profile = Profile(rounds=lists.pop("rounds"), **self._profile)
        request = self._values.get("request")
        is_profile = request is not None and request.profile is not None
        return RunResult(
            profile=profile if is_profile else None,
            num_unreadable_lines=self._num_unreadable_lines,
            **lists,
            **self._values,
        )

    def _take_request(self, record: Record) -> None:
        """Takes in a request; of the two of a journal, one may be damaged."""
        try:
            request = read_request(record)
        except RecipeError as error:
            self._damage = error
            self._num_unreadable_lines += 1
            return
        if "request" not in self._values and request.resume:
            self._lists["epochs"][:0] = request.resume.epochs
        self._values.setdefault("request", request)

    def _add_spans(self, spans: Iterable[events.Span]) -> None:
        for epoch, first, last, seconds in spans:
            # There may be millions: equal numbers are one in memory.
            if self._epoch != epoch:
                self._epoch = epoch
            if last == first:
                last = first
            span = StepSpan(epoch=self._epoch, first_step=first, last_step=last, seconds=seconds)
            self._lists["spans"].append(span)

    def _pass_milestone(self, kind: str, fields: Fields) -> None:
        """Takes in a record that changes the stage of the run, or when it began or ended."""
        values = self._values
        match kind:
            case "stage":
                if values.get("stage") != "finished":  # else it is of a check after the run
                    values["stage"] = fields["name"]
            case "started":
                values |= {"stage": "training", "started_at": fields["time"]}
            case "finished":
                values |= {"stage": "finished", "ended_at": fields["time"]}
            case "failed":
                values |= {"error": to_plain(fields["error"]), "ended_at": fields["time"]}
            case "exit":
                values["exit"] = RunExit(
                    status=fields["status"],
                    reason=fields["reason"],
                    worker_seconds=fields["worker_seconds"],
                )
                values.setdefault("ended_at", fields["time"])

    def _keep(self, kind: str, fields: Fields) -> None:
        """Keeps each field under its name in the result."""
        values = self._profile if kind.startswith("profile_") else self._values
        if kind == "ready":
            values["stage"] = "training"
        for field, value in fields.items():
            name = _NAMES.get(f"{kind}.{field}", field)
            if name in self._lists:
                self._lists[name].append(value)
            elif name != "time":
                values[name] = value


def request_fields(request: RunRequest) -> Record:
    """Returns the fields of the record that holds the request, the first of a journal.

    `read_request` rebuilds the request from them. The record stands again before the first step is
    measured, since without it nothing of the run can be read.
    """
    plain = to_plain(request) | {
        "recipe_name": request.recipe.name,
        "recipe": tables.to_tables(request.recipe),
    }
    return {"format_version": FORMAT_VERSION, "request": plain}


def read_request(record: Record) -> RunRequest:
    """Rebuilds the request from the record that holds it.

    Raises:
        TrackingError: The journal is of another format.
    """
    if record.get("format_version") != FORMAT_VERSION:
        raise TrackingError(
            f"its format is {record.get('format_version')}; this version of tfbench reads format"
            f" {FORMAT_VERSION}"
        )
    fields = dict(record["request"])
    name = str(fields.pop("recipe_name", ""))
    plain = fields.pop("recipe", None)
    if not isinstance(plain, dict):
        raise RecipeError(f"request.recipe: must be a table. Received: {plain!r:.80}")
    recipe = tables.from_tables(plain, name=name, source=f"journal of {fields.get('run_id')}")
    return build(RunRequest, fields | {"recipe": recipe}, "request")


def files_folder(journal_path: Path) -> Path:
    """Returns the folder beside a journal for checkpoints and the trained model."""
    return journal_path.with_suffix(".files")


def read_records(path: Path) -> Iterator[Record]:
    """Reads a whole journal, a record at a time: one may be larger than memory.

    A line that is no record is one of kind `UNREADABLE`.

    Raises:
        TrackingError: It cannot be read.
    """
    try:
        yield from record_lines.read_file(path)
    except OSError as error:
        raise TrackingError(f"{path}: cannot be read: {error.strerror}") from error


def damaged(path: Path, what: str) -> TrackingError:
    """Returns an error that says how a journal is damaged and what to do."""
    return TrackingError(
        f"{path}: {what.rstrip('.')}. No other run needs this file: move it away to work"
        " without it."
    )


def replay(records: Iterable[Record]) -> RunResult:
    """Rebuilds a run's result from its journal's records."""
    state = Replay()
    with _without_collection():
        for record in records:
            state.apply(record)
    return state.result()


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Keeps Python from searching for cycles, which takes long among millions of spans."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def read_result(path: Path) -> RunResult:
    """Rebuilds a run's result from its journal in a store.

    Raises:
        TrackingError: As of `read_replay`.
    """
    return read_replay(path).result()


def read_replay(path: Path) -> Replay:
    """Takes in the journal of a run in a store.

    Raises:
        TrackingError: It cannot be read, is damaged, or is that of another run than its name says.
    """
    state = Replay()
    with _without_collection():
        for record in read_records(path):
            with _naming_damage(path):
                state.apply(record)
    with _naming_damage(path):
        run_id = state.result().request.run_id
    if run_id != path.stem:  # by which all that is beside it is found
        raise damaged(path, f"is damaged: it is of run {run_id}")
    return state


@contextlib.contextmanager
def _naming_damage(path: Path) -> Iterator[None]:
    """Turns whatever goes wrong with what is in a journal into an error that names the file."""
    try:
        yield
    except TrackingError as error:
        raise damaged(path, str(error)) from error
    except Exception as error:  # anything may be in a file
        raise damaged(path, f"is damaged: {describe(error)}") from error


def describe(error: Exception) -> str:
    """Returns the first line of what is wrong with records."""
    if not isinstance(error, RecipeError | ValueError):
        return f"{type(error).__name__}: {error}"
    first, *others = str(error).splitlines()
    if not others:
        return first
    return f"{first} (and {count(len(others), 'problem')} more)"


def plain_fields(**instances: Any) -> Record:
    """Returns schema instances as the plain fields of a record."""
    return {name: to_plain(instance) for name, instance in instances.items()}
