"""The command line as the contract tests call it.

A process of its own, exit codes and JSON, nothing of the product.

Other tests wait as it does, and give commands the same environment.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psutil

import sharing

T = TypeVar("T")

# A training of a second: 784 x 8 + 8 and 8 x 10 + 10 parameters, 15 steps an epoch.
TINY = (
    *("mnist_mlp", "--data", "synthetic", "--set", "model.hidden_units=[8]"),
    *("--set", "training.global_batch_size=4096", "--set", "measurement.checks=false"),
)
NUM_PARAMETERS = 6370
DEADLINE_SECONDS = 400.0  # for what must happen, on a machine that is busy
_DROPPED = ("MLFLOW_", "TFBENCH_", "TFDS_", "CUDA_", "XLA_", "PYTEST_", "SLURM_", "OMPI_")
# nothing listens there: there is no network, and nothing is exempt from the proxy
_PROXY = "http://127.0.0.1:9"


class Finished(NamedTuple):
    """What a command left behind."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        assert self.stdout, self
        return json.loads(self.stdout)


def clean_environment(no_proxy: str = "") -> dict[str, str]:
    """Returns this environment without what changes tfbench, and without a way to the network."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _PROXY)
    exempt = {"no_proxy": no_proxy, "NO_PROXY": no_proxy}
    quiet = {
        "XDG_CONFIG_HOME": "/nowhere",
        "TFBENCH_CACHE_DIR": "",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    return kept | proxies | exempt | quiet


def wait_until(is_so: Callable[[], T | None], what: str) -> T:
    """Returns the first true value of `is_so`, which is asked again until a deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (value := is_so()):
        assert time.monotonic() < deadline, f"not within {DEADLINE_SECONDS:.0f} s: {what}"
        time.sleep(0.05)
    return value


def run_forked(arguments: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> Finished:
    """Runs a command to its end, in a process that is forked with everything imported."""
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        process = sharing.Forked(
            sharing.server_of_session(),
            sharing.COMMAND_LINE,
            arguments,
            cwd=str(cwd),
            environment=environment,
            output=(stdout.fileno(), stderr.fileno()),
        )
        try:
            exit_code = process.wait(DEADLINE_SECONDS)
        finally:
            process.kill()
        for file in (stdout, stderr):
            file.seek(0)
        return Finished(exit_code, stdout.read(), stderr.read())


def starts_cold(name: str) -> bool:
    """Says whether a command is the first of its name in this test session, and not `check`.

    How a run starts is one of the settings in which a run and the baseline of a `check` must be
    equal, so that all of these are forked.
    """
    if name == "check":
        return False
    mark = Path(sharing.server_of_session()).with_name(f"started-{name}")
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class Cli:
    """`tfbench` in a folder, whose store is `mlruns`.

    The first command of each name but `check` starts cold, as a user's does, and so do all that
    are started without waiting for them. Others are forked.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "mlruns"

    def __call__(self, *arguments: str) -> Finished:
        """Runs a command to its end."""
        if starts_cold(arguments[0]):
            return self.wait(self.start(*arguments))
        return run_forked(arguments, self.folder, clean_environment())

    def json(self, *arguments: str, exit_code: int = 0) -> Any:
        """Returns the JSON document of a command that ends with an exit code."""
        done = self(*arguments, "--format", "json")
        assert done.exit_code == exit_code, done.stderr[-4000:]
        return done.document

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Starts a command."""
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "tfbench", *arguments],
            cwd=self.folder,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait(self, process: "subprocess.Popen[str]") -> Finished:
        """Waits for the end of a command."""
        try:
            stdout, stderr = process.communicate(timeout=DEADLINE_SECONDS)
        finally:
            process.kill()
        return Finished(process.returncode, stdout, stderr)

    def kill(self, process: "subprocess.Popen[str]") -> None:
        """Kills a command, and waits until what it has started has ended by itself."""
        process.send_signal(signal.SIGSTOP)  # it starts nothing more
        started = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.communicate()
        _, alive = psutil.wait_procs(started, timeout=DEADLINE_SECONDS)
        assert not alive

    def await_lines(self, process: "subprocess.Popen[str]", number: int) -> None:
        """Waits until the newest run has written so many lines to its journal."""

        def are_there() -> bool:
            journals = sorted(
                self.store.glob("journals/*.jsonl"), key=lambda path: path.stat().st_mtime_ns
            )
            return bool(journals) and journals[-1].read_bytes().count(b"\n") >= number

        self.await_(process, are_there)

    def await_(self, process: "subprocess.Popen[str]", is_so: Callable[[], bool]) -> None:
        """Waits until something is so while a command runs."""
        wait_until(lambda: is_so() or process.poll() is not None, str(process.args))
        assert process.poll() is None, process.communicate()


def measured_in_mlflow(tracking_uri: str) -> list[Any]:
    """Returns what MLflow has of measured runs, oldest first.

    Not the ones that hold curves or reports.
    """
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=tracking_uri)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    found = client.search_runs(experiments, order_by=["start_time ASC"])
    return [run for run in found if "tfbench.run_id" in run.data.tags]
