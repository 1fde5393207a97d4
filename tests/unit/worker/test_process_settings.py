"""What Keras and the framework are set to, and what is imported for it."""

import contextlib
import dataclasses
import importlib.util
import subprocess
import sys
from collections.abc import Iterable, Iterator
from types import SimpleNamespace

import pytest

from builders import build_recipe
from tfbench.recipe.sections import Recipe
from tfbench.worker import process_settings

START = """
import random, sys
import numpy as np
from tfbench.recipe.files import find_recipe, load_recipe
from tfbench.worker.process_settings import import_keras, set_process_wide
recipe = load_recipe(find_recipe("mnist_mlp"), {{"training.backend": "{backend}", "training.seed": 7}})
import_keras(recipe)
set_process_wide(recipe.training, finds_tensorflow={finds})
found = random.random(), float(np.random.random())
random.seed(7), np.random.seed(7)
print("tensorflow" in sys.modules, found == (random.random(), float(np.random.random())))
"""


def with_model(name: str) -> Recipe:
    recipe = build_recipe()
    return dataclasses.replace(recipe, model=dataclasses.replace(recipe.model, name=name, options={}))


@pytest.mark.parametrize(("model", "finds_it"), [("mlp", False), ("mine:make", True), ("keras_file", True)])
def test_what_may_need_tensorflow_on_another_back_end_finds_it(model: str, finds_it: bool) -> None:
    assert process_settings.finds_tensorflow(with_model(model)) is finds_it


@pytest.mark.parametrize(
    ("backend", "finds", "left_out"),
    [
        ("tensorflow", False, set()),
        ("jax", False, {"tensorflow"}),
        ("torch", False, {"tensorflow"}),
        ("jax", True, set()),
    ],
)
def test_the_seed_is_set_without_importing_tensorflow_for_another_back_end(
    monkeypatch: pytest.MonkeyPatch, backend: str, finds: bool, left_out: set[str]
) -> None:
    hidden: list[set[str]] = []

    @contextlib.contextmanager
    def record(others: Iterable[str]) -> Iterator[None]:
        hidden.append(set(others))
        yield

    framework = SimpleNamespace(set_process_wide=lambda training: None)
    monkeypatch.setattr(process_settings, "left_out", record)
    monkeypatch.setattr(process_settings.backends, "current", lambda: framework)
    process_settings.set_process_wide(build_recipe(training={"backend": backend}).training, finds_tensorflow=finds)
    assert hidden == [left_out]


@pytest.mark.parametrize("finds", [False, True])
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_process_of_another_back_end_starts_without_tensorflow(backend: str, finds: bool) -> None:
    if not importlib.util.find_spec(backend) or not importlib.util.find_spec("tensorflow"):
        pytest.skip(f"{backend} and TensorFlow are not both installed")
    code = "import os\nos.environ['KERAS_BACKEND'] = '{backend}'" + START
    done = subprocess.run(
        [sys.executable, "-c", code.format(backend=backend, finds=finds)], capture_output=True, text=True, check=True
    )
    # TensorFlow's own import may draw random numbers after the seed was set.
    assert done.stdout in ({"True True\n", "True False\n"} if finds else {"False True\n"})
