"""Each error's advice works as typed.

Most are followed here, others by tests with the mark `advice`.
"""

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import keras
import pytest

import searches
from advice import list_advice
from advice_scenarios import FILES, SCENARIOS, Probe, Scenario, usable
from builders import build_environment, build_placement
from following import find_options, follow, forget_modules
from journals import build_sized_result, write_journal
from kinds import Cli
from tfbench import api, backends
from tfbench.backends.device_choice import Placed
from tfbench.cli import cli
from tfbench.datasets.sources import synthetic
from tfbench.errors import RecipeError
from tfbench.machine import children, frameworks
from tfbench.machine.facts import Gpu
from tfbench.machine.frameworks import Framework
from tfbench.measure import prepared
from tfbench.recipe.dataset_spec import TfdsOptions
from tfbench.recipe.files import list_recipes, load_recipe
from tfbench.recipe.tables import list_meanings, parse_override
from tfbench.runs import launch, session
from tfbench.runs.record import RunRequest
from tfbench.schema import meanings_of
from tfbench.store.store import Store
from tfbench.sweeps import planning

FOREIGN = re.compile(r"`(?:ray|mlflow) [^`]*`|the first with --head|pip install .*")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
KEY = re.compile(r"\b(?:model\.(?!compile\b|load)|dataset\.|training\.|distribution\.)\w+")
TESTS = Path(__file__).parents[1]


