"""`tfbench compare`.

Which runs it takes, which setup is the baseline, and what machines with prices cost.
"""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfbench as from_python
from builders import build_environment
from journals import build_sized_result, write_journal
from sweeps import TWO_SETUPS, build_plan, build_planned_result
from tfbench.records.machine import Gpu
from tfbench.records.settings import MachineSettings
from tfbench.records.sweep import PlannedRunResult, Setup, list_planned_runs
from tfbench.store.store import Store
from tfbench.store.sweep_log import new_log

Cli = Callable[..., Any]
SPEEDS = {"big": 4000.0, "small": 1000.0}
ENVIRONMENTS = {
    "big": build_environment(
        hostname="big", keras="3.13.0", gpus=(Gpu(name="Example GPU", power_limit_watts=400.0),)
    ),
    "small": build_environment(hostname="small"),
}
PRICES = "[machines.big]\nprice_per_hour = 3.6\n\n[machines.small]\nprice_per_hour = 0.36\n"


@pytest.fixture
def store(in_tmp_path: Path) -> Store:
    """Runs of two recipes: one of two batch sizes, and one that was stopped by an accuracy once."""
    store = Store(Path("mlruns"))
    for index, recipe, training in (
        (0, "first", {}),
        (3, "first", {}),
        (1, "second", {}),
        (7, "second", {}),
    ):
        result = build_sized_result(index)
        own = dataclasses.replace(result.request.recipe, name=recipe, **training)
        if index == 7:
            own = dataclasses.replace(
                own, training=dataclasses.replace(own.training, stop_at_val_accuracy=0.9)
            )
        write_journal(
            store,
            dataclasses.replace(result, request=dataclasses.replace(result.request, recipe=own)),
        )
    return store


def test_runs_that_are_named_stand_side_by_side_whatever_their_recipes(
    tfbench: Cli, store: Store
) -> None:
    for which in (store.run_ids(), ["--all"]):
        assert json.loads(tfbench("compare", *which, "--format", "json").stdout)["recipes"] == [
            "first",
            "second",
        ]
        assert tfbench("compare", *which).exit_code == 0
    first = json.loads(tfbench("compare", "--all", "--recipe", "first", "--format", "json").stdout)
    assert first["recipes"] == ["first"]


def test_others_are_held_against_the_setup_that_was_measured_first(
    tfbench: Cli, in_tmp_path: Path
) -> None:
    store = Store(Path("mlruns"))
    for run_id, index, created in (
        ("f" * 32, 0, 1.0),
        ("0" * 32, 3, 2.0),
    ):  # one_device, and mirrored
        result = build_sized_result(index)
        request = dataclasses.replace(result.request, run_id=run_id, created=created)
        write_journal(store, dataclasses.replace(result, request=request))
    assert (
        json.loads(tfbench("compare", "--all", "--format", "json").stdout)["baseline"]
        == "one_device cpu:0"
    )
    document = json.loads(tfbench("compare", "0" * 32, "f" * 32, "--format", "json").stdout)
    assert document["baseline"] == "mirrored cpu:0"  # the user's order


def test_all_runs_of_several_recipes_have_a_table_a_recipe(tfbench: Cli, store: Store) -> None:
    lines = tfbench("compare", "--all", "--baseline", "one_device cpu:0").stdout.splitlines()
    assert [line for line in lines if line in ("first", "second")] == ["first", "second"]


@pytest.fixture
def priced(settings: Path) -> None:
    """Prices of two machines in the user's file."""
    settings.write_text(PRICES)


@pytest.fixture
def machines(priced: None) -> None:
    """Writes runs of one setup on two machines, one of them four times as fast.

    They stand in the store as after an import.
    """
    store = Store(Path("mlruns"))
    plan = build_plan(setups=TWO_SETUPS[:1], num_rounds=3)
    for place, (host, speed) in enumerate(SPEEDS.items()):
        for planned in list_planned_runs(plan):
            result = build_planned_result(
                plan,
                planned,
                speed * (1 + 0.01 * planned.round_number),
                environment=ENVIRONMENTS[host],
            )
            request = dataclasses.replace(result.request, run_id=f"{place}{planned.number:031x}")
            write_journal(store, dataclasses.replace(result, request=request))


def test_json_and_python_have_the_same_of_machines(tfbench: Cli, machines: None) -> None:
    document = json.loads(tfbench("compare", "--all", "--format", "json").stdout)
    setups = document["machines"]
    assert [(one["machine"], one["price_per_hour"]) for one in setups] == [
        ("big", 3.6),
        ("small", 0.36),
    ] * 2
    prices = {
        "big": MachineSettings(price_per_hour=3.6),
        "small": MachineSettings(price_per_hour=0.36),
    }
    assert from_python.compare(machines=prices, store="mlruns").document() == document
    assert not any("Cheapest" in text for text in from_python.compare(store="mlruns").verdict)


def test_a_sweep_whose_setups_name_machines_compares_these(tfbench: Cli, priced: None) -> None:
    setups = tuple(Setup(strategy="default", devices=("cpu:0",), machine=host) for host in SPEEDS)
    store = Store(Path("mlruns"))
    plan = build_plan(setups=setups, num_rounds=3)
    with new_log(store, plan) as log:
        for planned in list_planned_runs(plan):
            host = setups[planned.setup].machine
            speed = SPEEDS[host] * (1 + 0.01 * planned.round_number)
            result = build_planned_result(plan, planned, speed, environment=ENVIRONMENTS[host])
            write_journal(store, result)
            log.end(
                PlannedRunResult(
                    number=planned.number, outcome="FINISHED", run_id=result.request.run_id
                )
            )
    document = json.loads(tfbench("compare", "--sweep", "abc", "--format", "json").stdout)
    small = document["rows"][0]["entries"][1]
    assert (small["setup"], small["machine"], small["unequal"]) == (
        "default cpu:0 @small",
        "small",
        [],
    )
    assert small["speedup"]["judgement"] == "slower" and not small["speedup"]["is_paired"]
    assert document["verdict"][0].startswith(
        "Fastest machine (not judged): big by default cpu:0 at both batch sizes"
    )
    assert [one["machine"] for one in document["machines"][:2]] == ["big", "small"]
