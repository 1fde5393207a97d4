import dataclasses
from typing import Any

import pytest

from builders import build_recipe, build_request
from kinds import Fields
from sweeps import TWO_SETUPS, build_limited_plan, build_plan
from tfbench.errors import RecipeError
from tfbench.sweeps.arguments import Rounds, parse_setup, parse_variation
from tfbench.sweeps.compared import list_compared
from tfbench.sweeps.plan import (
    Refinement,
    Variation,
    add_values,
    estimate_seconds,
    list_planned_runs,
)
from tfbench.sweeps.planning import new_plan


def test_every_point_comes_once_a_round_and_its_setups_take_turns_at_being_first() -> None:
    planned_runs = list_planned_runs(build_plan())
    order = [
        (planned.round_number, planned.configuration, planned.setup) for planned in planned_runs
    ]
    assert order[:4] == [(1, 0, 0), (1, 0, 1), (1, 1, 1), (1, 1, 0)]
    assert order[4:] == [(2, 0, 1), (2, 0, 0), (2, 1, 0), (2, 1, 1)]
    assert [planned.number for planned in planned_runs] == list(range(8))


def test_with_a_time_budget_the_ends_of_the_range_come_first_with_all_their_rounds() -> None:
    batches = Variation(key="training.global_batch_size", values=(8, 16, 32, 64, 128))
    plan = build_plan(variations=(batches,), setups=TWO_SETUPS[:1], time_budget_seconds=60.0)
    order = [0, 4, 0, 4, 2, 2, 1, 3, 1, 3]
    assert [planned.configuration for planned in list_planned_runs(plan)] == order
    refined = dataclasses.replace(plan, refinement=Refinement(num_first=5, most=2))
    longer = list_planned_runs(add_values(refined, [33, 65]))
    assert [planned.configuration for planned in longer] == [*order, 5, 5, 6, 6]


@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("training.global_batch_size=32,128", "training.global_batch_size", (32, 128)),
        ("training.global_batch_size=32,32", "training.global_batch_size", (32,)),
        ("model.hidden_units=[[100],[1000, 1000]]", "model.hidden_units", ([100], [1000, 1000])),
        (
            "training.precision=float32,mixed_float16",
            "training.precision",
            ("float32", "mixed_float16"),
        ),
    ],
)
def test_values_are_read_as_they_are_typed(text: str, key: str, values: tuple[Any, ...]) -> None:
    assert parse_variation(text, build_recipe(), 1) == Variation(key=key, values=values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training.epochs", "must be KEY=VALUE,VALUE"),
        (
            "global_batch_size=32",
            "'global_batch_size' is no key of model, dataset, training and measurement. Give it",
        ),
        ("distribution.strategy=default,mirrored", "Compare setups instead: --setup"),
        ("training.epochs=[1", "is no list of values"),
        ("training.epochs=[]", "needs at least one value"),
        (
            "training.backend=tensorflow,jax",
            'compare backends as setups instead: --setup "default cpu:0"',
        ),
    ],
)
def test_what_cannot_be_varied_is_said(text: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        parse_variation(text, build_recipe(), 1)


@pytest.mark.parametrize(
    ("text", "devices", "values", "machine"),
    [
        ("mirrored cpu:0,cpu:1", ("cpu:0", "cpu:1"), {}, ""),
        ("multi_worker cpu:0 num_workers=2", ("cpu:0",), {"distribution.num_workers": 2}, ""),
        ("default gpu:0 backend=jax @a100", ("gpu:0",), {"training.backend": "jax"}, "a100"),
        ("default @node-1.lab", (), {}, "node-1.lab"),
    ],
)
def test_a_setup_is_a_strategy_its_devices_values_of_its_own_and_a_machine(
    text: str, devices: tuple[str, ...], values: Fields, machine: str
) -> None:
    setup = parse_setup(text)
    assert (setup.devices, dict(setup.values), setup.machine, setup.label) == (
        devices,
        values,
        machine,
        text,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *[
            (text, "must be STRATEGY DEVICES KEY=VALUE")
            for text in (
                *("", "mirrored cpu:0 cpu:1", "default backend=jax cpu:0", "backend=jax"),
                *("default @a100 gpu:0", "default gpu:0 @", "@a100", "default gpu:0 @a @b"),
            )
        ],
        (
            "default cpu:0 training.global_batch_size=64",
            "and not the batch size, which all setups have in common",
        ),
        (
            "default cpu:0 distribution.strategy=mirrored",
            "must be a key of model, dataset, training, measurement",
        ),
        ("default cpu:0 =jax", "must be KEY=VALUE, as of --set"),
        ("default gpu:0 @a/b", "machine: "),
        (f"default @{'a' * 101}", "machine: "),
    ],
)
def test_what_is_no_setup_is_rejected(text: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        parse_setup(text)


def test_machines_may_differ_where_they_are_what_is_compared_and_what_is_set_on_them_may_not() -> (
    None
):
    one = parse_setup("default cpu:0 @a")
    other = parse_setup("default cpu:0 @b")
    assert "hostname" not in list_compared(build_plan(setups=TWO_SETUPS))
    assert "hostname" not in list_compared(build_plan(setups=(one,)))
    compared = list_compared(build_plan(setups=(one, other)))
    assert {"hostname", "cpu_model", "keras"} <= set(compared)
    assert not {"thread_variables", "niceness", "precision"} & set(compared)
    assert "hostname" not in list_compared(
        build_plan(setups=(one, other, *TWO_SETUPS))
    )  # not all setups name one


@pytest.mark.parametrize(
    ("own", "key"),
    [("backend=jax", "training.backend"), ("intra_op_threads=2", "training.intra_op_threads")],
)
def test_what_is_varied_is_no_setup_s_own(own: str, key: str) -> None:
    varied = [Variation(key=key, values=(1, 2))]
    with pytest.raises(RecipeError, match=f"^default {own}: training.[a-z_]* is varied already"):
        new_plan(
            build_request(recipe=build_recipe()),
            [parse_setup(f"default {own}")],
            rounds=Rounds(1, 1),
            variations=varied,
        )


def test_the_next_run_takes_as_long_as_those_before_or_as_the_plan_says() -> None:
    timed = build_limited_plan(5.0)
    whole = build_plan()
    assert (
        estimate_seconds(timed) == estimate_seconds(timed, [60.0]) > 5.0
    )  # the first waited for an import
    assert estimate_seconds(whole, [60.0]) == 60.0
    assert estimate_seconds(timed, [60.0, 8.0]) == estimate_seconds(whole, [60.0, 8.0]) == 8.0
