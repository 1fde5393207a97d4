"""What Keras and the framework are set to, and what is imported for it."""

import contextlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from builders import build_recipe
from tfbench.errors import MeasurementError
from tfbench.worker import process_settings

START = """
import os
os.environ["KERAS_BACKEND"] = "{backend}"
import random, sys
import numpy as np
from tfbench.recipe.files import find_recipe, load_recipe
from tfbench.worker.process_settings import import_keras, set_process_wide
recipe = load_recipe(find_recipe("mnist_mlp"), {{"training.backend": "{backend}", "training.seed": 7}})
import_keras(recipe)
set_process_wide(recipe)
found = random.random(), float(np.random.random())
random.seed(7), np.random.seed(7)
print("tensorflow" in sys.modules, found == (random.random(), float(np.random.random())))
"""
OWN_MODEL = {"model": {"name": "mine:make"}}
OWN_DATA = {"dataset": {"name": "mine:load", "data": "real"}}
OWN_FILE = {"model": {"name": "keras_file", "file": "/a/net.keras"}}
OPTIONAL = {"matplotlib", "pandas", "sklearn"}


@pytest.mark.parametrize(
    ("backend", "sections", "for_keras", "for_seeds"),
    [
        ("tensorflow", {}, OPTIONAL | {"jax", "scipy"}, set()),
        ("jax", {}, OPTIONAL, {"tensorflow"}),
        ("torch", {}, OPTIONAL | {"jax", "scipy"}, {"tensorflow"}),
        # Code of the user's own finds Keras as it is elsewhere, and so may a network file of theirs.
        ("jax", OWN_MODEL, set(), set()),
        ("jax", OWN_DATA, set(), set()),
        ("jax", OWN_FILE, OPTIONAL, set()),
    ],
)
def test_keras_is_imported_and_seeded_without_what_nothing_needs(
    monkeypatch: pytest.MonkeyPatch, backend: str, sections: Any, for_keras: set[str], for_seeds: set[str]
) -> None:
    hidden: list[set[str]] = []

    @contextlib.contextmanager
    def record(others: Iterable[str]) -> Iterator[None]:
        hidden.append(set(others))
        yield

    framework = SimpleNamespace(set_process_wide=lambda training: None)
    monkeypatch.setattr(process_settings, "import_without", lambda name, others: hidden.append(set(others)))
    monkeypatch.setattr(process_settings, "left_out", record)
    monkeypatch.setattr(process_settings.backends, "current", lambda: framework)
    recipe = build_recipe(training={"backend": backend}, **sections)
    # Keras is here already, with TensorFlow.
    with contextlib.nullcontext() if backend == "tensorflow" else pytest.raises(MeasurementError):
        process_settings.import_keras(recipe)
    process_settings.set_process_wide(recipe)
    assert hidden == [for_keras, for_seeds]


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_process_of_another_backend_starts_without_tensorflow(backend: str) -> None:
    if not importlib.util.find_spec(backend) or not importlib.util.find_spec("tensorflow"):
        pytest.skip(f"{backend} and TensorFlow are not both installed")
    command = [sys.executable, "-c", START.format(backend=backend)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False True\n"
