"""`tfbench run` as a user starts it.

A process of its own, with nothing of the caller's environment and no network.

Its store has MLflow's database already, as it has for all but a user's first command: making one
takes seconds.
"""

import contextlib
import itertools
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

import psutil

import contract
import sharing
from contract import DEADLINE_SECONDS, Finished, wait_until
from journals import make_database
from tfbench.store.store import Store

# variables that no start of a process needs
_READ_LATER = {"no_proxy", "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_URI", "TFBENCH_CACHE_DIR"}
NO_CHECKS = (
    "--set",
    "measurement.checks=false",
)  # of the input pipeline and the peak: seconds beside short trainings


class Command:
    """A `tfbench` command under way; with `is_first` in a store that it has to make.

    It is forked with everything imported, and so are its runs; with `is_cold`, variables that a
    start needs, or signals that it ignores, it starts as a user's does, and so do they.
    """

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        store: Path | None = None,
        stdout: IO[bytes] | None = None,
        ignored: tuple[signal.Signals, ...] = (),
        is_first: bool = False,
        is_cold: bool = False,
        **environment: str,
    ) -> None:
        self.store = store or cwd / "mlruns"
        if not is_first:
            _have_database(arguments, cwd)
        self._output = cwd / f"{time.monotonic_ns()}.out"
        self._errors = self._output.with_suffix(".err")
        self.process: subprocess.Popen[bytes] | sharing.Forked
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            files = (stdout or output, errors)
            if is_cold or ignored or set(environment) - _READ_LATER:
                self.process = subprocess.Popen(
                    [*_hearing(ignored), sys.executable, "-P", "-m", "tfbench", *arguments],
                    cwd=cwd,
                    env=clean_environment() | environment,
                    stdin=subprocess.DEVNULL,
                    stdout=files[0],
                    stderr=files[1],
                )
            else:
                self.process = sharing.Forked(
                    sharing.server_of_session(),
                    sharing.COMMAND_LINE,
                    arguments,
                    cwd=str(cwd),
                    environment=clean_environment() | environment,
                    output=(files[0].fileno(), files[1].fileno()),
                )

    def __enter__(self) -> "Command":
        return self

    def __exit__(self, *_: object) -> None:
        end_family(self.process, signal.SIGKILL)

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
            has_ended = (
                self.process.poll() is not None
            )  # before reading: what it wrote last counts, too
            found = len(of_kind(self.journal(), kind)) >= count
            assert found or not has_ended, self.stdout + self.stderr
            return found

        wait_until(are_there, f"{count} x {kind}")
        return of_kind(self.journal(), kind)

    def worker(self) -> psutil.Process:
        """Returns its measuring process."""
        (record,) = self.wait_for("worker")
        return psutil.Process(record["pid"])


def end_family(process: "subprocess.Popen[bytes] | sharing.Forked", number: signal.Signals) -> None:
    """Sends a signal to a process, and to what it started if that is to kill.

    Kills what does not end.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        family = [
            psutil.Process(process.pid),
            *psutil.Process(process.pid).children(recursive=True),
        ]
        for relative in family if number == signal.SIGKILL else family[:1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                relative.send_signal(number)
        for alive in psutil.wait_procs(family, timeout=20.0)[1]:
            alive.kill()
    process.wait()


def wait_for_the_end_of(process: psutil.Process) -> None:
    """Waits for the end of a process that may be no child of this one.

    Nobody may ask for its exit code then.
    """

    def has_ended() -> bool:
        try:
            return not process.is_running() or bool(process.status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    wait_until(has_ended, f"the end of process {process.pid}")


def run(*arguments: str, cwd: Path, **options: Any) -> Finished:
    """Runs a `tfbench` command to its end, with the options of `Command`."""
    return Command(*arguments, cwd=cwd, **options).wait()


def run_json(*arguments: str, cwd: Path, **options: Any) -> Any:
    """Runs a `tfbench` command that must succeed, and returns its JSON document."""
    done = run(*arguments, "--format", "json", cwd=cwd, **options)
    assert done.exit_code == 0, done.stderr
    return done.document


def facts_of(program: str | Path, *arguments: str, **environment: str) -> Any:
    """Runs a Python program in a process of its own, and returns the JSON that it printed last.

    Args:
        program: A file; or a text, before which TensorFlow is imported as runs import it.
        arguments: Of the program.
        environment: What it has beside this process's.
    """
    words = [str(program)] if isinstance(program, Path) else ["-P", "-c", program]
    done = subprocess.run(
        [sys.executable, *words, *arguments],
        env=clean_environment() | environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS * 2,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def run_in_bash(script: str, cwd: Path) -> str:
    """Returns what a script prints, which must succeed.

    Its `tfbench` is forked as `Command` is; it reads no stdin.
    """
    server = sharing.server_of_session()
    command = (
        f'tfbench() {{ {sys.executable} -P {sharing.__file__} run {server} "$@"; }};'
        " export -f tfbench\n"
    )
    done = subprocess.run(
        ["bash", "-e", "-c", command + script],
        cwd=cwd,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _have_database(arguments: tuple[str, ...], cwd: Path) -> None:
    """Gives the store that a command is told of a database, if there is none yet."""
    named = dict(itertools.pairwise(arguments)).get("--store", "mlruns")
    store = Store(cwd / named)
    if not store.database.exists() and not store.journals.exists():
        make_database(store)


def _hearing(ignored: tuple[signal.Signals, ...]) -> list[str]:
    """Returns the start of a command that ignores these signals and no others.

    That holds whatever started the tests; nohup ignores SIGHUP, for example.

    Not a function that the new process calls: Python would fork for it, of which JAX warns once it
    has computed.
    """
    numbers = (signal.SIGINT, signal.SIGHUP)
    return [
        "env",
        *(
            f"--{'ignore' if one in ignored else 'default'}-signal={one.name[3:]}"
            for one in numbers
        ),
    ]


def clean_environment() -> dict[str, str]:
    """Returns this environment without what changes tfbench, and without a way to the network."""
    return contract.clean_environment(no_proxy="127.0.0.1,localhost")


def journal_of(store: Path) -> list[dict[str, Any]]:
    """Returns the complete records of a store's newest journal, if there is one."""
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


def tracked_runs(store: Path) -> list[Any]:
    """Returns what MLflow has of a store's runs, oldest first."""
    return contract.measured_in_mlflow(f"sqlite:///{store.absolute()}/mlflow.db")


def tracked_files(run: Any) -> Path:
    """Returns the folder of an MLflow run's files in an embedded store."""
    return Path(unquote(run.info.artifact_uri.removeprefix("file://")))
