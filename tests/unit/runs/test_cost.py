"""What a run costs, against figures worked out by hand."""

from typing import Any

import pytest

from builders import build_dataset, build_epoch, build_recipe, build_request, build_result
from kinds import Fields
from tfbench.runs.cost import compute_cost
from tfbench.runs.record import ResumePoint, RunExit, RunResult
from tfbench.runs.run_document import run_document
from tfbench.runs.run_text import cost_facts
from tfbench.runs.summary import summarize_run
from tfbench.tracking import fields as tracked

CREATED = 1_700_000_000.0  # of `build_request`
HOUR = 3600.0


def build_run(hours: float = 10.0, *, training: Fields | None = None, **fields: Any) -> RunResult:
    """Builds a run of ten hours with three epochs that end after 2, 4 and 6 of them."""
    sections = {
        "cost": {"price_per_hour": 0.171} | fields.pop("cost", {}),
        "expect": fields.pop("expect", {}),
    }
    recipe = build_recipe(dataset={"data": "real"}, training=training or {}, **sections)
    epochs = tuple(
        build_epoch(
            epoch=number,
            num_steps=20,
            val_accuracy=accuracy,
            finished_at=CREATED + 2 * number * HOUR,
        )
        for number, accuracy in enumerate((0.5, 0.75, 0.98), start=1)
    )
    values = {
        "request": build_request(recipe=recipe),
        "epochs": epochs,
        "ended_at": CREATED + hours * HOUR,
    }
    return build_result(**values | fields)


@pytest.mark.parametrize(
    ("hours", "fields", "machine"),
    [
        (45.0, {}, 7.695),
        (2.0, {"epochs": (), "exit": RunExit(status="FAILED", reason="no memory left")}, 0.342),
        (-1.0, {}, 0.0),  # a clock that was set back earns nothing
    ],
)
def test_hours_are_paid_for_at_the_price_of_one_to_the_end(
    hours: float, fields: Fields, machine: float
) -> None:
    cost = compute_cost(build_run(hours, **fields))
    assert (cost.hours, cost.price_per_hour, cost.currency) == (max(0.0, hours), 0.171, "USD")
    assert cost.machine == pytest.approx(machine)


def test_an_epoch_costs_its_mean_training_and_validation() -> None:
    # 6, 3 and 3 minutes are 0.2 hours in all; the last epoch was cut short and does not count.
    times = [(20, 300.0, 60.0), (20, 150.0, 30.0), (20, 180.0, None), (7, 999.0, None)]
    epochs = tuple(
        build_epoch(
            epoch=number, num_steps=steps, epoch_seconds=seconds, validation_seconds=validation
        )
        for number, (steps, seconds, validation) in enumerate(times, start=1)
    )
    cost = compute_cost(build_run(epochs=epochs, cost={"price_per_hour": 3.0}))
    assert cost.epoch == pytest.approx(3.0 * 0.2 / 3)


def test_a_run_that_ends_within_its_first_epoch_has_no_cost_of_an_epoch() -> None:
    cost = compute_cost(
        build_run(epochs=(build_epoch(num_steps=7, validation_seconds=None, val_accuracy=None),))
    )
    assert (cost.epoch, cost.target, cost.machine) == (None, None, pytest.approx(1.71))
    assert "cost/epoch" not in cost.metrics()


EXPECT = {"target_accuracy": 0.7}


@pytest.mark.parametrize(
    ("fields", "target"),
    [
        ({"training": {"stop_at_val_accuracy": 0.98}, "expect": EXPECT}, (0.7, 2)),
        ({"training": {"stop_at_val_accuracy": 0.7}}, (0.7, 2)),
        ({"training": {"stop_at_val_accuracy": 0.99}}, (0.99, None)),
        (
            {
                "dataset": build_dataset(),
                "training": {"stop_at_val_accuracy": 0.5},
                "expect": EXPECT,
            },
            (0.5, 1),
        ),
        ({}, None),
    ],
)
def test_the_target_is_what_is_expected_else_where_training_stops(
    fields: Fields, target: tuple[float, int | None] | None
) -> None:
    cost = compute_cost(build_run(**fields))
    found = cost.target
    assert (found and (found.val_accuracy, found.epoch)) == target
    if found and found.epoch:  # epochs end after 2, 4 and 6 hours
        assert found.machine == pytest.approx(2 * found.epoch * 0.171)


def test_a_run_that_goes_on_from_a_checkpoint_pays_for_its_own_time() -> None:
    before = tuple(
        build_epoch(epoch=n, num_steps=20, epoch_seconds=HOUR, validation_seconds=0.0)
        for n in (1, 2)
    )
    own = build_epoch(epoch=3, num_steps=20, epoch_seconds=2 * HOUR, validation_seconds=0.0)
    recipe = build_run(training={"stop_at_val_accuracy": 0.5}).request.recipe
    resume = ResumePoint(run_id="b" * 32, checkpoint="epoch_000002.npz", epochs=before)
    cost = compute_cost(
        build_run(epochs=(*before, own), request=build_request(recipe=recipe, resume=resume))
    )
    assert cost.epoch == pytest.approx(2 * 0.171)
    assert cost.target is None  # a part of the way was paid for by the other run


def shown(result: RunResult) -> list[str]:
    return [text for _, text in cost_facts(result, is_full=True)]


def test_costs_are_shown_and_tracked_in_their_currency_and_a_target_that_was_not_reached_is_named() -> (
    None
):
    priced = build_run(45.0, training={"stop_at_val_accuracy": 0.7}, cost={"instance": "p2.xlarge"})
    assert shown(priced) == [
        "7.695 USD for 45 h at 0.171 USD an hour (p2.xlarge)",
        "7.125e-05 USD an epoch, training and validation",  # of 1.5 s
        "0.684 USD to val_accuracy 0.7 in epoch 2",
    ]
    metrics = tracked.summary_metrics(summarize_run(priced))
    expected = {
        "cost/hours": 45.0,
        "cost/machine": 7.695,
        "cost/epoch": 7.125e-5,
        "cost/to_accuracy": 0.684,
    }
    assert {name: value for name, value in metrics.items() if "cost" in name} == pytest.approx(
        expected
    )
    assert (
        tracked.tags(priced, None).items()
        >= {
            "tfbench.currency": "USD",
            "tfbench.instance": "p2.xlarge",
        }.items()
    )
    cost = {"price_per_hour": 36.0, "currency": "EUR"}
    first, _, last = shown(build_run(10 / 3600, training={"stop_at_val_accuracy": 0.99}, cost=cost))
    assert (first, last) == ("0.1 EUR for 10 s at 36 EUR an hour", "not reached: val_accuracy 0.99")


def test_without_a_price_or_an_end_there_is_no_cost() -> None:
    free = build_run(cost={"price_per_hour": None, "instance": "p2.xlarge"})
    assert compute_cost(free) is None and shown(free) == []
    assert compute_cost(build_run(ended_at=None, exit=None)) is None
    assert run_document(build_result(), summarize_run(build_result()), None)["cost"] is None
    assert not [name for name in tracked.params(build_result()) if name.startswith("cost")]
    assert not {"tfbench.currency", "tfbench.instance"} & set(tracked.tags(build_result(), None))
