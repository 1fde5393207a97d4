"""The journal: one append-only file a run, one JSON object a line. It is the truth; all else can be rebuilt from it."""

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tfbench import recipe_file
from tfbench.errors import RecipeError, TrackingError
from tfbench.machine import Environment, InputCheck, LedgerRecord, PeakCheck, Usage
from tfbench.profile_records import ProfileRequest
from tfbench.profile_replay import ProfileReplay
from tfbench.results import (
    DatasetSummary,
    EffectiveSettings,
    EpochRecord,
    Evaluation,
    ModelSummary,
    Placement,
    Predictions,
    ReplicaCheck,
    ResumePoint,
    RunExit,
    RunRequest,
    RunResult,
    StepSpan,
)
from tfbench.schema import build, to_plain

FORMAT_VERSION = 1
FLUSH_SECONDS = 1.0  # spans are held back at most this long
RESERVE_BYTES = 65_536  # kept free on disk, so that what was measured can still be written when the disk is full
WORK_SUFFIX = ".work"

Record = dict[str, Any]


class Journal:
    """Appends to one run's journal, as several processes may at once. Lines are written whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._spans: list[list[float]] = []
        self._flushed = time.monotonic()
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def reserve(self) -> None:
        """Sets disk space aside that is given up to write the last records when the disk is full."""
        with contextlib.suppress(FileExistsError), self._reserve_path.open("xb") as file:
            file.write(b"\0" * RESERVE_BYTES)

    def append(self, kind: str, **fields: Any) -> None:
        """Writes one record, and the spans that were held back before it.

        Raises:
            OSError: The disk is full or the file cannot be written; nothing of the record is in the file then.
        """
        with self._lock:
            self._write(*self._held_back(), {"kind": kind, "time": time.time(), **fields})

    def sync(self) -> None:
        """Waits until what was written is on the disk, so that a snapshot is never ahead of its journal."""
        with self._lock:
            os.fsync(self._file)

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

    @property
    def _reserve_path(self) -> Path:
        return self.path.with_suffix(".reserve")

    def _held_back(self) -> list[Record]:
        spans, self._spans = self._spans, []
        self._flushed = time.monotonic()
        return [{"kind": "spans", "time": time.time(), "spans": spans}] if spans else []

    def _write(self, *records: Record) -> None:
        lines = [json.dumps(record, separators=(",", ":"), allow_nan=False).encode() + b"\n" for record in records]
        data = b"".join(lines)
        try:
            self._write_whole(data)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self.release_reserve()
            self._write_whole(data)
            raise DiskFullError(error.errno, os.strerror(error.errno), str(self.path)) from error

    def _write_whole(self, data: bytes) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)  # what is cut off below must be our own
        try:
            size = os.fstat(self._file).st_size
            written = os.write(self._file, data)
            if written < len(data):  # a full disk can take a part
                os.ftruncate(self._file, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)


class DiskFullError(OSError):
    """The disk is full; this record was still written, from the space set aside, but the run should end."""


class Follower:
    """Reads the records that are added to a journal, a few at a time; a line still being written is left for later."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[Record]:
        """Returns the records added since the last call."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


class Replay:
    """Rebuilds a run's result, record by record."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._spans: list[StepSpan] = []
        self._epochs: list[EpochRecord] = []
        self._evaluations: list[Evaluation] = []
        self._peak_checks: list[PeakCheck] = []
        self._notes: list[str] = []
        self._profile = ProfileReplay()

    def apply(self, record: Record) -> None:
        """Takes in one record; a kind that this version does not know is passed over."""
        match record["kind"]:
            case "request":
                request = self._values["request"] = read_request(record)
                self._epochs = list(request.resume.epochs) if request.resume else []
            case "stage":
                self._values["stage"] = record["name"]
            case "ready":
                self._values |= {
                    "stage": "training",
                    "placement": build(Placement, record["placement"], "placement"),
                    "settings": build(EffectiveSettings, record["settings"], "settings"),
                    "environment": build(Environment, record["environment"], "environment"),
                    "dataset": build(DatasetSummary, record["dataset"], "dataset"),
                    "model": build(ModelSummary, record["model"], "model"),
                    "steps_per_epoch": record["steps_per_epoch"],
                }
            case "replica_check":
                self._values["replica_check"] = build(ReplicaCheck, record["replica_check"], "replica_check")
            case "started":
                self._values |= {"stage": "training", "started_at": record["time"]}
            case "spans":
                self._spans += [
                    StepSpan(epoch=int(e), first_step=int(f), last_step=int(n), seconds=s)
                    for e, f, n, s in record["spans"]
                ]
            case "epoch":
                self._epochs.append(build(EpochRecord, record["epoch"], "epoch"))
            case "snapshot":
                self._values["snapshot_epoch"] = record["epoch"]
            case "stopped":
                self._values["stop_reason"] = record["reason"]
            case "evaluation":
                self._evaluations.append(build(Evaluation, record["evaluation"], "evaluation"))
            case "predictions":
                self._values["predictions"] = build(Predictions, record["predictions"], "predictions")
            case "trained":
                self._values["usage"] = build(Usage, record["usage"], "usage")
            case "input_check":
                self._values["input_check"] = build(InputCheck, record["input_check"], "input_check")
            case "peak_check":
                self._peak_checks.append(build(PeakCheck, record["peak_check"], "peak_check"))
            case "ledger":
                self._values["ledger"] = build(LedgerRecord, record["ledger"], "ledger")
            case "note":
                self._notes.append(record["text"])
            case kind if kind.startswith("profile_"):
                self._profile.apply(record)
            case "finished":
                self._values |= {"stage": "finished", "ended_at": record["time"]}
            case "failed":
                self._values |= {"error": record["error"], "ended_at": record["time"]}
            case "exit":
                seconds = record.get("worker_seconds")
                self._values["exit"] = RunExit(status=record["status"], reason=record["reason"], worker_seconds=seconds)
                self._values.setdefault("ended_at", record["time"])

    def result(self) -> RunResult:
        """Returns what is known so far."""
        return RunResult(
            spans=tuple(self._spans),
            epochs=tuple(self._epochs),
            evaluations=tuple(self._evaluations),
            peak_checks=tuple(self._peak_checks),
            profile=self._profile.result() if "request" in self._values and self._values["request"].profile else None,
            notes=tuple(self._notes),
            **self._values,
        )


