"""`tfbench run` as a user starts it: a process of its own, with nothing of the caller's environment and no network.

Its store has MLflow's database already, as it has for all but a user's first command: making one takes seconds.
"""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import unquote

import psutil

from journals import make_database
from tfbench.store.store import Store

NO_CHECKS = ("--set", "measurement.checks=false")  # of the input pipeline and the peak: seconds beside short trainings
DEADLINE_SECONDS = 240.0  # for what must happen, on a machine that is busy
_NO_NETWORK = "http://127.0.0.1:9"  # nothing listens there, so it is rejected at once
_LEAN_IMPORT = """
from tfbench.machine.lean_import import NOT_NEEDED, import_without
import_without("tensorflow", NOT_NEEDED)
"""


class Finished(NamedTuple):
    """What a command left behind."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.stdout)


class Command:
    """A `tfbench` command under way; with `is_first` in a store that it has to make."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        store: Path | None = None,
        stdout: IO[bytes] | None = None,
        ignored: tuple[signal.Signals, ...] = (),
        nicer_by: int = 0,
        is_first: bool = False,
        **environment: str,
    ) -> None:
        self.store = store or cwd / "mlruns"
        if not is_first:
            _have_database(arguments, cwd)
        self._output = cwd / f"{time.monotonic_ns()}.out"
        self._errors = self._output.with_suffix(".err")
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tfbench", *arguments],
                cwd=cwd,
                env=clean_environment() | environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout or output,
                stderr=errors,
                preexec_fn=partial(_prepare, ignored, nicer_by),
            )

    @property
    def stdout(self) -> str:
        """What it has written so far."""
        return self._output.read_text(encoding="utf-8")

    @property
    def stderr(self) -> str:
        """What it has complained of so far."""
        return self._errors.read_text(encoding="utf-8")

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to this process alone."""
        self.process.send_signal(number)

    def wait(self) -> Finished:
        """Waits for its end."""
        try:
            exit_code = self.process.wait(DEADLINE_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
        finished = Finished(exit_code, self.stdout, self.stderr)
        self._output.unlink()
        self._errors.unlink()
        return finished

    def journal(self) -> list[dict[str, Any]]:
        """Returns the records of the newest run of its store."""
        return journal_of(self.store)

    def wait_for(self, kind: str, *, count: int = 1) -> list[dict[str, Any]]:
        """Waits until the journal holds `count` records of a kind, and returns them."""

        def are_there() -> bool:
            has_ended = self.process.poll() is not None  # before reading: what it wrote last counts, too
            found = len(of_kind(self.journal(), kind)) >= count
            assert found or not has_ended, self.stdout + self.stderr
            return found

        wait_until(are_there, f"{count} x {kind}")
        return of_kind(self.journal(), kind)

    def worker(self) -> psutil.Process:
        """Returns its measuring process."""
        (record,) = self.wait_for("worker")
        return psutil.Process(record["pid"])


def wait_for_the_end_of(process: psutil.Process) -> None:
    """Waits for the end of a process that may be no child of this one: nobody may ask for its exit code then."""

    def has_ended() -> bool:
        try:
            return not process.is_running() or bool(process.status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    wait_until(has_ended, f"the end of process {process.pid}")


def run(*arguments: str, cwd: Path, is_first: bool = False, **environment: str) -> Finished:
    """Runs a `tfbench` command to its end."""
    return Command(*arguments, cwd=cwd, is_first=is_first, **environment).wait()


def facts_of(program: str, *arguments: str, **environment: str) -> Any:
    """Runs a Python program in a process of its own, TensorFlow imported as runs import it.

    Returns:
        What it printed as JSON after the word FACTS; None if it printed none.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-c", _LEAN_IMPORT + program, *arguments],
        env=clean_environment() | environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS * 2,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    facts = done.stdout.partition("FACTS")[2]
    return json.loads(facts) if facts else None


def _have_database(arguments: tuple[str, ...], cwd: Path) -> None:
    """Gives the store that a command is told of a database, if there is none yet."""
    named = dict(itertools.pairwise(arguments)).get("--store", "mlruns")
    store = Store(cwd / named)
    if not store.database.exists() and not store.journals.exists():
        make_database(store)


def _prepare(ignored: tuple[signal.Signals, ...], nicer_by: int) -> None:
    """Lets a command inherit these signals as ignored and no others, whatever started the tests (nohup does)."""
    if nicer_by:
        os.nice(nicer_by)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)


def clean_environment() -> dict[str, str]:
    """Returns this environment without what changes tfbench, and without a way to the network."""
    dropped = ("MLFLOW_", "TFBENCH_", "TFDS_", "CUDA_", "XLA_", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _NO_NETWORK)
    return (
        kept
        | proxies
        | {"no_proxy": "127.0.0.1,localhost", "MLFLOW_DISABLE_TELEMETRY": "true", "XDG_CONFIG_HOME": "/nowhere"}
        | {"TFBENCH_CACHE_DIR": ""}
    )


def journal_of(store: Path) -> list[dict[str, Any]]:
    """Returns the whole records of the newest journal of a store, none if there is no journal yet."""
    paths = sorted((store / "journals").glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    lines = paths[-1].read_bytes().split(b"\n")[:-1] if paths else []
    return [json.loads(line) for line in lines]


def of_kind(records: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Returns the records of a kind."""
    return [record for record in records if record["kind"] == kind]


def printed_epochs(stdout: str) -> list[int]:
    """Returns the numbers of the epochs in the table that the console prints of a run."""
    _, _, rows = stdout.partition("epoch  samples/s")
    return [int(number) for number in re.findall(r"^ {0,4}(\d+)\*? {2,}.*\d$", rows, re.MULTILINE)]


def tracked_runs(store: Path, tracking_uri: str | None = None) -> list[Any]:
    """Returns all runs of MLflow's experiment, oldest first."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=tracking_uri or f"sqlite:///{store.absolute()}/mlflow.db")
    experiment = client.get_experiment_by_name("tfbench")
    return client.search_runs([experiment.experiment_id], order_by=["start_time ASC"]) if experiment else []


def tracked_files(run: Any) -> Path:
    """Returns the folder of an MLflow run's files in an embedded store."""
    return Path(unquote(run.info.artifact_uri.removeprefix("file://")))


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = DEADLINE_SECONDS) -> None:
    """Polls until something is so."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.05)
