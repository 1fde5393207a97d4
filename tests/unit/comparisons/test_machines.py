"""Costs of setups per machine, with planted speeds, prices and energies."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kinds import Golden
from sweeps import BATCH, TWO_SETUPS, build_brief, on_machine
from tfbench.comparisons.comparison import Comparison, compare
from tfbench.comparisons.comparison_text import comparison_rows
from tfbench.comparisons.machines import (
    MachineSetup,
    list_setups,
    machine_caveats,
    machine_sentences,
    machines_section,
)
from tfbench.comparisons.user_settings import MachineSettings, UserSettings
from tfbench.comparisons.verdict import find_verdict
from tfbench.show.table import text
from tfbench.store.brief import RunBrief
from tfbench.sweeps.plan import Setup

GPU_SETUP = Setup(strategy="default", devices=("gpu:0",))
QUIET = (1.0, 1.01, 1 / 1.01)  # what rounds differ by; their geometric mean is 1
PRICES = {"big": 3.0, "small": 0.5}


def runs_of(
    host: str,
    speed: float,
    *,
    setup: Setup = TWO_SETUPS[0],
    batch: int = 32,
    environment: Any = None,
    **fields: Any,
) -> list[RunBrief]:
    """Builds runs of one setup of a machine, one for each factor of `QUIET`."""
    return [
        on_machine(
            build_brief(
                speed * factor, setup=setup, batch=batch, run_id=f"{batch}-{number}", **fields
            ),
            host,
            **environment or {},
        )
        for number, factor in enumerate(QUIET)
    ]


def compared(*listed: Sequence[RunBrief], prices: Mapping[str, float] = PRICES) -> Comparison:
    machines = {name: MachineSettings(price_per_hour=price) for name, price in prices.items()}
    briefs = [run for runs in listed for run in runs]
    return compare(briefs, keys=[BATCH], settings=UserSettings(machines=machines))


def sentences(comparison: Comparison) -> list[str]:
    return list(machine_sentences(comparison))


def by_machine(comparison: Comparison) -> dict[str, MachineSetup]:
    return {one.machine: one for one in list_setups(comparison)}


def test_the_fastest_machine_need_not_be_the_cheapest() -> None:
    # Twice the speed at six times the price: an epoch of 60,000 samples costs three times as much.
    found = compared(runs_of("big", 2000.0), runs_of("small", 1000.0))
    big, small = list_setups(found)
    assert (big.epoch_seconds, small.epoch_seconds) == (pytest.approx(30.0), pytest.approx(60.0))
    assert (big.epoch_cost, small.epoch_cost) == (
        pytest.approx(3.0 * 30 / 3600),
        pytest.approx(0.5 * 60 / 3600),
    )
    assert sentences(found) == [
        "Fastest machine (not judged): big by default cpu:0 at batch 32.",
        (
            "Cheapest machine for the steps of an epoch (not judged): small by default cpu:0 at"
            " batch 32."
        ),
    ]
    assert find_verdict(found)[0].startswith("Fastest machine (not judged): big")


def test_each_machine_has_its_fastest_setup_first_and_each_setting_its_own_machine() -> None:
    found = compared(
        *(runs_of("big", 100.0), runs_of("big", 2000.0, setup=GPU_SETUP), runs_of("small", 1000.0)),
        *(runs_of("big", 300.0, batch=64), runs_of("small", 900.0, batch=64)),
        prices={},
    )
    assert [
        (one.row.configuration[BATCH], one.machine, one.entry.setup) for one in list_setups(found)
    ] == [
        (32, "big", "default gpu:0 on big"),
        (32, "big", "default cpu:0 on big"),
        (32, "small", "default cpu:0 on small"),
        (64, "big", "default cpu:0 on big"),
        (64, "small", "default cpu:0 on small"),
    ]
    assert sentences(found) == [
        "Fastest machine (not judged): big by default gpu:0 at batch 32; small by default cpu:0 at"
        " batch 64."
    ]


def test_runs_of_one_machine_or_over_several_at_once_are_no_machines() -> None:
    one = compared(runs_of("big", 100.0))
    assert (list_setups(one), sentences(one), machines_section(one)) == ([], [], None)
    spread = [dataclasses.replace(run, num_machines=2) for run in runs_of("big", 5000.0)]
    assert list(by_machine(compared(spread, runs_of("small", 1000.0)))) == ["small"]


@pytest.mark.parametrize(
    ("instance", "prices", "expected"),
    [
        ("big", {}, {"big": 2.0}),
        ("other", {}, {}),
        ("", {}, {}),  # of this machine, whichever that was
        ("small", {"big": 4.0}, {"big": 4.0, "small": 2.0}),
        ("big", {"big": 4.0}, {"big": 4.0}),
    ],
)
def test_a_price_is_the_user_s_or_that_of_an_instance_of_the_name(
    instance: str, prices: dict[str, float], expected: dict[str, float]
) -> None:
    cost = {"currency": "EUR", "instance": instance, "price_per_hour": 2.0}
    setups = list_setups(
        compared(runs_of("big", 1.0, cost=cost), runs_of("small", 1.0, cost=cost), prices=prices)
    )
    assert {one.machine: one.price_per_hour for one in setups if one.price_per_hour} == expected
    assert {one.currency for one in setups} == {"EUR"}


def test_prices_in_two_currencies_are_not_held_against_each_other() -> None:
    found = compared(runs_of("big", 2000.0), runs_of("small", 1000.0))
    yen = {"big": MachineSettings(price_per_hour=3.0, currency="JPY")}
    settings = UserSettings(machines=found.settings.machines | yen)
    found = dataclasses.replace(found, settings=settings)
    assert len(sentences(found)) == 1
    assert all(one.epoch_cost for one in list_setups(found))


def using(host: str, *per_joule: float | None) -> list[RunBrief]:
    """Builds runs of a machine that train so many samples per joule."""
    return [
        dataclasses.replace(run, metrics=run.metrics | {"samples_per_joule": joule})
        for run, joule in zip(runs_of(host, 2000.0), per_joule, strict=True)
    ]


def test_the_thriftiest_machine_is_told_by_energy_that_every_run_has() -> None:
    ten = (10.0, 10.1, 10 / 1.01)
    thirty = (30.0, 30.3, 30 / 1.01)
    found = compared(using("big", *ten), using("small", *thirty))
    assert by_machine(found)["big"].epoch_joules == pytest.approx(6000.0)
    assert (
        sentences(found)[-1]
        == "Least energy for an epoch (not judged): small by default cpu:0 at batch 32."
    )
    found = compared(using("big", None, *ten[1:]), using("small", *ten))
    joules = {name: one.epoch_joules for name, one in by_machine(found).items()}
    assert joules == {"big": None, "small": pytest.approx(6000.0)}
    assert not any("energy" in text for text in sentences(found))


def test_versions_that_differ_are_named_and_hardware_is_no_difference() -> None:
    older = {"environment": {"keras": "3.11.0"}}
    found = compared(runs_of("a", 1.0, **older), runs_of("b", 1.0), runs_of("c", 1.0, **older))
    assert list(machine_caveats(found)) == [
        "Machines have different versions, which may explain differences in speed: "
        "keras 3.11.0 on a and c, 3.12.0 on b."
    ]
    assert sentences(found)  # a caveat, and no more
    alike = compared(
        runs_of("a", 1.0),
        runs_of("b", 1.0, environment={"usable_cores": 64, "cpu_model": "Other CPU"}),
    )
    assert list(machine_caveats(alike)) == []


def test_what_was_set_on_one_machine_alone_keeps_it_from_being_held_against_others() -> None:
    small = runs_of("small", 1000.0)
    for run in small:
        run.settings["thread_variables"] = "OMP_NUM_THREADS=1"
    found = compared(runs_of("big", 2000.0), small)
    assert (sentences(found), len(list_setups(found))) == ([], 2)


def test_machines_are_shown_as_in_the_golden_file(golden: Golden) -> None:
    listed = [
        runs_of(host, speed, batch=n)
        for n in (32, 64)
        for host, speed in (("big", 2000.0), ("small", 1000.0))
    ]
    found = compared(*listed, prices={"big": 3.6})
    section = machines_section(found)
    golden("machines.txt", "\n".join(text([section], 140)) + "\n")
    assert [row["machine"] for row in comparison_rows(found)] == ["big", "small"] * 2
