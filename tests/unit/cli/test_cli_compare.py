"""`tfbench compare`: which runs it takes, and which setup is the baseline."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journals import build_sized_result, write_journal
from sweeps import build_plan, write_sweep
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


def test_an_id_of_repeats_stands_for_its_runs_and_one_of_a_sweep_for_the_sweep(tfbench: Cli, in_tmp_path: Path) -> None:
    store, result, plan = Store(Path("mlruns")), build_sized_result(0), build_plan(num_rounds=1)
    for number in range(3):
        tags = {"tfbench.group": "fade" if number else "", "tfbench.repeat": "1"}
        request = dataclasses.replace(result.request, run_id=f"{number}" * 32, tags=tags)
        write_journal(store, dataclasses.replace(result, request=request))
    write_sweep(store, plan, lambda planned: 1000.0)
    document = json.loads(tfbench("compare", "fade", "--format", "json").stdout)
    (entry,) = [entry for row in document["rows"] for entry in row["entries"]]
    assert {run["id"] for run in entry["runs"]} == {"1" * 32, "2" * 32}
    by_id = tfbench("compare", plan.sweep_id)
    assert (by_id.exit_code, by_id.stderr) == (0, "")
    assert by_id.stdout == tfbench("compare", "--sweep", plan.sweep_id).stdout
    assert "not in store" in tfbench("compare", "nothing").stderr


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
