"""The machine of `tests/gpu`.

Whether it has GPUs, and commands and probes, each in a process of its own.

Of the backend that KERAS_BACKEND names, which need be the only one that is installed. The process
of pytest imports none: it would keep all memory of the GPU for itself.

TFBENCH_GPU_REHEARSAL=1 rehearses the suite on a machine without a GPU, with the processor in the
GPU's place: what is said of a GPU alone is left out. It shows that processes start, figures are
found and bounds hold, and nothing of GPUs.
"""

import functools
import json
import os
from pathlib import Path
from typing import Any, cast

import click
import pytest

import runs
from runs import Finished
from tfbench.machine import gpus
from tfbench.machine.frameworks import is_installed
from tfbench.recipe.backend_support import BACKEND_TITLES, BackendName

REHEARSAL = bool(os.environ.get("TFBENCH_GPU_REHEARSAL"))
NAME = cast(BackendName, os.environ.get("KERAS_BACKEND") or "tensorflow")
TITLE = BACKEND_TITLES[NAME]
ON_BACKEND = ("--backend", NAME)
DEVICE = "cpu:0" if REHEARSAL else "gpu:0"
# Beside "default cpu:0"; two setups must differ.
SETUP = f"default {DEVICE}"
if REHEARSAL:
    SETUP = (
        "one_device cpu:0" if NAME == "tensorflow" else "default cpu:0 seed=1"
    )  # which leaves them comparable

# Read when pytest begins, before fixtures take them away: where CUDA lies, which GPUs a scheduler
# gave to this job, and how much of their memory may be taken.
_KEPT = {
    name: value
    for name, value in os.environ.items()
    if name in ("CUDA_VISIBLE_DEVICES", "XLA_FLAGS")
    or name.startswith(("XLA_PYTHON_CLIENT_", "XLA_CLIENT_"))
}
_MEASURING = ("check", "crossover", "profile", "run", "scale", "sweep")
_PROBES = Path(__file__).with_name("gpu_probes.py")

# Of a GPU: what has no meaning on a processor.
of_a_gpu_alone = pytest.mark.skipif(REHEARSAL, reason="rehearsal: the processor has none of it")


def of_tensorflow_alone(what: str) -> pytest.MarkDecorator:
    """Returns a mark of tests of something that no other backend has."""
    return pytest.mark.skipif(
        NAME != "tensorflow", reason=f"{what}: of TensorFlow alone, this is {TITLE}"
    )


STRATEGIES = (
    "default",
    *(pytest.param(name, marks=of_tensorflow_alone(name)) for name in ("one_device", "mirrored")),
)


@functools.cache
def count_gpus() -> int:
    """Returns how many GPUs the driver knows and CUDA_VISIBLE_DEVICES leaves."""
    if REHEARSAL:
        return 1
    return len(gpus.choose_visible(gpus.read_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES")))


def why_skipped(least: int = 1) -> str | None:
    """Returns why a test that needs so many GPUs is skipped; None: it is not."""
    if not is_installed(NAME):
        return (
            f"{TITLE} is not installed: KERAS_BACKEND names the backend, tensorflow unless it"
            " is set"
        )
    there = count_gpus()
    if there >= least:
        return None
    return (
        "no GPU: NVIDIA's driver names none"
        if not there
        else f"needs {least} GPUs; the driver names {there}"
    )


def run(*arguments: str, cwd: Path) -> Finished:
    """Runs a `tfbench` command to its end, and says how it ended."""
    # MLflow is no matter of GPUs, takes seconds a command, and need not be installed.
    without = (
        ("--no-mlflow",) if arguments[0] in _MEASURING and "--no-mlflow" not in arguments else ()
    )
    done = runs.run(*arguments, *without, cwd=cwd, is_first=True, **_KEPT)
    click.echo(f"  [exit code {done.exit_code}] tfbench {' '.join(arguments)}")
    return done


def run_json(*arguments: str, cwd: Path) -> Any:
    """Runs a `tfbench` command that must succeed, and returns its JSON document."""
    done = run(*arguments, "--format", "json", cwd=cwd)
    assert done.exit_code == 0, done.stderr[-4000:]
    return done.document


def probe(name: str, **arguments: Any) -> Any:
    """Calls a function of `gpu_probes` in a process of its own, and returns what it found."""
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "TF_CPP_MIN_LOG_LEVEL": "2", "KERAS_BACKEND": NAME}
    click.echo(f"  probe {name} {arguments}")
    return runs.facts_of(_PROBES, name, json.dumps(arguments), **_KEPT | order)


def show(title: str, *lines: object) -> None:
    """Prints what was seen, for `pytest -s` or `-rP`."""
    click.echo(f"{title}")
    for line in lines:
        click.echo(f"    {line}")
