"""`tfbench compare`: which runs it takes, and which setup is the baseline."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journals import build_sized_result, write_journal
from tfbench.store.store import Store

Cli = Callable[..., Any]


@pytest.fixture
def store(in_tmp_path: Path) -> Store:
    """Runs of two recipes: one of two batch sizes, and one that was stopped by an accuracy once."""
    store = Store(Path("mlruns"))
    for index, recipe, training in ((0, "first", {}), (3, "first", {}), (1, "second", {}), (7, "second", {})):
        result = build_sized_result(index)
        own = dataclasses.replace(result.request.recipe, name=recipe, **training)
        if index == 7:
            own = dataclasses.replace(own, training=dataclasses.replace(own.training, stop_at_val_accuracy=0.9))
        write_journal(store, dataclasses.replace(result, request=dataclasses.replace(result.request, recipe=own)))
    return store


def test_runs_that_are_named_stand_side_by_side_whatever_their_recipes(tfbench: Cli, store: Store) -> None:
    for which in (store.run_ids(), ["--all"]):
        assert json.loads(tfbench("compare", *which, "--format", "json").stdout)["recipes"] == ["first", "second"]
        assert tfbench("compare", *which).exit_code == (2 if "--all" in which else 0)
    first = json.loads(tfbench("compare", "--all", "--recipe", "first", "--format", "json").stdout)
    assert first["recipes"] == ["first"]


def test_others_are_held_against_the_setup_that_was_measured_first(tfbench: Cli, in_tmp_path: Path) -> None:
    store = Store(Path("mlruns"))
    for run_id, index, created in (("f" * 32, 0, 1.0), ("0" * 32, 3, 2.0)):  # one_device, and mirrored
        result = build_sized_result(index)
        request = dataclasses.replace(result.request, run_id=run_id, created=created)
        write_journal(store, dataclasses.replace(result, request=request))
    assert json.loads(tfbench("compare", "--all", "--format", "json").stdout)["baseline"] == "one_device cpu:0"
    document = json.loads(tfbench("compare", "0" * 32, "f" * 32, "--format", "json").stdout)
    assert document["baseline"] == "mirrored cpu:0"  # the user's order
