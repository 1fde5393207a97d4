"""What a sweep says in MLflow as lines: each setup's figures over what was varied."""

from collections.abc import Callable
from typing import Any

import pytest

from sweeps import (
    BATCHES,
    DEFAULT,
    MIRRORED,
    TWO_SETUPS,
    build_plan,
    write_in_sessions,
    write_sweep,
)
from tfbench.comparisons.user_settings import UserSettings
from tfbench.store.store import Store
from tfbench.store.sweep_log import read_sweep
from tfbench.sweeps.compared import compare_sweep
from tfbench.sweeps.plan import PlannedRun, Setup, SweepPlan, Variation
from tfbench.sweeps.planning import replica_setups
from tfbench.sweeps.show_in_mlflow import find_curves
from tfbench.tracking.tracker import Curve

SIZES = Variation(key="model.hidden_units", values=([100], [1000]))


def curves_of(
    store: Store, plan: SweepPlan, speed: Callable[[PlannedRun], float | str | None]
) -> tuple[Curve, ...]:
    write_sweep(store, plan, speed)
    found = find_curves(plan, compare_sweep(store, read_sweep(store, plan.sweep_id)))
    return tuple(curve for curve in found if curve.run_ids)


def speeds(curve: Curve) -> dict[int, Any]:
    return {x: pytest.approx(figures["samples_per_second"]) for x, figures in curve.points.items()}


def test_each_setup_has_a_curve_of_each_network_over_the_batch_size(store: Store) -> None:
    plan = build_plan(variations=(BATCHES, SIZES))
    found = curves_of(
        store, plan, lambda planned: 100.0 * (1 + planned.configuration + 10 * planned.setup)
    )
    assert [(curve.name, curve.place, curve.shade, curve.over) for curve in found] == [
        (f"100 {DEFAULT}", 0, 0, "batch size"),
        (f"100 {MIRRORED}", 1, 0, "batch size"),
        (f"1000 {DEFAULT}", 0, 1, "batch size"),
        (f"1000 {MIRRORED}", 1, 1, "batch size"),
    ]
    labels = {
        "setup": DEFAULT,
        "training.global_batch_size": "32, 64",
        "model.hidden_units": "[1000]",
    }
    assert found[2].labels == labels
    assert speeds(found[0]) == {32: 100.0, 64: 300.0}
    assert speeds(found[3]) == {32: 1200.0, 64: 1400.0}
    assert [len(curve.run_ids) for curve in found] == [4] * 4
    assert found[0].points[64] == {"samples_per_second": pytest.approx(300.0), "speedup": 1.0}
    ratios = dict.fromkeys(
        ("speedup", "speedup_low", "speedup_high"), pytest.approx(11.0)
    )  # nothing scatters
    assert found[1].points[32] == {"samples_per_second": pytest.approx(1100.0), **ratios}


def test_a_ratio_of_one_round_is_no_point_and_draws_no_crossing(store: Store) -> None:
    faster = {0: (100.0, 50.0), 1: (100.0, 200.0)}  # by configuration: half as fast, then twice
    plan = build_plan(num_rounds=1)
    first, second = curves_of(
        store, plan, lambda planned: faster[planned.configuration][planned.setup]
    )
    assert speeds(second) == {32: 50.0, 64: 200.0}
    assert all(
        figures.keys() == {"samples_per_second"}
        for figures in (*first.points.values(), *second.points.values())
    )
    assert (first.undecided, second.undecided) == ((), (32, 64))
    assert [first.name, second.name] == [DEFAULT, f"{MIRRORED}, undecided"]


def test_a_sweep_that_is_half_done_says_so_in_the_names(store: Store) -> None:
    first, second = curves_of(
        store, build_plan(), lambda planned: "gone" if planned.round_number > 1 else 100.0
    )
    assert [first.name, second.name] == [
        f"{DEFAULT}, 1 of 2 rounds",
        f"{MIRRORED}, undecided, 1 of 2 rounds",
    ]


def speed_of(planned: PlannedRun) -> float | None:
    """The second setup is twice as fast at the first batch size.

    At others runs scatter by 20 %, and a difference cannot be seen.
    """
    if planned.configuration == 0:
        return 100.0 * (1 + planned.setup) if planned.round_number <= 3 else None
    if planned.round_number > 5:
        return None
    return 100.0 * (1.2 if (planned.round_number + planned.setup) % 2 else 1.0)


@pytest.mark.parametrize(
    ("batches", "mark"),
    [
        ((32, 2048), "undecided at 2,048"),
        ((32, 64, 128), "undecided at 64 and 128"),
        ((32, 64, 128, 256), "undecided at 3 of 4"),
    ],
)
def test_a_line_names_the_points_that_are_undecided_and_the_rounds_that_were_made(
    store: Store, batches: tuple[int, ...], mark: str
) -> None:
    variations = (Variation(key=BATCHES.key, values=batches),)
    plan = build_plan(variations=variations, first_rounds=3, num_rounds=20)
    first, second = curves_of(store, plan, speed_of)
    assert (first.name, second.name) == (
        f"{DEFAULT}, 3 to 5 rounds",
        f"{MIRRORED}, {mark}, 3 to 5 rounds",
    )
    assert second.undecided == batches[1:]
    assert second.rounds == {32: 3} | dict.fromkeys(batches[1:], 5)
    assert all("speedup" not in second.points[batch] for batch in batches[1:])
    assert second.points[32]["speedup"] == pytest.approx(2.0)


def test_a_line_is_marked_where_it_may_cross_another_than_the_baselines(store: Store) -> None:
    def speed(planned: PlannedRun) -> float:
        """Both others are twice as fast as the baseline; they differ by chance."""
        is_slower = planned.setup == planned.round_number % 2 + 1
        return 100.0 if planned.setup == 0 else 230.0 - 30.0 * is_slower

    third = Setup(strategy="one_device", devices=("cpu:0",))
    plan = build_plan(setups=(*TWO_SETUPS, third), num_rounds=4)
    found = curves_of(store, plan, speed)
    assert [curve.name for curve in found] == [DEFAULT, MIRRORED, f"{third.label}, undecided"]
    assert all("speedup_low" in figures for figures in found[2].points.values())


def test_ratios_between_sessions_are_marked_and_judged_by_the_users_settings(
    store: Store,
) -> None:
    plan = build_plan(num_rounds=3)
    write_in_sessions(store, plan)
    record = read_sweep(store, plan.sweep_id)
    for scatter, undecided in ((0.05, ()), (0.5, (32, 64))):
        settings = UserSettings(session_scatter=scatter)
        found = find_curves(plan, compare_sweep(store, record, settings=settings))
        assert found[1].between_sessions == (32, 64)
        assert found[1].undecided == undecided
        mark = ", undecided" if undecided else ""
        assert found[1].name == f"{MIRRORED}{mark}, between sessions"


def test_numbers_of_replicas_make_one_curve(store: Store) -> None:
    setups = replica_setups("cpu", (1, 2, 4))
    plan = build_plan(
        variations=(), setups=setups, per_replica_batch_size=32, scaling_modes=("data",)
    )
    (curve,) = curves_of(store, plan, lambda planned: 100.0 * (1 + planned.setup))
    assert (curve.over, speeds(curve), len(curve.run_ids)) == (
        "replicas",
        {1: 100.0, 2: 200.0, 4: 300.0},
        6,
    )
