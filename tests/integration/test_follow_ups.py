"""Every command that a command advises runs as it is printed.

By a shell, in a store with a blank, offline.

What measures is stood in for by a run that ends at once; everything else is what a user meets.
"""

import contextlib
import re
import shlex
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from builders import build_dataset, build_result, place_request
from journals import make_database, write_journal
from profile_runs import build_profile_run, write_profile_journal
from tfbench.recipe.files import find_recipe
from tfbench.runs import maker, session
from tfbench.runs.record import RunRequest
from tfbench.runs.stored_run import Run
from tfbench.runs.summary import summarize_run
from tfbench.store.history import list_history
from tfbench.store.store import Store
from tfbench.tracking import server
from tfbench.tracking.mlflow_tracker import MlflowTracker

TWO_CPUS = "--setup 'default cpu:0' --setup 'mirrored cpu:0,cpu:1'"
BETWEEN = "--between 'default cpu:0' 'mirrored cpu:0,cpu:1'"
LARGER = "--set model.hidden_units=[400,400]"
QUICKLY = "--data synthetic --seconds 0.5 --repeats 2"
BATCH = "--vary training.global_batch_size"
# Exit codes and commands: a name and a value that a shell would break, options without which it
# would not be the same.
SESSION = (
    (0, "runs"),
    (2, "compare --sweep @last"),
    (0, "run 'my net.toml' --data synthetic --no-mlflow"),
    (0, f"run mnist_mlp --data synthetic --checkpoint-every 1 {LARGER}"),
    (0, "run mnist_mlp --data synthetic --fast"),
    (0, f"sweep --quick --repeats 1 {LARGER}"),
    (0, f"sweep mnist_mlp {QUICKLY} {TWO_CPUS} {BATCH}=32,64 --no-mlflow"),
    (0, f"sweep 'my net.toml' {QUICKLY} {TWO_CPUS} {BATCH}=8"),
    (0, f"sweep mnist_mlp {QUICKLY} --setup 'default cpu:0' --dry-run"),
    (0, f"crossover mnist_mlp {QUICKLY} {BATCH}=16..18 {BETWEEN}"),
    (0, f"scale mnist_mlp {QUICKLY} --replicas 1,2"),
    (0, f"check mnist_mlp {QUICKLY} --save 'base line.json'"),
    (0, f"check mnist_mlp {QUICKLY} --baseline 'base line.json'"),
    (0, "profile mnist_mlp --data synthetic --seconds 1"),
    (0, "runs"),
    (0, "runs @last"),
    (0, "compare --all"),
    (0, "compare --sweep @last"),
    (0, "report --sweep @last"),
    (0, "recover"),
    (0, "list"),
    (0, "ui"),
    (0, "ui --sweep @last"),
    (2, "sweep --resume nosuch"),
    (2, "runs nosuch"),
)
_WHERE = re.compile(r"`(tfbench [^`]+)`|^ +(?:[a-zA-Z ]+  +)?(tfbench [^\n]+)$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\b(RECIPE|RUN|ID|FILE|DIR)\b")


def find_commands(text: str) -> list[str]:
    """Returns the commands that a text advises, without those with placeholders."""
    found = [re.sub(r"\n\s*", " ", one or other) for one, other in _WHERE.findall(text)]
    return [command for command in found if not _PLACEHOLDER.search(command)]


def measure_nothing(
    request: RunRequest, state: Any, store: Store, tracker: Any, observer: Any, *rest: Any
) -> Run:
    """Stands in for a measured run, and leaves what one leaves in the store."""
    recipe = request.recipe
    fields = {
        "request": request,
        "placement": place_request(request),
        "dataset": build_dataset(name=recipe.dataset.name),
    }
    result = build_profile_run(**fields) if request.profile else build_result(**fields)
    write = write_profile_journal if request.profile else write_journal
    path = write(store, result)
    store.write_state(request.run_id, state)
    summary = summarize_run(result)
    observer.ready(result)
    run = Run(result=result, summary=summary, tracked=None, journal=path)
    observer.finish(run)
    return run


def track_here(tracking_uri: str, experiment: str, store: Store, *_: Any) -> MlflowTracker:
    """Stands in for MLflow's process, which takes seconds a command."""
    return MlflowTracker(tracking_uri, experiment, store)


@contextlib.contextmanager
def serve_nothing(*arguments: Any) -> Iterator[Any]:
    class Ended:
        def wait(self) -> None:
            raise KeyboardInterrupt

    yield Ended()


@pytest.fixture
def ask(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tfbench: Callable[..., Any],
    without_plots: None,
) -> Callable[[Sequence[str]], tuple[int, str]]:
    """Runs a command in a folder with a blank, and returns its exit code and what it printed."""
    place = tmp_path / "my work"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(session, "execute_run", measure_nothing)
    monkeypatch.setattr(server, "serve", serve_nothing)
    monkeypatch.setattr(maker, "Tracker", track_here)
    make_database(Store(Path("my store")))
    Path("my net.toml").write_bytes(find_recipe("cifar10_lenet5").read_bytes())

    def ask(arguments: Sequence[str]) -> tuple[int, str]:
        outcome = tfbench(*arguments)
        return outcome.exit_code, outcome.stdout + outcome.stderr

    return ask


def read_by_shell(commands: Iterable[str]) -> list[list[str]]:
    """Returns the arguments that a shell gives to tfbench, a list a command."""
    script = "\n".join(['tfbench() { printf "%s\\0" "$@"; echo; }', *commands])
    done = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True)
    return [line.split("\0")[:-1] for line in done.stdout.splitlines()]


def test_every_command_that_is_advised_runs_as_printed(
    ask: Callable[[Sequence[str]], tuple[int, str]],
) -> None:
    advised: dict[str, tuple[str, ...]] = {}  # each with a command that advises it
    for expected, command in SESSION:
        store = [] if command == "list" else ["--store", "my store"]
        arguments = [*shlex.split(command), *store]
        exit_code, text = ask(arguments)
        assert exit_code == expected, f"{command}\n{text}"
        assert "Traceback" not in text
        advised |= dict.fromkeys(find_commands(text), tuple(arguments))
    assert ("trial", 3) in [
        (entry.kind, entry.num_runs) for entry in list_history(Store(Path("my store")))
    ]
    wanted = [shlex.split(command)[1:] for command in advised]
    assert read_by_shell(advised) == wanted
    kinds = {re.sub(r"\b[0-9a-f]{12}\b", "ID", command): command for command in advised}
    for command in kinds.values():
        exit_code, text = ask(shlex.split(command)[1:])
        assert exit_code == 0, f"{shlex.join(advised[command])} advises: {command}\n{text}"
    assert all("my store" in words for words in wanted)
    assert {words[0] for words in wanted} == {
        *("check", "compare", "recover", "report", "runs", "sweep", "ui"),
    }
