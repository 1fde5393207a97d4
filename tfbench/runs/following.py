"""A worker of a run that is tracked on another machine: started, watched and told of to the parent of the first one."""

import dataclasses
import os
import platform
import time
from pathlib import Path

from tfbench.errors import RecipeError, TrackingError, WorkersError
from tfbench.records.journal import read_request
from tfbench.records.members import describe_member, member_path
from tfbench.records.run import RunExit, RunRequest
from tfbench.runs.launchers import meeting
from tfbench.runs.launchers.clusters import Place
from tfbench.runs.launchers.connection import LOST_SECONDS, Connection, Message
from tfbench.runs.launchers.launch import member_of, require_gpus_in_use, start_member
from tfbench.runs.launchers.process import STOP_SECONDS, TOKEN_VARIABLE
from tfbench.runs.launchers.watched import WatchedWorker
from tfbench.runs.stop_signals import StopSignals
from tfbench.store.store import Store

_POLL_SECONDS = 0.2
_CUT = "the connection to worker 0 was cut off: its parent was killed, or its machine or the network is gone"
_STATE_SECONDS = 1.0  # between words on memory and on whether the process runs


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class FollowedRun:
    """What became of a run, of which one worker was here."""

    run_id: str
    name: str  # of the worker
    index: int
    num_workers: int
    end: RunExit
    journal: Path  # of this worker
    was_interrupted: bool  # by a signal to this process


def follow(request: RunRequest, place: Place, store: Store, tell: meeting.Tell) -> FollowedRun:
    """Does one worker's part of a run that the first worker's parent, on another machine, tracks.

    What is measured is what that one says, which was held against `request`; data, and whether code is allowed, are as
    given here.

    Args:
        request: What was asked for here.
        place: Which worker this is, and where the first one's parent is.
        store: Keeps this worker's journal.
        tell: Told what is waited for.

    Raises:
        WorkersError: The parents did not meet, or were asked for different things; or the run was given up before
            anything was measured.
        DeviceError: A GPU here would stay idle.
        InterruptedRunError: A stop was asked for before all had met.
        TrackingError: The store cannot be used.
    """
    require_gpus_in_use(request)
    with StopSignals() as stop:
        token = os.environ.get(TOKEN_VARIABLE, "")
        connection, message = meeting.attend(
            place, request, token, is_stopped=lambda: stop.received is not None, tell=tell
        )
        try:
            own = _read_request(message, request, place)
            return _follow(own, connection, store, stop, tell)
        finally:
            connection.close()


def _read_request(message: Message, asked: RunRequest, place: Place) -> RunRequest:
    try:
        told = read_request(message)
    except (RecipeError, TrackingError, KeyError, TypeError) as error:
        raise WorkersError(f"{place.coordinator}: what it sent is no request: {error}") from error
    if told.recipe != asked.recipe or told.member is None or told.member.index != place.index:
        raise WorkersError(f"{place.coordinator}: what it sent is not what was asked for here.")
    return dataclasses.replace(
        told, data_dir=asked.data_dir, allows_code=asked.allows_code, resume=asked.resume, profile=asked.profile
    )


def _follow(
    request: RunRequest, connection: Connection, store: Store, stop: StopSignals, tell: meeting.Tell
) -> FollowedRun:
    run_path = store.journal_path(request.run_id)
    shares_store = run_path.exists()  # the first worker's parent has made it
    if not shares_store:
        store.create_journal(request.run_id)
    host = platform.node()
    try:
        watched = start_member(request, run_path, host=host)
    except OSError as error:
        reason = f"{describe_member(member_of(request), host)}: its process cannot be started: {error.strerror}"
        connection.send("ended", status="FAILED", reason=reason)
        raise WorkersError(f"{reason}.") from error
    connection.send("started", shares_store=shares_store)
    tell(f"{watched.name}, of run {request.run_id}")
    following = _Following(watched, connection, stop)
    try:
        end, is_kept = following.to_the_end()
    finally:
        watched.close()
    if not is_kept:
        if not shares_store:
            store.discard(request.run_id)
        raise WorkersError(f"{watched.name}: {end.reason}")
    watched.conclude(end)
    member = member_of(request)
    return FollowedRun(
        run_id=request.run_id,
        name=watched.name,
        index=member.index,
        num_workers=member.num_workers,
        end=end,
        journal=member_path(run_path, member.index),
        was_interrupted=stop.received is not None,
    )


class _Following:
    """The time from a worker's start to when it is known how the run of all ended."""

    def __init__(self, watched: WatchedWorker, connection: Connection, stop: StopSignals) -> None:
        self._watched = watched
        self._connection = connection
        self._stop = stop
        self._cause = ""  # why this worker is ended from here
        self._told: tuple[RunExit, bool] | None = None  # how the run ended, and whether it is kept
        self._asked_to_stop_at: float | None = None
        self._has_told_end = False
        self._told_state_at = 0.0

    def to_the_end(self) -> tuple[RunExit, bool]:
        """Returns how the run ended, and whether what was measured of it is kept."""
        watched = self._watched
        while True:
            is_cut = bool(self._connection.problem) or self._connection.silent_seconds > LOST_SECONDS
            while message := self._connection.receive():
                self._take_in(message)
            self._tell()
            if watched.end and (self._told or is_cut):
                return self._told or (RunExit(status="KILLED", reason=self._cause or _CUT), watched.is_ready)
            self._cause = self._cause or self._find_cause(is_cut=is_cut)
            if (self._cause or self._told) and not watched.end:
                self._end_worker()
            if watched.end:
                time.sleep(_POLL_SECONDS)
            else:
                watched.worker.wait(_POLL_SECONDS)

    def _take_in(self, message: Message) -> None:
        match message:
            case {"kind": "begin"}:
                self._watched.begin()
            case {"kind": "terminate"}:
                self._watched.terminate()
            case {"kind": "kill"}:
                self._watched.kill()
            case {"kind": "end", "status": "FINISHED" | "FAILED" | "KILLED" as status, "reason": str(reason)}:
                self._told = RunExit(status=status, reason=reason), bool(message.get("is_kept"))
            case {"kind": "refused", "reason": str(reason)}:
                self._told = RunExit(status="KILLED", reason=reason), False

    def _tell(self) -> None:
        watched, now = self._watched, time.monotonic()
        for record in watched.look():
            self._connection.send("record", record=record)
        if watched.end and not self._has_told_end:
            self._has_told_end = True
            end = RunExit(status="KILLED", reason=self._cause) if self._cause else watched.end
            self._connection.send("ended", status=end.status, reason=end.reason)
        elif now - self._told_state_at >= _STATE_SECONDS:
            self._told_state_at = now
            self._connection.send("state", memory_bytes=watched.memory_bytes, trouble=watched.trouble)

    def _find_cause(self, *, is_cut: bool) -> str:
        if self._stop.received:
            return f"{self._watched.name} was interrupted by {self._stop.received.name}"
        return _CUT if is_cut and not self._told else ""

    def _end_worker(self) -> None:
        now = time.monotonic()
        if self._asked_to_stop_at is None:
            self._asked_to_stop_at = now
            self._watched.terminate()
        elif now - self._asked_to_stop_at > STOP_SECONDS:
            self._watched.kill()
