"""A PostgreSQL of its own for a benchmark: started, killed, started again, and ended."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from browser import free_port
from contract import wait_until
from servers import end_family

USER = "tracking"
PASSWORD = "pl4nted"
DATABASE = "runs"


class Postgres:
    """A PostgreSQL of its own in a folder.

    It refuses to run as root, and runs as the user of Debian's package then.

    Args:
        folder: Of its data, to which that user has a way.
    """

    def __init__(self, folder: Path) -> None:
        programs = find_programs()
        assert programs, "PostgreSQL is not installed"
        self.port = free_port()
        self.uri = f"postgresql+psycopg2://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{DATABASE}"
        self._programs = programs
        self._folder = folder
        self._user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        folder.mkdir(mode=0o700)
        (folder / "password").write_text(PASSWORD)
        if self._user:
            for path in (folder, folder / "password"):
                os.chown(path, self._user.pw_uid, self._user.pw_gid)
        arguments = [
            "-D",
            folder / "data",
            "-U",
            USER,
            "-A",
            "scram-sha-256",
            f"--pwfile={folder / 'password'}",
        ]
        self._run("initdb", *arguments, "-E", "UTF8", "--no-sync")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and waits until it lets somebody in; makes the database at the first time."""
        wait_until(self._try_to_start, "PostgreSQL")

    def kill(self) -> None:
        """Kills it with all its processes at once."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """Ends it, if it runs."""
        self._end(signal.SIGINT)

    def _try_to_start(self) -> bool:
        """Starts it if it does not run.

        What a killed one left in memory may keep it from that for a moment.
        """
        if self._process is None or self._process.poll() is not None:
            command = [
                "-D",
                self._folder / "data",
                "-p",
                str(self.port),
                "-k",
                self._folder,
                "-h",
                "127.0.0.1",
            ]
            with (self._folder / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    [self._programs / "postgres", *command],
                    stdout=log,
                    stderr=log,
                    **self._identity(),
                )
        made = self._create(DATABASE)
        return not made.returncode or "already exists" in made.stderr

    def _create(self, database: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [
                self._programs / "createdb",
                "-h",
                "127.0.0.1",
                "-p",
                str(self.port),
                "-U",
                USER,
                database,
            ],
            env=os.environ | {"PGPASSWORD": PASSWORD},
            capture_output=True,
            text=True,
            check=False,
        )

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        end_family(self._process, number)
        self._process = None

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self._programs / program), *map(str, arguments)]
        subprocess.run(command, check=True, capture_output=True, **self._identity())

    def _identity(self) -> dict[str, object]:
        if self._user is None:
            return {"cwd": self._folder}
        return {
            "cwd": self._folder,
            "user": self._user.pw_uid,
            "group": self._user.pw_gid,
            "extra_groups": [],
        }


def find_programs() -> Path | None:
    """Returns the folder of PostgreSQL's programs, the newest of Debian's."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3])
    )
    return folders[-1].parent if folders else None
