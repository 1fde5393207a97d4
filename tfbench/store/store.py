"""The store: a folder that holds the journals, MLflow's database and the runs' artifacts."""

import contextlib
import dataclasses
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tfbench.errors import RecipeError, TrackingError, UnknownNameError, did_you_mean
from tfbench.runs.record import TrackedRun
from tfbench.schema import build, read_json, schema
from tfbench.store.json_lines import parse
from tfbench.store.whole_files import open_at_once, read_regular_file, write_whole
from tfbench.tags import GROUP_TAG, SWEEP_TAG
from tfbench.wording import command_line, without_secrets

DEFAULT_EXPERIMENT = "tfbench"
MIN_FREE_BYTES = 4 * 2**20  # a database, a journal and a few plots of a short run
SHOWN_CANDIDATES = 8
_STATE_ENDING = ".tracked.json"
_LOCK_ENDING = ".lock"
# Endings of what is beside a journal: for a while, and all.
_PASSING = (".reserve", _LOCK_ENDING, _STATE_ENDING, ".part", ".work")
_OF_A_RUN = (*_PASSING, ".jsonl", ".brief.json", ".files")


@schema
class TrackingState:
    """Where a run is tracked, and how much of its journal is there already."""

    tracking_uri: str  # "***" stands for its password in a note that was read: none holds it
    experiment: str
    run: TrackedRun | None = None  # None until MLflow knows the run
    projected_bytes: int = 0  # the size of the journal that was wholly sent


class RunHead(NamedTuple):
    """What distinguishes one run of the store from another."""

    run_id: str
    name: str
    created: float  # seconds since 1970, UTC
    group: str = ""  # of runs that it was made with, as repeats of each other
    sweep: str = ""  # that it is of
    profile: str = ""  # what was found out of its step instead of a training: "step" or "trace"
    was_begun: bool = True  # of a run of a sweep: neither rejected nor skipped


