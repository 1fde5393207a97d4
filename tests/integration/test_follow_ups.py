"""Every command that a command advises runs as it is printed: in bash and zsh, in a store with a blank, offline.

What measures is stood in for by a run that ends at once; everything else is what a user meets.
"""

import contextlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import build_result, place_request
from journals import make_database, write_journal
from profile_runs import build_profile_run, write_profile_journal
from tfbench.analysis.run.summary import summarize_run
from tfbench.records.run import DatasetSummary, RunRequest
from tfbench.runs import session
from tfbench.runs.limits import RunOutcome
from tfbench.store.store import Store
from tfbench.tracking import server

STORE = ("--store", "my store")
TWO_CPUS = ("--arm", "default cpu:0", "--arm", "mirrored cpu:0,cpu:1")
BETWEEN = ("--between", "default cpu:0", "mirrored cpu:0,cpu:1")
QUICKLY = ("--data", "synthetic", "--seconds", "0.5", "--repeats", "2")
# Exit codes and arguments: a name and a value that a shell would break, options without which it would not be the same.
SESSION = (
    (0, "runs", *STORE),
    (2, "compare", "--sweep", "@last", *STORE),
    (0, "init", "my net.toml", "--model", "lenet5", "--dataset", "cifar10"),
    (0, "run", "my net.toml", "--data", "synthetic", "--no-mlflow", *STORE),
    (
        0,
        "run",
        "mnist_mlp",
        "--data",
        "synthetic",
        "--set",
        "model.hidden_units=[400,400]",
        "--snapshot-every",
        "1",
        *STORE,
    ),
    (0, "sweep", "--quick", "--repeats", "1", "--set", "model.hidden_units=[400,400]", *STORE),
    (0, "sweep", "mnist_mlp", *QUICKLY, *TWO_CPUS, "--vary", "training.global_batch_size=32,64", "--no-mlflow", *STORE),
    (0, "sweep", "my net.toml", *QUICKLY, *TWO_CPUS, "--vary", "training.global_batch_size=8", *STORE),
    (0, "sweep", "mnist_mlp", *QUICKLY, "--arm", "default cpu:0", "--dry-run", *STORE),
    (0, "crossover", "mnist_mlp", *QUICKLY, "--vary", "training.global_batch_size=16..18", *BETWEEN, *STORE),
    (0, "scale", "mnist_mlp", *QUICKLY, "--replicas", "1,2", *STORE),
    (0, "check", "mnist_mlp", *QUICKLY, "--save", "base line.json", *STORE),
    (0, "check", "mnist_mlp", *QUICKLY, "--baseline", "base line.json", *STORE),
    (0, "profile", "mnist_mlp", "--data", "synthetic", "--seconds", "1", *STORE),
    (0, "runs", *STORE),
    (0, "runs", "@last", *STORE),
    (0, "compare", "--all", *STORE),
    (0, "compare", "--sweep", "@last", *STORE),
    (0, "report", "--sweep", "@last", "--force", *STORE),
    (0, "recover", *STORE),
    (0, "list"),
    (0, "ui", *STORE),
    (0, "ui", "--sweep", "@last", *STORE),
    (2, "sweep", "--resume", "nosuch", *STORE),
    (2, "runs", "nosuch", *STORE),
)
_WHERE = re.compile(r"`(tfbench [^`]+)`|^ +(?:[a-zA-Z ]+  +)?(tfbench [^\n]+)$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\b(RECIPE|RUN|ID|FILE|DIR)\b")


def find_commands(text: str) -> list[str]:
    """Returns the commands that a text advises, but for those with a word for what the user is to fill in."""
    found = [re.sub(r"\n\s*", " ", one or other) for one, other in _WHERE.findall(text)]
    return [command for command in found if not _PLACEHOLDER.search(command)]


def test_finds_commands_wherever_they_stand() -> None:
    text = """Not there; `tfbench recover --store
    'my store'` brings it there. `tfbench run RECIPE` makes one.
  in MLflow     tfbench ui --store 'my store'
  tfbench compare --sweep 1f2e"""
    assert find_commands(text) == [
        "tfbench recover --store 'my store'",
        "tfbench ui --store 'my store'",
        "tfbench compare --sweep 1f2e",
    ]


