"""What holds for every test.

No network beyond this machine, and nothing of the caller's environment.
"""

import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import sharing
from contract import Finished

settings.register_profile(
    "few",
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
settings.register_profile(
    "many", settings.get_profile("few"), max_examples=10_000, derandomize=False, print_blob=True
)
if not any(argument.startswith("--hypothesis-profile") for argument in sys.argv):
    settings.load_profile("few")

# Read by libraries when they are imported, so set before any test module is.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["DO_NOT_TRACK"] = "true"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

# They say that a process is one of several, or which repository is meant, to what a launcher, or a
# hook of git, starts.
_SURROUNDINGS = ("GIT_", "OMPI_", "PMI_", "SLURM_")
_PLACES = ("JOB_COMPLETION_INDEX", "RANK", "WORLD_SIZE")
_SETTINGS = ("TFDS_DATA_DIR", "CUDA_VISIBLE_DEVICES", "XLA_FLAGS", *_PLACES)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Says how many faults `pytest -m faults` injects, and which."""
    group = parser.getgroup("faults")
    group.addoption(
        "--faults", type=int, default=20, help="how many faults `-m faults` injects (default: 20)"
    )
    group.addoption(
        "--seed", type=int, default=0, help="what the faults are drawn from (default: 0)"
    )
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write tests/golden/ anew from what is shown now",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Passes over all but tests/gpu with `-m gpu`.

    None is elsewhere, where some cannot be read without TensorFlow.
    """
    is_other = collection_path.parent == Path(__file__).parent and collection_path.name != "gpu"
    return True if is_other and config.option.markexpr == "gpu" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks tests by their folder, and leaves out what takes minutes unless it is asked for.

    No two machines meet the same moments of faults.
    """
    for item in items:
        if {"contract", "integration"}.intersection(item.path.parts):
            item.add_marker(pytest.mark.integration)
    for name in ("faults", "corpus"):
        if name in config.option.markexpr:
            continue
        left_out = [item for item in items if item.get_closest_marker(name)]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(tryfirst=True)  # before fixtures that a test shares with others
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips tests that need more GPUs than this machine has.

    `@pytest.mark.gpu` asks for one, `@pytest.mark.gpu(2)` for two.
    """
    if marker := item.get_closest_marker("gpu"):
        from gpu_machine import why_skipped

        if reason := why_skipped(*marker.args):
            pytest.skip(reason)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes away the variables that change what tfbench does."""
    for name in list(os.environ):
        if name.startswith(("MLFLOW_", "TFBENCH_", *_SURROUNDINGS)) or name in _SETTINGS:
            monkeypatch.delenv(name)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")
    monkeypatch.setenv("TFBENCH_CACHE_DIR", "")


@pytest.fixture(autouse=True)
def forked_mlflow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has MLflow's process forked from one that has MLflow imported, but for tests marked `cold`."""
    from tfbench.machine import children

    if not request.node.get_closest_marker("cold"):
        monkeypatch.setattr(children, "start", sharing.fork_mlflow(children.start))


@pytest.fixture(autouse=True)
def heard_signals() -> None:
    """Lets tests hear Ctrl-C: a shell has what it starts in the background ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a test reach this machine only.

    Anything else fails at once, as it would without a network.
    """
    real_resolve = socket.getaddrinfo
    real_connect = socket.socket.connect

    def resolve(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_local(host):
            raise socket.gaierror(socket.EAI_NONAME, f"no network in tests: {host}")
        return real_resolve(host, *args, **kwargs)

    def connect(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_local(address[0]):
            raise OSError(f"no network in tests: {address}")
        real_connect(self, address)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket.socket, "connect", connect)


@pytest.fixture
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Makes an empty folder the current one, as a user's would be.

    What is imported from there is forgotten.
    """
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """An empty store, not yet on the disk."""
    from tfbench.store.store import Store

    return Store(tmp_path / "mlruns")


@pytest.fixture
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws no plots of a run that is tracked in this process: they take a second."""
    from tfbench.tracking import run_files

    monkeypatch.setattr(run_files, "write_plots", lambda *_: [])


@pytest.fixture
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes away what makes rich colour a pipe, or take a terminal for a simple one."""
    for name in (
        "FORCE_COLOR",
        "NO_COLOR",
        "TTY_COMPATIBLE",
        "TTY_INTERACTIVE",
        "COLUMNS",
        "LINES",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Holds a text against a file in tests/golden/: `golden("cost_80.txt", text)`."""

    def hold(name: str, text: str) -> None:
        path = Path(__file__).parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return hold


@pytest.fixture
def with_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has this machine accept setups on GPUs, as one that has them."""
    from tfbench.runs import launch
    from tfbench.sweeps import planning

    for module in (launch, planning):
        monkeypatch.setattr(module, "require_gpus", lambda devices: None)


@pytest.fixture
def tfbench(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Finished]:
    """Runs the command line in this process: `tfbench("show", "mnist_mlp").exit_code`."""
    from tfbench.cli import main

    def run(*arguments: str) -> Finished:
        monkeypatch.setattr(sys, "argv", ["tfbench", *arguments])
        for name in ("stdout", "stderr"):  # which `main` replaces
            monkeypatch.setattr(sys, name, getattr(sys, name))
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        return Finished(int(caught.value.code or 0), *capsys.readouterr())

    return run


def _is_local(host: Any) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "localhost", socket.gethostname()):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback or ipaddress.ip_address(name).is_unspecified
    except ValueError:
        return False
