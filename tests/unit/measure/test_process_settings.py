"""What Keras and the framework are set to, and what is imported for it."""

import contextlib
import importlib.util
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from builders import build_recipe
from tfbench.measure import process_settings

START = """
import os
os.environ["KERAS_BACKEND"] = "{backend}"
import random, sys
import numpy as np
from tfbench.recipe.files import find_recipe, load_recipe
from tfbench.measure.process_settings import import_keras, list_unneeded, set_process_wide
recipe = load_recipe(find_recipe("mnist_mlp"), {{"training.backend": "{backend}", "training.seed": 7}})
import_keras("{backend}", list_unneeded("{backend}", is_users=False))
set_process_wide(recipe)
import tfbench.measure.benchmark, tfbench.measure.step_timing, tfbench.backends
tfbench.backends.current()
found = random.random(), float(np.random.random())
random.seed(7), np.random.seed(7)
print(found == (random.random(), float(np.random.random())))
print(*sorted({{"jax", "matplotlib", "pandas", "scipy", "sklearn", "tensorflow", "torch"}} & set(sys.modules)))
"""
OWN_MODEL = {"model": {"name": "mine:make"}}
OWN_DATA = {"dataset": {"name": "mine:load", "data": "real"}}
OWN_FILE = {"model": {"name": "keras_file", "file": "/a/net.keras"}}


@pytest.mark.parametrize(
    ("sections", "finds_it"),
    # Code of the user's own finds what it would elsewhere, and so may a network file of theirs.
    [({}, False), (OWN_MODEL, True), (OWN_DATA, True), (OWN_FILE, True)],
)
def test_seeds_are_set_without_tensorflow_unless_a_part_is_the_users(
    monkeypatch: pytest.MonkeyPatch, sections: Any, finds_it: bool
) -> None:
    found = []
    framework = SimpleNamespace(set_process_wide=lambda training: None)
    monkeypatch.setattr(process_settings.backends, "current", lambda: framework)
    monkeypatch.setattr(
        "keras.utils.set_random_seed", lambda seed: found.append("tensorflow" not in sys.modules)
    )
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    process_settings.set_process_wide(build_recipe(**sections))
    assert found == [finds_it]
    assert "tensorflow" not in sys.modules


@pytest.mark.parametrize(
    ("backend", "imported"),
    [("tensorflow", "tensorflow"), ("jax", "jax scipy"), ("torch", "torch")],
)
def test_a_process_imports_no_more_than_its_backend_needs(backend: str, imported: str) -> None:
    if not importlib.util.find_spec(backend):
        pytest.skip(f"{backend} is not installed")
    command = [sys.executable, "-c", START.format(backend=backend)]
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
        == f"True\n{imported}\n"
    )


@pytest.mark.parametrize("was_imported", [False, True])
def test_a_hidden_package_is_not_found_unless_it_was_imported_before(
    monkeypatch: pytest.MonkeyPatch, *, was_imported: bool
) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    if was_imported:
        importlib.import_module("colorsys")
    with process_settings.hidden(["colorsys"]), contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("colorsys")
        assert was_imported
    assert ("colorsys" in sys.modules) == was_imported
    importlib.import_module("colorsys")


def test_nothing_is_hidden_from_what_is_the_users() -> None:
    assert process_settings.list_unneeded("tensorflow", is_users=True) == []