def request_fields(request: RunRequest) -> Record:
    """Returns the fields of a journal's first record, from which `read_request` rebuilds the request."""
    plain = {f.name: getattr(request, f.name) for f in dataclasses.fields(request) if f.name != "recipe"}
    plain["resume"] = to_plain(request.resume) if request.resume else None
    if request.profile:
        plain["profile"] = to_plain(request.profile)
    else:
        del plain["profile"]  # so that versions before profiles can read it
    return {
        "format_version": FORMAT_VERSION,
        "request": plain | {"recipe_name": request.recipe.name, "recipe": recipe_file.to_tables(request.recipe)},
    }


def read_request(record: Record) -> RunRequest:
    """Rebuilds the request from a journal's first record.

    Raises:
        TrackingError: The journal was written by a newer version of tfbench.
    """
    if record.get("format_version") != FORMAT_VERSION:
        raise TrackingError(
            f"journal format {record.get('format_version')} is not known to this version of tfbench, "
            f"which reads format {FORMAT_VERSION}. Use the version that wrote it, or a newer one."
        )
    fields = dict(record["request"])
    name = fields.pop("recipe_name")
    recipe = recipe_file.from_tables(fields.pop("recipe"), name=name, source=f"journal of {fields['run_id']}")
    resume, profile = fields.pop("resume", None), fields.pop("profile", None)
    return RunRequest(
        recipe=recipe,
        resume=build(ResumePoint, resume, "resume") if resume else None,
        profile=build(ProfileRequest, profile, "profile") if profile else None,
        **fields,
    )


def files_folder(journal_path: Path) -> Path:
    """Returns the folder beside a journal for what does not fit into it: snapshots, the trained model."""
    return journal_path.with_suffix(".files")


def work_folder(journal_path: Path) -> tempfile.TemporaryDirectory[str]:
    """Makes a folder beside a journal for what is needed for a while: a cleaner of /tmp does not come there."""
    stem, parent = journal_path.stem, journal_path.parent
    return tempfile.TemporaryDirectory(
        prefix=f"{stem}.", suffix=WORK_SUFFIX, dir=parent.absolute(), ignore_cleanup_errors=True
    )


def read_records(path: Path) -> list[Record]:
    """Reads a whole journal; a torn last line is left out.

    Raises:
        TrackingError: The file is no journal.
    """
    try:
        records = Follower(path).read()
        if not records or records[0]["kind"] != "request":
            raise ValueError("it does not begin with a request")
    except OSError as error:
        raise TrackingError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise TrackingError(f"{path}: is no tfbench journal: {error}") from error
    return records


def read_start(path: Path) -> list[Record]:
    """Reads a journal up to the record that says that all was ready to train, and no further.

    Raises:
        TrackingError: The file is no journal.
    """
    records: list[Record] = []
    try:
        with path.open("rb") as file:
            for line in file:
                records.append(json.loads(line))
                if records[-1]["kind"] == "ready":
                    break
    except OSError as error:
        raise TrackingError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise TrackingError(f"{path}: is no tfbench journal: {error}") from error
    return records


def replay(records: Iterable[Record]) -> RunResult:
    """Rebuilds a run's result from its journal's records."""
    state = Replay()
    for record in records:
        state.apply(record)
    return state.result()


def read_run(path: Path, records: Iterable[Record]) -> RunResult:
    """Rebuilds a run's result from the records of the journal at `path`.

    Raises:
        TrackingError: The journal is damaged.
    """
    try:
        return replay(records)
    except (RecipeError, ValueError, KeyError, TypeError) as error:
        what = str(error) if isinstance(error, RecipeError) else f"{type(error).__name__}: {error}"
        raise TrackingError(f"{path}: is damaged: {what}") from error


def plain_fields(**instances: Any) -> Record:
    """Returns schema instances as the plain fields of a record."""
    return {name: to_plain(instance) for name, instance in instances.items()}
