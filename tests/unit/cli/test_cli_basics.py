"""What `list`, `show`, `validate` and `devices` print, and the one message that a mistake gets."""

import dataclasses
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete

from builders import build_epoch, build_result
from journals import write_journal
from kinds import Child, Cli
from outcomes import json_of, rejection_of, shown_by
from sweeps import build_plan, write_sweep
from tfbench import api
from tfbench.cli import cli
from tfbench.comparisons.speeds import MARKS
from tfbench.errors import DeviceError
from tfbench.machine import energy_counters, frameworks
from tfbench.machine.energy_readings import EnergySource, EnergySources
from tfbench.machine.facts import Gpu
from tfbench.machine.frameworks import GpuFacts
from tfbench.recipe import files
from tfbench.runs.stored_run import Run
from tfbench.runs.summary import summarize_run
from tfbench.store.store import Store

pytestmark = pytest.mark.usefixtures("in_tmp_path")


def write_recipe(path: Path, text: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def shipped_text(name: str) -> str:
    return files.find_recipe(name).read_text(encoding="utf-8")


def test_help_is_of_a_command_or_of_the_signs_in_results(tfbench: Cli) -> None:
    assert tfbench("help").stdout == tfbench("--help").stdout
    assert tfbench("help", "sweep").stdout == tfbench("sweep", "--help").stdout
    text = tfbench("help", "results").stdout
    assert all(f"\n{sign} " in text or f", {sign} " in text for sign in MARKS.values())
    assert "'result' is not a command" in rejection_of(tfbench("help", "result"))


def test_list_has_recipes_models_and_data_sets(
    tfbench: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = shown_by(tfbench("list"))
    assert max(map(len, shown.splitlines())) <= 80
    contents = json_of(tfbench, "list")
    for kind, name, words in (
        ("recipes", "sine_lstm", "Sine wave LSTM"),
        ("models", "mlp", "Multilayer perceptron: "),
        ("datasets", "mnist", "MNIST: 60,000"),
    ):
        (entry,) = [entry for entry in contents[kind] if entry["name"] == name]
        assert entry.get("title", entry.get("summary")).startswith(words)
        assert re.search(rf"^  {name} +{words}", shown, re.MULTILINE)


@pytest.mark.parametrize("named", ["mnist_mlp", "nets.py:build_model", "net.keras"])
def test_show_writes_a_recipe_whose_keys_stand_below_what_they_mean(
    tfbench: Cli, named: str
) -> None:
    Path("net.keras").touch()
    Path("nets.py").touch()
    done = tfbench("show", named, "--toml", "--set", "dataset.name=cifar10")
    lines = done.stdout.splitlines()
    place = lines.index("# compiler: not set")
    assert lines[place - 1].startswith("# ") and lines[place - 1].endswith('"eager" on `torch`.')
    assert all(len(line) <= 100 for line in lines if line.startswith("# "))
    path = write_recipe(Path("recipes/mine.toml"), done.stdout)
    assert tfbench("validate", path, "--allow-code") == (0, "recipes/mine.toml: ok\n", "")
    assert files.load_recipe(Path(path)).dataset.name == "cifar10"


def test_validate_checks_every_file_and_names_every_problem(tfbench: Cli) -> None:
    text = (
        shipped_text("mnist_mlp")
        .replace("epochs = 20 ", "epochs = 0 ")
        .replace('name = "mlp"', 'name = "mpl"')
    )
    bad = write_recipe(Path("bad.toml"), text)
    done = tfbench("validate", "sine_lstm", bad, "absent.toml", "mnist_mlp")
    assert done.exit_code == 2
    lines = done.stdout.splitlines()
    assert lines[0] == "sine_lstm: ok"
    assert {line.split(": ")[1] for line in lines[1:3]} == {"training.epochs", "model.name"}
    assert lines[3].startswith("absent.toml: no such file.")
    assert lines[4:] == ["mnist_mlp: ok"]


def test_validate_checks_the_points_of_a_sweep_and_names_code(tfbench: Cli) -> None:
    text = shipped_text("mnist_mlp").partition("[sweep]")[0]
    path = write_recipe(Path("swept.toml"), f'{text}[sweep]\n"model.name" = ["mlp", "os:system"]\n')
    named = "model.name: os:system is code from outside of tfbench, which can do whatever you can."
    assert tfbench("validate", path) == (
        2,
        f"{path}: {named} If you trust it, allow it with --allow-code.\n",
        "",
    )
    assert tfbench("validate", path, "--allow-code") == (0, f"{path}: ok\n", "")
    path = write_recipe(
        Path("swept.toml"), f'{text}[sweep]\n"training.global_batch_size" = [32, -1]\n'
    )
    done = tfbench("validate", path)
    assert done.exit_code == 2
    assert done.stdout.startswith(
        "swept.toml: swept with global_batch_size=-1, default: training.global_batch_size: must"
    )


TENSORFLOW = {"name": "tensorflow", "version": "2.21.0"}


def test_devices_lists_what_tensorflow_sees(
    tfbench: Cli, child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    child(TENSORFLOW | {"gpus": ["Titan X"], "cuda": "12.5.1"})
    known = (Gpu(name="Titan X", memory_bytes=12 * 2**30, driver="550.54"),)
    monkeypatch.setattr(frameworks, "read_gpus", lambda: known)
    source = EnergySource(name="0000:3b:00.0", resolution_seconds=0.1)
    read = EnergySources(sources=(source,), problems=("GPUs: nobody knows",))
    monkeypatch.setattr(energy_counters, "find_energy_sources", lambda gpus: read)
    shown = shown_by(tfbench("devices"))
    assert [line.split(maxsplit=1) for line in shown.splitlines()[2:4]] == [
        ["gpu:0", "Titan X, 12.0 GiB, driver 550.54"],
        ["TensorFlow", "2.21.0, built for CUDA 12.5.1, sees gpu:0 Titan X"],
    ]
    document = json_of(tfbench, "devices")
    assert document["energy"]["problems"] == ["GPUs: nobody knows"]
    assert document["energy"]["sources"][0]["name"] == "0000:3b:00.0"


def test_devices_says_why_a_gpu_is_not_seen(
    tfbench: Cli, child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    child(TENSORFLOW)
    monkeypatch.setattr(frameworks, "read_system", lambda *_: GpuFacts(pci_gpus=("0000:01:00.0",)))
    shown = shown_by(tfbench("devices"))
    assert re.search("gpu +none .*\n +TensorFlow +2.21.0, built without CUDA\n", shown)
    assert "\nWarning: an NVIDIA GPU is in" in shown
    assert "driver is not loaded" in json_of(tfbench, "devices")["problem"]
    child(None)
    assert "devices: no answer in 120 s" in rejection_of(tfbench("devices"))


def test_devices_are_checked_by_a_short_training_that_leaves_nothing(
    tfbench: Cli, child: Child, monkeypatch: pytest.MonkeyPatch, in_tmp_path: Path
) -> None:
    child(TENSORFLOW | {"gpus": ["Titan X", "Titan X"]})

    def train(recipe: str, *, devices: str, store: str, **options: Any) -> Run:
        assert Path(store).is_dir() and options["synthetic"] and not options["track"]
        if devices == "gpu:1":
            raise DeviceError("gpu:1: is busy.")
        left_out = options["overrides"]["distribution.strategy"] == "mirrored"
        result = build_result(epochs=(build_epoch(loss=1.2 if left_out else 1.0),))
        warnings = ("drifting: too warm.",) if devices == "gpu:0" else ()
        summary = dataclasses.replace(summarize_run(result), warnings=warnings)
        return Run(result=result, summary=summary, tracked=None, journal=Path(store))

    monkeypatch.setattr(api, "run", train)
    assert tfbench("devices", "--check").exit_code == 1
    document = json_of(tfbench, "devices", "--check", exit_code=1)
    unlike = "they do not train as one device does: the loss is 1.2, that of gpu:0 1."
    assert [(one["device"], one["warnings"], one["problem"]) for one in document["checks"]] == [
        ("cpu:0", [], ""),
        ("gpu:0", ["drifting: too warm."], ""),
        ("gpu:1", [], "gpu:1: is busy."),
        ("gpu:0,gpu:1", [], unlike),
    ]
    assert "checks" not in json_of(tfbench, "devices")
    assert list(in_tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["crossover", "scale", "profile", "check", "import"])
def test_a_command_without_what_it_needs_is_told_its_first_example(
    tfbench: Cli, command: str
) -> None:
    message = rejection_of(tfbench(command))
    example = message.partition("\n\nFor example:\n  tfbench ")[2].replace("\\\n", " ")
    name, *words = shlex.split(example)
    assert name == command
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    found.make_context(command, words)  # it is accepted as it stands


@pytest.mark.advice("no such file or folder. Name another one")
@pytest.mark.advice("This machine has no GPU that a framework could use")
def test_what_is_not_on_this_machine_is_rejected_before_a_framework_starts(
    tfbench: Cli, child: Child, monkeypatch: pytest.MonkeyPatch, in_tmp_path: Path
) -> None:
    child(TENSORFLOW)
    monkeypatch.setattr(frameworks, "_may_have_gpus", lambda *_: False)
    setup = ("--setup", "default gpu:0")
    synthetic = ("mnist_mlp", "--data", "synthetic")
    for command in (("run", "--devices", "gpu:0"), ("sweep", *setup, "--dry-run")):
        message = rejection_of(tfbench(*command, *synthetic))
        assert message.startswith("Error: gpu:0: not found.")
    assert "gpu         none" in shown_by(tfbench("devices"))
    shown_by(tfbench("sweep", *synthetic, "--setup", "default gpu:0 @a100", "--dry-run"))
    for command in (("run",), ("sweep", "--dry-run")):
        message = rejection_of(tfbench(*command, "mnist_mlp", "--data-dir", "nowhere"))
        error = f"Error: data folder {in_tmp_path / 'nowhere'}: no such file or folder. Name"
        assert message.startswith(error)
    for way in (("--data-dir", "."), ("--data", "synthetic")):
        assert tfbench("sweep", "mnist_mlp", *way, "--dry-run").exit_code == 0
    assert not Path("mlruns").exists()


def start(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "tfbench", *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, **options)


@pytest.mark.parametrize("arguments", [("list",), ("list", "--format", "json"), ("show", "--help")])
def test_a_full_disk_behind_stdout_is_said_in_one_line(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = start(*arguments, stdout=full)
    message = b"Error: stdout cannot be written: No space left on device.\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_the_script_for_a_shell_is_no_error() -> None:
    asks = os.environ | {"_TFBENCH_COMPLETE": "zsh_source"}
    done = start(env=asks, stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr, b"compdef" in done.stdout) == (0, b"", True)


def complete(*words: str) -> list[str]:
    """Returns what a shell offers for the last of a command's words."""
    *before, incomplete = words
    shell = ShellComplete(cli, {}, "tfbench", "_TFBENCH_COMPLETE")
    return [f"{item.type} {item.value}" for item in shell.get_completions(before, incomplete)]


def test_recipes_are_completed_and_else_files() -> None:
    assert complete("run", "text_g") == ["plain text_gpt"]
    assert "plain mnist_mlp" in complete("validate", "mnist_mlp", "")
    Path("mine.toml").touch()
    Path("mine.txt").touch()
    assert complete("run", "min") == ["plain mine.toml"]
    assert complete("sweep", "./m") == ["file ./m"]


def test_runs_and_sweeps_are_those_of_the_store(in_tmp_path: Path) -> None:
    assert complete("runs", "--store", "none", "") == ["plain @last"]
    store = Store(in_tmp_path / "results")
    write_sweep(store, build_plan(sweep_id="5eed"), lambda planned: 1000.0)
    run_id = store.heads()[0].run_id
    assert complete("diff", "--store", "results", run_id[:10])[0] == f"plain {run_id}"
    assert complete("run", "--store", "results", "--resume", "@") == ["plain @last"]
    assert complete("sweep", "--store", "results", "--resume", "5") == ["plain 5eed"]
    assert complete("report", "--store", "results", "--sweep", "") == ["plain @last", "plain 5eed"]


@pytest.mark.parametrize(
    "arguments", [("list",), ("--version",), ("run", "--help"), ("runs", "1111")]
)
def test_a_reader_that_has_seen_enough_is_no_error(
    arguments: tuple[str, ...], in_tmp_path: Path
) -> None:
    result = build_result()
    request = dataclasses.replace(result.request, run_id="1" * 32)
    write_journal(Store(in_tmp_path / "mlruns"), dataclasses.replace(result, request=request))
    reading, writing = os.pipe()
    os.close(reading)
    done = start(*arguments, stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")  # as a shell has it of others
