"""The store: a folder that holds the journals, MLflow's database and the runs' artifacts."""

import contextlib
import dataclasses
import os
import re
import shutil
from pathlib import Path
from typing import Any

from tfbench.errors import TrackingError, UnknownNameError, did_you_mean
from tfbench.records import worker_journals
from tfbench.records.journal import files_folder
from tfbench.records.json_lines import parse
from tfbench.records.plain_files import open_at_once
from tfbench.store import tracking_state
from tfbench.store.locks import locked
from tfbench.store.tracking_state import TrackingState
from tfbench.wording import command_line

DEFAULT_EXPERIMENT = "tfbench"
MIN_FREE_BYTES = 4 * 2**20  # a database, a journal and a few plots of a short run
SHOWN_CANDIDATES = 8
_STATE_ENDING, _LOCK_ENDING = "tracked.json", "lock"
_LEFTOVER = re.compile(
    r"(.+?)\.(reserve|lock|tracked\.json|(?:(?:jsonl|brief\.json|tracked\.json)\.)?\w+\.part|part|\w+\.work)"
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunHead:
    """What tells one run of the store from another."""

    run_id: str
    name: str
    created: float  # seconds since 1970, UTC
    mlflow_run_id: str
    group: str = ""  # of runs that it was made with, as repeats of each other
    profile: str = ""  # what was found out of its step instead of a training: "step" or "trace"


class Store:
    """A folder of runs. Making one touches nothing; folders come into being with the first run."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        if set("?#%") & set(str(self.root.absolute())):  # MLflow would have its database elsewhere
            raise TrackingError(
                f"store {self.root.absolute()}: a path with '?', '#' or '%' cannot be written as the address of a "
                "database. Choose another one with --store."
            )

    @property
    def database(self) -> Path:
        """MLflow's SQLite database."""
        return self.root / "mlflow.db"

    @property
    def artifacts(self) -> Path:
        """The folder of MLflow's artifacts."""
        return self.root / "artifacts"

    @property
    def journals(self) -> Path:
        """The folder of the journals."""
        return self.root / "journals"

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
            raise TrackingError(f"run {run_id!r:.80}: an id must be letters and digits, 64 at most.")
        return self.journals / f"{run_id}.jsonl"

    def create_journal(self, run_id: str) -> Path:
        """Makes the folders that a new journal needs, and returns the journal's path; the file is not made.

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
                    0, f"its disk is full: {free / 2**20:.1f} MiB are free, {MIN_FREE_BYTES / 2**20:.0f} are needed"
                )
        except OSError as error:
            self._remove_empty_folders()
            raise TrackingError(
                f"store {self.root}: cannot be used: {error.strerror}. Choose another one with --store."
            ) from error
        return path

    def discard(self, run_id: str) -> None:
        """Removes what a run left in the store, and the folders that are empty then."""
        path = self.journal_path(run_id)
        with contextlib.suppress(NotADirectoryError):
            for leftover in (*self._files_of(run_id), files_folder(path)):
                self._remove(leftover)
        self._remove_empty_folders()

    def read_state(self, run_id: str) -> TrackingState | None:
        """Returns where a run is tracked; None if nothing was noted, or the note is damaged."""
        return tracking_state.read(self._state_path(run_id), self.tracking_uri)

    def write_state(self, run_id: str, state: TrackingState) -> None:
        """Notes where a run is tracked, without a password; a reader sees the old note or the new one, never a part.

        Raises:
            OSError: The store cannot be written to.
        """
        path = self._state_path(run_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        tracking_state.write(path, state, self.tracking_uri)

    def run_ids(self) -> list[str]:
        """Returns the ids of all runs that have a journal."""
        return sorted(path.stem for path in self.journals.glob("*.jsonl"))

    def heads(self) -> list[RunHead]:
        """Returns what is known of each run by its journal's first line, newest first; damaged ones are left out."""
        heads = [head for run_id in self.run_ids() if (head := self._read_head(run_id))]
        return sorted(heads, key=lambda head: head.created, reverse=True)

    def find(self, token: str) -> str:
        """Returns the id of the run that a user means.

        Args:
            token: The beginning of tfbench's or MLflow's id, a run name, or "@last".

        Raises:
            UnknownNameError: No run, or more than one, is meant.
        """
        heads = self.heads()
        if not heads:
            raise UnknownNameError(
                f"store {self.root}: holds no runs. `{self.command('run', 'RECIPE')}` makes one; "
                "--store names another store."
            )
        if token == "@last":  # noqa: S105 - no password
            return heads[0].run_id
        exact = [head for head in heads if token in (head.run_id, head.mlflow_run_id)]
        found = exact or [head for head in heads if _is_meant(head, token)]
        if len(found) == 1:
            return found[0].run_id
        if found:
            raise UnknownNameError(
                f"run '{token}': {len(found)} runs are meant by it. Use more of an id:\n{_list(found)}"
            )
        near = did_you_mean(token, [name for head in heads for name in (head.name, head.run_id)])
        raise UnknownNameError(f"run '{token}': not in store {self.root}.{near} The newest runs:\n{_list(heads)}")

    def command(self, *words: str) -> str:
        """Returns a command of tfbench about this store, as a shell takes it."""
        return command_line(*words, store=self.root)

    def find_training(self, token: str) -> str:
        """Returns the id of the run that a user means where it must be one that trained; profiles have no speed.

        Args:
            token: As of `find`; "@last" passes over profiles.

        Raises:
            UnknownNameError: No run, or more than one, or a profile is meant.
        """
        heads = self.heads()
        trained = [head.run_id for head in heads if not head.profile]
        if token == "@last" and trained:  # noqa: S105 - no password
            return trained[0]
        run_id = self.find(token)
        if run_id not in trained:
            raise UnknownNameError(
                f"run '{token}': {run_id} is a profile of a step, made by `tfbench profile`. It has no speed of a "
                "training to compare, and no epochs to go on from. Name a run that trained."
            )
        return run_id

    def runs_with_leftovers(self) -> set[str]:
        """Returns the ids of runs that have space set aside, or something half written; they may be under way."""
        return {match[1] for _, match in self._leftovers() if match[2] != _STATE_ENDING}

    def remove_leftovers(self, dead_run_ids: set[str]) -> None:
        """Removes space that runs set aside and what they left half written, where a run is over or has no journal."""
        leftovers, folders = self._leftovers(), list(self.journals.glob("*.files"))
        known = set(self.run_ids())  # later: a run has its journal before all else but its lock
        for path, match in leftovers:
            is_known, is_dead = match[1] in known, match[1] in dead_run_ids
            if (is_dead and match[2] != _STATE_ENDING) or (not is_known and match[2] != _LOCK_ENDING):
                self._remove(path)
        for folder in folders:
            if folder.stem not in known:
                if not any(
                    folder.glob(f"{worker_journals.FOLDER}/*.jsonl")
                ):  # of a run that another machine's store has
                    self._remove(folder)
            elif folder.stem in dead_run_ids:  # half-written checkpoints and models
                for part in (*folder.glob("*.part"), *folder.glob("checkpoints/*.part")):
                    self._remove(part)

    def lock(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Holds one of the store's locks; another process waits for it, and a killed one gives it back.

        Raises:
            OSError: The store cannot be written to.
        """
        return locked(self.root / f".{name}.lock")

    def _files_of(self, run_id: str) -> tuple[Path, ...]:
        path = self.journal_path(run_id)
        endings = (".reserve", ".brief.json", f".{_LOCK_ENDING}")
        return path, *(path.with_suffix(ending) for ending in endings), self._state_path(run_id)

    def _leftovers(self) -> list[tuple[Path, re.Match[str]]]:
        paths = list(self.journals.glob("*"))
        return [(path, match) for path in paths if (match := _LEFTOVER.fullmatch(path.name))]

    def _state_path(self, run_id: str) -> Path:
        return self.journal_path(run_id).with_suffix(".tracked.json")

    def _read_head(self, run_id: str) -> RunHead | None:
        try:
            with open(self.journal_path(run_id), "rb", opener=open_at_once) as file:
                request: dict[str, Any] = parse(file.readline())["request"]
            state = self.read_state(run_id)
            return RunHead(
                run_id=run_id,
                name=str(request["name"]),
                created=float(request["created"]),
                mlflow_run_id=state.run.run_id if state and state.run else "",
                group=str(request.get("tags", {}).get("tfbench.group", "")),
                profile=str((request.get("profile") or {}).get("kind", "")),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, TrackingError):
            return None

    def owns(self, path: Path) -> bool:
        """Says whether a file lies in this folder, wherever links lead; what does not is neither removed nor moved."""
        return path.parent.resolve().is_relative_to(self.root.resolve())

    def _remove(self, path: Path) -> None:
        """Removes a file, a folder, or a link itself; nothing to which a link leads out of the store."""
        if not self.owns(path):
            return
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def _remove_empty_folders(self) -> None:
        for folder in (self.journals, self.root):
            with contextlib.suppress(OSError):  # not empty, or not there
                folder.rmdir()


def _is_meant(head: RunHead, token: str) -> bool:
    by_id = bool(token) and (head.run_id.startswith(token) or head.mlflow_run_id.startswith(token))
    return by_id or head.name == token


def _list(heads: list[RunHead]) -> str:
    lines = [f"  {head.run_id}  {head.name}" for head in heads[:SHOWN_CANDIDATES]]
    if len(heads) > SHOWN_CANDIDATES:
        lines.append(f"  ... and {len(heads) - SHOWN_CANDIDATES} more")
    return "\n".join(lines)