class Store:
    """A folder of runs, which is made with the first run."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        if set("?#%") & set(str(self.root.absolute())):  # MLflow would have its database elsewhere
            raise TrackingError(
                f"store {self.root.absolute()}: a path with '?', '#' or '%' cannot be written as"
                " the address of a database. Choose another one with --store."
            )
        self.database = self.root / "mlflow.db"  # MLflow's, of SQLite
        self.artifacts = self.root / "artifacts"  # MLflow's files
        self.journals = self.root / "journals"

    @property
    def tracking_uri(self) -> str:
        """MLflow's address of the embedded database."""
        return f"sqlite:///{self.database.absolute()}"

    @property
    def default_state(self) -> TrackingState:
        """Where a run is tracked that no state tells of: in the store itself."""
        return TrackingState(tracking_uri=self.tracking_uri, experiment=DEFAULT_EXPERIMENT)

    def journal_path(self, run_id: str) -> Path:
        """Returns where the journal of a run is, or would be.

        Raises:
            TrackingError: The id cannot be a file name.
        """
        if not re.fullmatch("[A-Za-z0-9]{1,64}", run_id):
            raise TrackingError(
                f"run {run_id!r:.80}: an id must be letters and digits, 64 at most."
            )
        return self.journals / f"{run_id}.jsonl"

    def create_journal(self, run_id: str) -> Path:
        """Makes the folders that a new journal needs, and returns the journal's path.

        The file is not made.

        Raises:
            TrackingError: The store cannot be written to, or its disk is full.
        """
        path = self.journal_path(run_id)
        try:
            self.journals.mkdir(parents=True, exist_ok=True)
            if not os.access(self.journals, os.W_OK | os.X_OK):
                raise PermissionError(0, "it is read-only, or belongs to somebody else")
            free = shutil.disk_usage(self.journals).free
            if free < MIN_FREE_BYTES:
                raise OSError(
                    0,
                    f"its disk is full: {free / 2**20:.1f} MiB are free,"
                    f" {MIN_FREE_BYTES / 2**20:.0f} are needed",
                )
        except OSError as error:
            self._remove_empty_folders()
            raise TrackingError(
                f"store {self.root}: cannot be used: {error.strerror}. Choose another one with"
                " --store."
            ) from error
        return path

    def discard(self, run_id: str) -> None:
        """Removes what a run left in the store, and the folders that are empty then."""
        with contextlib.suppress(NotADirectoryError):
            for leftover in self.journals.glob(f"{run_id}.*"):
                if leftover.name.endswith(_OF_A_RUN):
                    self._remove(leftover)
        self._remove_empty_folders()

    def read_state(self, run_id: str) -> TrackingState | None:
        """Returns where a run is tracked; None if nothing was noted, or the note is damaged."""
        try:
            table = read_json(read_regular_file(self._state_path(run_id)))
            uri = without_secrets(table["tracking_uri"] or self.tracking_uri)
            return build(TrackingState, table | {"tracking_uri": uri}, "state")
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecipeError):
            return None

    def write_state(self, run_id: str, state: TrackingState) -> None:
        """Notes where a run is tracked, without a password.

        A reader sees the old note or the new one, never a part.

        Raises:
            OSError: The store cannot be written to.
        """
        path = self._state_path(run_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        fields = dataclasses.asdict(state)
        fields["tracking_uri"] = None  # the store's own is left out, so that a store can be moved
        if state.tracking_uri != self.tracking_uri:
            fields["tracking_uri"] = without_secrets(state.tracking_uri)
        write_whole(path, json.dumps(fields))

    def run_ids(self) -> list[str]:
        """Returns the ids of all runs that have a journal."""
        return sorted(path.stem for path in self.journals.glob("*.jsonl"))

    def heads(self) -> list[RunHead]:
        """Returns what the requests in the journals say of each run, newest first.

        It leaves out damaged journals.
        """
        heads = map(self._read_head, self.run_ids())
        return sorted(filter(None, heads), key=lambda head: head.created, reverse=True)

    def find(self, token: str, *, trained: bool = False) -> str:
        """Returns the id of the run that a user means.

        Args:
            token: The beginning of its id, a run name, or "@last".
            trained: Whether it must be one that trained: profiles have no speed, and "@last" passes
                over them.

        Raises:
            UnknownNameError: No run, or more than one, or a profile that must not be one is meant.
        """
        heads = self.heads()
        if not heads:
            raise UnknownNameError(
                f"store {self.root}: holds no runs. `{self.command('run', 'RECIPE')}` makes one,"
                " or name another store with --store."
            )
        matches = _match(heads, token, trained)
        if len(matches) > 1:
            raise UnknownNameError(
                f"run '{token}': matches {len(matches)} runs. Use the id of one:\n{_list(matches)}"
            )
        if not matches:
            names = [head.name for head in heads] + [head.run_id for head in heads]
            near = did_you_mean(token, names)
            raise UnknownNameError(
                f"run '{token}': not in store {self.root}.{near} The newest runs:\n{_list(heads)}"
            )
        run_id = matches[0].run_id
        if trained and matches[0].profile:
            raise UnknownNameError(
                f"run '{token}': {run_id} is a profile of a step, made by `tfbench profile`. It has"
                " no speed of a training to compare, and no epochs to go on from. Name a run that"
                " trained."
            )
        return run_id

    def command(self, *words: str) -> str:
        """Returns a command of tfbench about this store that can be pasted into a shell."""
        return command_line(*words, store=self.root)

    def remove_leftovers(self, is_over: Callable[[str], bool]) -> None:
        """Removes reserved space and half-written files of runs that are over or have no journal.

        A folder of files stays, also without its journal, which its user may have moved away.
        """
        leftovers = [path for path in self.journals.glob("*") if path.name.endswith(_PASSING)]
        # Listed later: a run has its journal before all else but its lock.
        run_ids = set(self.run_ids())
        for path in leftovers:
            run_id = path.name.partition(".")[0]
            is_orphan = run_id not in run_ids and path.suffix != _LOCK_ENDING
            if is_orphan or (not path.name.endswith(_STATE_ENDING) and is_over(run_id)):
                self._remove(path)
        for run_id in filter(is_over, run_ids):  # half-written checkpoints and models
            for part in list((self.journals / f"{run_id}.files").rglob("*.part")):
                self._remove(part)

    def owns(self, path: Path) -> bool:
        """Says whether a path is in the store's folder, not behind a link out of it."""
        return path.parent.resolve().is_relative_to(self.root.resolve())

    def _remove(self, path: Path) -> None:
        if not self.owns(path):
            return
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def _state_path(self, run_id: str) -> Path:
        return self.journal_path(run_id).with_suffix(_STATE_ENDING)

    def _read_head(self, run_id: str) -> RunHead | None:
        try:
            with open(self.journal_path(run_id), "rb", opener=open_at_once) as file:
                request = _find_request(file)
                has_ended_at_once = _is_end(file.readline())
            tags = request.get("tags", {})
            return RunHead(
                run_id=run_id,
                name=str(request["name"]),
                created=float(request["created"]),
                group=str(tags.get(GROUP_TAG, "")),
                sweep=str(tags.get(SWEEP_TAG, "")),
                profile=str((request.get("profile") or {}).get("kind", "")),
                was_begun=not has_ended_at_once,
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, TrackingError):
            return None

    def _remove_empty_folders(self) -> None:
        for folder in (self.journals, self.root):
            with contextlib.suppress(OSError):  # not empty, or not there
                folder.rmdir()


def _find_request(lines: Iterable[bytes]) -> dict[str, Any]:
    """Returns the request of a run from the lines of its journal, of which the first holds it.

    Raises:
        ValueError: No line does.
    """
    for line in lines:
        with contextlib.suppress(ValueError):
            record = parse(line)
            if record["kind"] == "request":
                request: dict[str, Any] = record["request"]
                return request
    raise ValueError("it holds no request")


def _is_end(line: bytes) -> bool:
    """Says whether a line of a journal is the end of its run."""
    try:
        kind: str = parse(line)["kind"]
    except ValueError:
        return False
    return kind == "exit"


def _match(heads: list[RunHead], token: str, trained: bool) -> list[RunHead]:
    """Returns the runs that a user may mean: by an id, as "@last", or else by a name."""
    if token == "@last":  # noqa: S105 - no password
        begun = [head for head in heads if head.was_begun]
        candidates = [head for head in begun if not (trained and head.profile)]
        return (candidates or begun)[:1]
    exact = [head for head in heads if head.run_id == token]
    if exact:
        return exact
    matches = []
    for head in heads:
        is_beginning = bool(token) and head.run_id.startswith(token)
        if is_beginning or head.name == token:
            matches.append(head)
    return matches


def _list(heads: list[RunHead]) -> str:
    lines = [f"  {head.run_id}  {head.name}" for head in heads[:SHOWN_CANDIDATES]]
    if len(heads) > SHOWN_CANDIDATES:
        lines.append(f"  ... and {len(heads) - SHOWN_CANDIDATES} more")
    return "\n".join(lines)