@pytest.fixture
def ask(tfbench: Cli, in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command that measures nothing; a probe looks at what it would measure."""
    for name, text in FILES.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for index in (9, 12):
        write_journal(Store(Path("mlruns")), build_sized_result(index))
    for name in ("multi_worker", "model", "hybrid", "torch"):
        monkeypatch.setitem(searches.COSTS, name, searches.COSTS["jax"])
    searches.plant_runs(monkeypatch)()
    measure = session.execute_run
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it would outlive a change of the code
    monkeypatch.setattr(launch, "_list_visible_gpus", lambda: (Gpu(name="GPU"),) * 3)
    monkeypatch.setattr(children, "ask_child", answer_nothing)
    monkeypatch.setattr(frameworks, "ask_framework", lambda name: Framework(name=name))
    monkeypatch.setattr(planning, "is_installed", lambda backend: backend != "torch")
    monkeypatch.setattr(synthetic, "POOL_BYTES", 2**20)
    prepare_here(monkeypatch)

    def run(asked: tuple[str, ...], probe: Probe) -> Any:
        def execute(request: RunRequest, *rest: Any) -> Any:
            probe(request)
            return measure(request, *rest)

        monkeypatch.setattr(session, "execute_run", execute)
        return tfbench(*asked)

    return run


def answer_nothing(*_: Any, timeout: float, **__: Any) -> None:
    raise subprocess.TimeoutExpired("python", timeout)


def prepare_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets this process prepare runs on devices of which it has only the first."""
    backend = backends.current()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    replicas = [1]

    def resolve(distribution: Any, training: Any, rank: Any) -> Placed:
        devices = distribution.devices or ("cpu:0",)
        replicas[0] = len(devices)
        placed = build_placement(devices=devices, num_replicas=len(devices))
        return Placed(placed, ("/device:CPU:0",))

    monkeypatch.setattr(backend, "resolve", resolve)
    monkeypatch.setattr(backend, "count_replicas", lambda: replicas[0])
    monkeypatch.setattr(backend, "collect_environment", build_environment)
    monkeypatch.setattr(prepared, "import_keras", lambda *_: None)
    monkeypatch.setattr(prepared, "find_unused_gpu", lambda *_: "")
    monkeypatch.setattr(prepared, "set_process_wide", set_precision)


def set_precision(recipe: Any) -> None:
    keras.config.set_dtype_policy(recipe.training.precision)


@pytest.fixture(autouse=True)
def precision() -> Any:
    yield
    keras.config.set_dtype_policy("float32")


@pytest.mark.usefixtures("with_gpus")
@pytest.mark.filterwarnings("ignore:Model doesn't support")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: f"{one.error}: {one.asked}")
def test_advice_that_is_followed_helps(
    ask: Cli, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = read_command(scenario.asked, monkeypatch)
    if "net.keras" in asked:
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
        model.compile("sgd", "categorical_crossentropy")
        model.save("net.keras")
    if scenario.before:
        assert ask(tuple(shlex.split(scenario.before)), usable).exit_code == 0
    told = ask(asked, scenario.probe)
    lines = [line for line in told.stderr.splitlines() if scenario.error in line]
    assert lines, told.stderr
    message = lines[0].removeprefix("Error: ")
    if scenario.ways or scenario.changed:
        ways = [read_command(way, monkeypatch) for way in scenario.ways] or [asked]
    else:
        advice = scenario.error + message.partition(scenario.error)[2]
        ways = follow(asked, message, advice, scenario.filled)
    assert ways, message
    write_files(scenario.changed)
    forget_modules(Path.cwd())
    for way in ways:
        done = ask(way, scenario.probe)
        assert scenario.error not in done.stderr, (message, way)
        is_told = bool(scenario.then) and scenario.then in done.stderr
        assert done.exit_code == 0 or is_told, (message, way, done.stderr)


def read_command(text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Returns a command's words, once the variables before it are set."""
    words = shlex.split(text)
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        monkeypatch.setenv(name, value)
    return tuple(words)


def write_files(texts: Mapping[str, str]) -> None:
    """Gives files new texts, or removes them."""
    for name, text in texts.items():
        path = Path(name)
        path.unlink(missing_ok=True)
        if text:
            path.write_text(text, encoding="utf-8")


@pytest.mark.advice("rounds: must be a number or two")
def test_the_form_of_rounds_that_an_error_names_is_taken(
    ask: Cli, in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"recipe": "mine.toml", "setups": ["default cpu:0"], "track": False}
    with pytest.raises(RecipeError, match=r"two, such as \(3, 20\)"):
        api.sweep(rounds=(3, 20, 4), **asked)
    searches.plant_runs(monkeypatch)()
    assert api.sweep(rounds=(3, 20), **asked).end.num_failed == 0


def list_marked() -> list[str]:
    """Returns the parts of advice that tests elsewhere say to follow."""
    parts = []
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.advice":
                parts.append(ast.literal_eval(node.args[0]))
    return parts


def test_each_advice_is_followed() -> None:
    followed = {scenario.error for scenario in SCENARIOS} | set(list_marked())
    numbers = dict.fromkeys(followed, 0)
    unknown = []
    for advice in list_advice():
        found = [part for part in numbers if part in advice.text]
        if not found:
            unknown.append(advice)
        for part in found:
            numbers[part] += 1
    assert unknown == []
    assert {part: number for part, number in numbers.items() if number != 1} == {}


@pytest.fixture(scope="module")
def known_keys() -> set[str]:
    """The keys of all recipes, and those of a network of the user's."""
    keys = {"model.name", "model.file", "model.compiled", "dataset.name"}
    for path in list_recipes().values():
        keys.update(list_meanings(load_recipe(path)))
    keys.update(f"dataset.{key}" for key in meanings_of(TfdsOptions))
    return keys


def test_what_an_advice_names_is_there(known_keys: set[str]) -> None:
    known = {name: find_options(name) for name in cli.list_commands(click.Context(cli))}
    anywhere = {"--help"}.union(*known.values())
    for advice in list_advice():
        text = FOREIGN.sub("", advice.text)
        for command, rest in re.findall(r"`tfbench ([a-z]+)\b([^`]*)`", text):
            assert set(OPTION.findall(rest)) <= set(known[command]), advice
        assert set(OPTION.findall(text)) <= anywhere, advice
        assert set(KEY.findall(text)) <= known_keys, advice
        for key, value in re.findall(r"--set (\w+\.\w+)=([a-z]\w*)", text):
            assert "must be" not in reject(key, value), advice


def reject(key: str, value: str) -> str:
    """Returns what is wrong with the value of a key, of a recipe that may have no such key."""
    try:
        load_recipe(list_recipes()["mnist_mlp"], dict([parse_override(f"{key}={value}")]))
    except RecipeError as error:
        return str(error)
    return ""