def measure_nothing(
    request: RunRequest, state: Any, store: Store, tracker: Any, observer: Any, *rest: Any
) -> RunOutcome:
    """Stands in for a measured run, and leaves what one leaves in the store."""
    recipe = request.recipe
    fields = {
        "request": request,
        "placement": place_request(request),
        "dataset": DatasetSummary(
            name=recipe.dataset.name, source="test", synthetic=True, train_samples=640, validation_samples=100
        ),
    }
    result = build_profile_run(**fields) if request.profile else build_result(**fields)
    write = write_profile_journal if request.profile else write_journal
    path = write(store, result)
    store.write_state(request.run_id, state)
    summary = summarize_run(result)
    observer.ready(result)
    observer.finish(result, summary, None, str(path))
    return RunOutcome(result=result, summary=summary, tracked=None, was_interrupted=False)


@contextlib.contextmanager
def serve_nothing(*arguments: Any) -> Iterator[Any]:
    class Ended:
        def wait(self) -> None:
            raise KeyboardInterrupt

    yield Ended()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a blank, which is made when it is first worked in."""
    return tmp_path_factory.mktemp("follow_ups") / "my work"


@pytest.fixture(scope="module")
def kept() -> dict[str, tuple[str, ...]]:
    """What `advised` returned, for the tests after the first."""
    return {}


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, place: Path, tfbench: Callable[..., Any]) -> Callable[..., tuple[int, str]]:
    """Runs a command in that folder, and returns its exit code and what it printed."""
    is_new = not place.exists()
    place.mkdir(exist_ok=True)
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(session, "execute_run", measure_nothing)
    monkeypatch.setattr(server, "serve", serve_nothing)
    if is_new:
        make_database(Store(Path("my store")))

    def ask(*arguments: str) -> tuple[int, str]:
        outcome = tfbench(*arguments)
        return outcome.exit_code, outcome.stdout + outcome.stderr

    return ask


@pytest.fixture
def advised(ask: Callable[..., tuple[int, str]], kept: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Each command that the session advises, with one that does; the session is held once."""
    if not kept:
        found: dict[str, tuple[str, ...]] = {}
        for expected, *arguments in SESSION:
            exit_code, text = ask(*arguments)
            assert exit_code == expected, f"{shlex.join(arguments)}\n{text}"
            assert "Traceback" not in text
            found |= dict.fromkeys(find_commands(text), tuple(arguments))
        kept |= found
    return kept


def read_by_shell(shell: str, commands: list[str], folder: Path) -> list[list[str]]:
    """Returns the arguments that a shell gives to tfbench, a list a command."""
    program = folder / "tfbench"
    program.write_text('#!/bin/sh\nprintf "%s\\0" "$@" >> given\nprintf "\\n" >> given\n', encoding="utf-8")
    program.chmod(0o755)
    script = f"PATH={shlex.quote(str(folder))}:$PATH\n" + "\n".join(commands)
    subprocess.run([shell, "-c", script], cwd=folder, check=True, capture_output=True)
    given = (folder / "given").read_text(encoding="utf-8")
    (folder / "given").unlink()
    return [line.split("\0")[:-1] for line in given.splitlines()]


@pytest.mark.parametrize(
    "shell",
    [
        pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed"))
        for name in ("bash", "zsh")
    ],
)
def test_a_shell_reads_every_command_that_is_advised_as_it_is_printed(
    advised: dict[str, tuple[str, ...]], tmp_path: Path, shell: str
) -> None:
    assert read_by_shell(shell, list(advised), tmp_path) == [shlex.split(command)[1:] for command in advised]


def test_every_command_that_is_advised_runs_as_printed(
    advised: dict[str, tuple[str, ...]], ask: Callable[..., tuple[int, str]]
) -> None:
    wanted = [shlex.split(command)[1:] for command in advised]
    ran = set()
    for command, words in zip(advised, wanted, strict=True):
        if (kind := re.sub(r"\b[0-9a-f]{12}\b", "ID", command)) in ran:
            continue
        ran.add(kind)
        exit_code, text = ask(*words)
        assert exit_code == 0, f"{shlex.join(advised[command])} advises: {command}\n{text}"
    in_the_store = {words[0] for words in wanted if "my store" in words}
    assert in_the_store == {"compare", "recover", "report", "runs", "sweep", "ui"}
    assert {words[0] for words in wanted} - in_the_store == {"show", "run"}  # of a recipe that `init` wrote
