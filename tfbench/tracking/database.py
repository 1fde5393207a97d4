"""MLflow's database as a file.

MLflow makes it, whole or not at all; everything else here reads and changes it without MLflow.
"""

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from tfbench.errors import TrackingError
from tfbench.store.liveness import locked
from tfbench.store.whole_files import replacing
from tfbench.wording import command_line

OPEN_SECONDS = 20.0  # MLflow's own patience with a locked database


def create(database: Path) -> None:
    """Has MLflow make a database, unless another process was faster.

    MLflow's files go into a folder beside it.

    The database appears under its name in one step: a process that is killed on the way leaves
    nothing that is taken for a database, and processes that start at once do not meet half of one.
    What SQLite kept beside a database that was deleted goes first: its unfinished writes would be
    put into the new one.

    Raises:
        TrackingError: The folder cannot be written to.
        OSError: The database cannot.
    """
    artifacts = (database.parent / "artifacts").absolute().as_uri()
    with locked(database.parent / ".init.lock"):
        for part in database.parent.glob(f"{database.name}.*.part"):
            shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
        if not database.exists():
            with replacing(database) as part:
                _make(part, artifacts)
                with contextlib.closing(sqlite3.connect(part)) as connection:
                    # For `relocate`.
                    connection.execute("UPDATE experiments SET artifact_location = ?", [artifacts])
                    connection.commit()
                    # With a rollback journal, a reader in MLflow's user interface holds a writer up
                    # for a tenth of a second.
                    connection.execute("PRAGMA journal_mode = WAL")
                for beside in ("-wal", "-shm", "-journal"):
                    database.with_name(database.name + beside).unlink(missing_ok=True)


def _make(path: Path, artifacts: str) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    SqlAlchemyStore(f"sqlite:///{path}", artifacts).engine.dispose()


def relocate(database: Path, artifacts: Path) -> None:
    """Has a store's database look for files where the store is now.

    MLflow keeps absolute paths, and stores are moved. Where the store was before is known from
    MLflow's own "Default" experiment, for which `create` set it.

    Raises:
        sqlite3.Error: It is no database of MLflow, or cannot be written to.
    """
    new = artifacts.absolute().as_uri()
    with _open(database) as connection:
        row = connection.execute(
            "SELECT artifact_location FROM experiments WHERE experiment_id = 0"
        ).fetchone()
        old = row[0] if row else new
        if old == new or not old.endswith(f"/{artifacts.name}"):
            return
        next_character = len(old) + 1
        with connection:
            for table, column in (("experiments", "artifact_location"), ("runs", "artifact_uri")):
                connection.execute(
                    f"UPDATE {table} SET {column} = ? || substr({column}, ?) "  # noqa: S608 - of the names above
                    f"WHERE {column} = ? OR substr({column}, 1, ?) = ?",
                    [new, next_character, old, next_character, f"{old}/"],
                )


def require_whole(database: Path) -> None:
    """Raises if a store's database is damaged or cannot be read, but not if it is not there yet.

    Raises:
        TrackingError: Saying what is wrong, and what to do about it.
    """
    try:
        if database.is_file():
            with _open(database) as connection:
                (report,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if report != "ok":
                problem = str(report).replace("*** in database main ***", "")
                raise sqlite3.DatabaseError(" ".join(problem.split()))
    # Another process holds it, it is not permitted, or the disk fails.
    except sqlite3.OperationalError as error:
        raise TrackingError(
            f"{database}: cannot be read: {error}. Make sure that no other process keeps it, and"
            " that you may read and write it and its folder;"
            f" `{command_line('recover', store=database.parent)}` tries again."
        ) from error
    except sqlite3.Error as error:
        raise TrackingError(
            f"{database}: is damaged: {error}. All that was measured is in the journals: move"
            f" {database.name} and the files {database.name}-* beside it away, and"
            f" `{command_line('recover', '--all', store=database.parent)}` rebuilds it."
        ) from error


def experiment_ids(database: Path) -> dict[str, str]:
    """Returns names and ids of the experiments that were not deleted.

    Raises:
        sqlite3.Error: The file is no database of MLflow.
    """
    with _open(database) as connection:
        rows = connection.execute(
            "SELECT name, experiment_id FROM experiments WHERE lifecycle_stage = 'active'"
        )
        return {str(name): str(experiment_id) for name, experiment_id in rows}


@contextlib.contextmanager
def _open(database: Path) -> Iterator[sqlite3.Connection]:
    # rw: falls back to reading, but never makes a file
    uri = f"file:{quote(str(database.absolute()))}?mode=rw"
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=OPEN_SECONDS)) as connection:
        yield connection
