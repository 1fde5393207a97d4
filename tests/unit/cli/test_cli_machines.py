"""`compare` and `report` on runs of several machines, with prices of the user's."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfbench as from_python
from builders import build_environment
from journals import write_journal
from sweeps import TWO_SETUPS, build_plan, build_planned_result
from tfbench.records.machine import Gpu
from tfbench.records.settings import MachineSettings
from tfbench.records.sweep import PlannedRunResult, Setup, list_planned_runs
from tfbench.store.store import Store
from tfbench.store.sweep_log import new_log

Cli = Callable[..., Any]
SPEEDS = {"big": 4000.0, "small": 1000.0}
ENVIRONMENTS = {
    "big": build_environment(hostname="big", keras="3.13.0", gpus=(Gpu(name="Example GPU", power_limit_watts=400.0),)),
    "small": build_environment(hostname="small"),
}
PRICES = "[machines.big]\nprice_per_hour = 3.6\n\n[machines.small]\nprice_per_hour = 0.36\n"


@pytest.fixture
def settings(settings: Path) -> Path:
    """The user's file, with prices of two machines."""
    settings.write_text(PRICES)
    return settings


@pytest.fixture
def store(settings: Path) -> Store:
    """Runs of one setup on two machines, one of them four times as fast, as they stand in a store after an import."""
    store, plan = Store(Path("mlruns")), build_plan(setups=TWO_SETUPS[:1], num_rounds=3)
    for place, (host, speed) in enumerate(SPEEDS.items()):
        for planned in list_planned_runs(plan):
            result = build_planned_result(
                plan, planned, speed * (1 + 0.01 * planned.round_number), environment=ENVIRONMENTS[host]
            )
            request = dataclasses.replace(result.request, run_id=f"{place}{planned.number:031x}")
            write_journal(store, dataclasses.replace(result, request=request))
    return store


def test_json_and_python_have_the_same(tfbench: Cli, store: Store) -> None:
    document = json.loads(tfbench("compare", "--all", "--format", "json").stdout)
    setups = document["machines"]
    assert [(one["machine"], one["price_per_hour"]) for one in setups] == [("big", 3.6), ("small", 0.36)] * 2
    prices = {"big": MachineSettings(price_per_hour=3.6), "small": MachineSettings(price_per_hour=0.36)}
    assert from_python.compare(machines=prices, store="mlruns").document() == document
    assert not any("Cheapest" in text for text in from_python.compare(store="mlruns").verdict)


def test_a_sweep_whose_setups_name_machines_compares_these(tfbench: Cli, settings: Path) -> None:
    setups = tuple(Setup(strategy="default", devices=("cpu:0",), machine=host) for host in SPEEDS)
    store, plan = Store(Path("mlruns")), build_plan(setups=setups, num_rounds=3)
    with new_log(store, plan) as log:
        for planned in list_planned_runs(plan):
            host = setups[planned.setup].machine
            speed = SPEEDS[host] * (1 + 0.01 * planned.round_number)
            result = build_planned_result(plan, planned, speed, environment=ENVIRONMENTS[host])
            write_journal(store, result)
            log.end(PlannedRunResult(number=planned.number, outcome="FINISHED", run_id=result.request.run_id))
    document = json.loads(tfbench("compare", "--sweep", "abc", "--format", "json").stdout)
    small = document["rows"][0]["entries"][1]
    assert (small["setup"], small["machine"], small["unequal"]) == ("default cpu:0 @small", "small", [])
    assert small["speedup"]["judgement"] == "slower" and not small["speedup"]["is_paired"]
    assert document["verdict"][0].startswith("Fastest machine (not judged): big by default cpu:0 at both batch sizes")
    assert [one["machine"] for one in document["machines"][:2]] == ["big", "small"]
