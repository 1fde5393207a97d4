"""`tfbench compare --all` on a store that holds runs of several recipes."""

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


def test_each_recipe_has_a_table_of_what_varies_in_it(tfbench: Cli, store: Store) -> None:
    done = tfbench("compare", "--all")
    assert (done.exit_code, done.stderr) == (0, "")
    first, second = done.stdout.split("\nsecond\n")
    assert first.startswith("first\n")
    assert "batch" in first and "stop_at_val_accuracy" not in first
    assert "stop_at_val_accuracy" in second and "None" not in done.stdout
    assert done.stdout.count("\nVerdict\n") == 2


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


def test_markdown_has_a_heading_for_each_recipe_and_json_holds_all(tfbench: Cli, store: Store) -> None:
    lines = tfbench("compare", "--all", "--format", "markdown").stdout.splitlines()
    assert [line for line in lines if line.startswith("# ")] == ["# first", "# second"]
    assert json.loads(tfbench("compare", "--all", "--format", "json").stdout)["recipes"] == ["first", "second"]
    assert tfbench("compare", "--all", "--recipe", "first").stdout.splitlines()[0] != "first"


def test_a_baseline_counts_where_a_recipe_has_it(tfbench: Cli, store: Store) -> None:
    done = tfbench("compare", "--all", "--baseline", "mirrored cpu:0", "--format", "markdown")
    assert (done.exit_code, done.stderr) == (0, "")
    as_usual = tfbench("compare", "--all", "--format", "markdown")
    heads, usual = (
        [line for line in one.stdout.splitlines() if line.startswith("|") and "parameters" in line]
        for one in (done, as_usual)
    )
    assert len(heads) == 2 and heads != usual
    assert [head.index("mirrored cpu:0") < head.find("one_device") for head in heads if "one_device" in head] == [True]
    assert tfbench("compare", "--all", "--baseline", "mirrored gpu:7").exit_code == 2


def test_runs_that_are_named_stand_side_by_side_whatever_their_recipes(tfbench: Cli, store: Store) -> None:
    document = json.loads(tfbench("compare", *store.run_ids(), "--format", "json").stdout)
    lines = tfbench("compare", *store.run_ids()).stdout.splitlines()
    assert document["recipes"] == ["first", "second"] and not {"first", "second"} & set(lines)


def test_others_are_held_against_the_setup_that_was_measured_first(tfbench: Cli, in_tmp_path: Path) -> None:
    store = Store(Path("mlruns"))
    for run_id, index, created in (("f" * 32, 0, 1.0), ("0" * 32, 3, 2.0)):  # one_device, and mirrored
        result = build_sized_result(index)
        request = dataclasses.replace(result.request, run_id=run_id, created=created)
        write_journal(store, dataclasses.replace(result, request=request))
    assert json.loads(tfbench("compare", "--all", "--format", "json").stdout)["baseline"] == "one_device cpu:0"
    document = json.loads(tfbench("compare", "0" * 32, "f" * 32, "--format", "json").stdout)
    assert document["baseline"] == "mirrored cpu:0"  # the user's order
