"""`tfbench compare`.

Which runs it takes, which setup is the baseline, and what machines with prices cost.
"""

import dataclasses
import io
from pathlib import Path

import pytest

import tfbench as from_python
from builders import build_environment
from journals import build_sized_result, write_journal
from kinds import Cli
from outcomes import json_of, shown_by
from screens import Screen
from sweeps import TWO_SETUPS, build_plan, build_planned_result
from tfbench.cli._output import echo_comparison
from tfbench.comparisons.user_settings import MachineSettings
from tfbench.machine.facts import Gpu
from tfbench.store.store import Store
from tfbench.sweeps.plan import list_planned_runs

SPEEDS = {"big": 4000.0, "small": 1000.0}
ENVIRONMENTS = {
    "big": build_environment(
        hostname="big", keras="3.13.0", gpus=(Gpu(name="Example GPU", power_limit_watts=400.0),)
    ),
    "small": build_environment(hostname="small"),
}
PRICES = "[machines.big]\nprice_per_hour = 3.6\n\n[machines.small]\nprice_per_hour = 0.36\n"


@pytest.fixture
def two_recipes(in_tmp_path: Path, store: Store) -> Store:
    """Runs of two recipes: one of two batch sizes, and one that was stopped by an accuracy once."""
    for index, name in ((0, "first"), (3, "first"), (1, "second"), (7, "second")):
        result = build_sized_result(index)
        recipe = dataclasses.replace(result.request.recipe, name=name)
        if index == 7:
            training = dataclasses.replace(recipe.training, stop_at_val_accuracy=0.9)
            recipe = dataclasses.replace(recipe, training=training)
        request = dataclasses.replace(result.request, recipe=recipe)
        write_journal(store, dataclasses.replace(result, request=request))
    return store


def test_runs_that_are_named_stand_side_by_side_whatever_their_recipes(
    tfbench: Cli, two_recipes: Store
) -> None:
    for which in (two_recipes.run_ids(), ["--all"]):
        assert json_of(tfbench, "compare", *which)["recipes"] == ["first", "second"]
        shown_by(tfbench("compare", *which))
    first = json_of(tfbench, "compare", "--all", "--recipe", "first")
    assert first["recipes"] == ["first"]


def test_others_are_held_against_the_setup_that_was_measured_first(
    tfbench: Cli, in_tmp_path: Path, store: Store
) -> None:
    # one_device, and mirrored
    for run_id, index, created in (("f" * 32, 0, 1.0), ("0" * 32, 3, 2.0)):
        result = build_sized_result(index)
        request = dataclasses.replace(result.request, run_id=run_id, created=created)
        write_journal(store, dataclasses.replace(result, request=request))
    assert json_of(tfbench, "compare", "--all")["baseline"] == "one_device cpu:0"
    document = json_of(tfbench, "compare", "0" * 32, "f" * 32)
    assert document["baseline"] == "mirrored cpu:0"  # the user's order


def test_all_runs_of_several_recipes_have_a_table_a_recipe(
    tfbench: Cli, two_recipes: Store
) -> None:
    lines = tfbench("compare", "--all", "--baseline", "one_device cpu:0").stdout.splitlines()
    assert [line for line in lines if line in ("first", "second")] == ["first", "second"]


@pytest.fixture
def machines(settings: Path, store: Store) -> None:
    """Writes prices of two machines, and runs of one setup on both, as after an import.

    One of them is four times as fast.
    """
    settings.write_text(PRICES)
    plan = build_plan(setups=TWO_SETUPS[:1], num_rounds=3)
    for place, (host, speed) in enumerate(SPEEDS.items()):
        for planned in list_planned_runs(plan):
            own = speed * (1 + 0.01 * planned.round_number)
            result = build_planned_result(plan, planned, own, environment=ENVIRONMENTS[host])
            request = dataclasses.replace(result.request, run_id=f"{place}{planned.number:031x}")
            write_journal(store, dataclasses.replace(result, request=request))


def test_json_and_python_have_the_same_of_machines(tfbench: Cli, machines: None) -> None:
    document = json_of(tfbench, "compare", "--all")
    setups = document["machines"]
    prices = [(one["machine"], one["price_per_hour"]) for one in setups]
    assert prices == [("big", 3.6), ("small", 0.36)] * 2
    settings = {host: MachineSettings(price_per_hour=price) for host, price in prices}
    assert from_python.compare(machines=settings, store="mlruns").document() == document
    assert not any("Cheapest" in text for text in from_python.compare(store="mlruns").verdict)


@pytest.mark.parametrize("refuses", [False, True])
def test_a_terminal_shows_what_is_faster_in_colour_unless_it_is_told_not_to(
    monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    lines = [
        "   32  1.62x [1.58, 1.66] +      3",
        "   64  0.43x [0.29, 0.63] -      3",
        "  128  1.01x [0.99, 1.03] =      3",
        "  256  0.90x -",
    ]
    screen = Screen()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("TERM", "xterm")
    if refuses:
        monkeypatch.setenv("NO_COLOR", "1")
    echo_comparison(lines)
    green, red, off = ("", "", "") if refuses else ("\x1b[32m", "\x1b[31m", "\x1b[0m")
    assert screen.getvalue().splitlines() == [
        f"   32  {green}1.62x [1.58, 1.66] +{off}      3",
        f"   64  {red}0.43x [0.29, 0.63] -{off}      3",
        lines[2],
        f"  256  {red}0.90x -{off}",
    ]
    plain = io.StringIO()
    monkeypatch.setattr("sys.stdout", plain)
    echo_comparison(lines)
    assert plain.getvalue().splitlines() == lines
