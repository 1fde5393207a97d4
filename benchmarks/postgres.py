"""A PostgreSQL of its own for a benchmark: started, killed, started again, and ended."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from browser import free_port
from contract import wait_until
from runs import end_family

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
        self._programs = find_programs()
        self._folder = folder
        self._address = ["-h", "127.0.0.1", "-p", str(free_port())]
        place = f"127.0.0.1:{self._address[-1]}"
        self.uri = f"postgresql+psycopg2://{USER}:{PASSWORD}@{place}/{DATABASE}"
        self._process: subprocess.Popen[bytes] | None = None
        self._identity: dict[str, Any] = {"cwd": folder}
        folder.mkdir(mode=0o700)
        password = folder / "password"
        password.write_text(PASSWORD)
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            self._identity |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            for path in (folder, password):
                os.chown(path, user.pw_uid, user.pw_gid)
        words = ["-U", USER, "-A", "scram-sha-256", f"--pwfile={password}", "-E", "UTF8"]
        command = [self._programs / "initdb", "-D", folder / "data", *words, "--no-sync"]
        subprocess.run(command, check=True, capture_output=True, **self._identity)

    def start(self) -> None:
        """Starts it, and waits until it lets somebody in; makes the database at the first time."""
        wait_until(self._try_to_start, "PostgreSQL")

    def close(self, number: signal.Signals = signal.SIGINT) -> None:
        """Ends it, if it runs; by SIGKILL with all its processes at once."""
        if self._process:
            end_family(self._process, number)
            self._process = None

    def _try_to_start(self) -> bool:
        """Starts it if it does not run.

        What a killed one left in memory may keep it from that for a moment.
        """
        if self._process is None or self._process.poll() is not None:
            command = [self._programs / "postgres", "-D", self._folder / "data", *self._address]
            with (self._folder / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    [*command, "-k", self._folder], stdout=log, stderr=log, **self._identity
                )
        made = subprocess.run(
            [self._programs / "createdb", *self._address, "-U", USER, DATABASE],
            env=os.environ | {"PGPASSWORD": PASSWORD},
            capture_output=True,
            text=True,
            check=False,
        )
        return not made.returncode or "already exists" in made.stderr


def find_programs() -> Path:
    """Returns the folder of PostgreSQL's programs, the newest of Debian's."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    folders = list(Path("/usr/lib/postgresql").glob("*/bin"))
    assert folders, "PostgreSQL is not installed"
    return max(folders, key=lambda folder: float(folder.parent.name))
