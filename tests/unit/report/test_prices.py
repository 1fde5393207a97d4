"""What is shown and tracked of a run's cost."""

from typing import Any

import pytest

from builders import build_epoch, build_recipe, build_request, build_result
from tfbench.analysis.run.summary import summarize_run
from tfbench.records.run import RunResult
from tfbench.report.run.costs import cost_facts
from tfbench.report.run.run_document import run_document
from tfbench.tracking import fields

CREATED = 1_700_000_000.0  # of `build_request`


def build_run(*, hours: float = 45.0, stops_at: float = 0.95, **cost: Any) -> RunResult:
    recipe = build_recipe(dataset={"data": "real"}, training={"epochs": 2, "stop_at_val_accuracy": stops_at}, cost=cost)
    both: dict[str, Any] = {"num_steps": 20, "epoch_seconds": 6000.0, "validation_seconds": 600.0}
    epochs = (
        build_epoch(**both, finished_at=CREATED + 7200),
        build_epoch(**both, epoch=2, val_accuracy=0.9577, finished_at=CREATED + 14400),
    )
    request = build_request(recipe=recipe)
    return build_result(request=request, epochs=epochs, ended_at=CREATED + hours * 3600)


PRICED = build_run(price_per_hour=0.171, instance="p2.xlarge")


def shown(result: RunResult) -> list[str]:
    return [text for _, text in cost_facts(result, is_full=True)]


def test_costs_are_shown_and_what_is_not_known_or_reached_is_left_out_or_named() -> None:
    assert shown(PRICED) == [
        "7.695 USD for 45 h at 0.171 USD an hour (p2.xlarge)",
        "0.3135 USD an epoch, training and validation",
        "0.684 USD to val_accuracy 0.95 in epoch 2",
    ]
    result = build_result(request=build_request(recipe=build_recipe(cost={"price_per_hour": 36.0, "currency": "EUR"})))
    assert (len(shown(result)), shown(result)[0]) == (2, "0.1 EUR for 10 s at 36 EUR an hour")
    unreached = shown(build_run(price_per_hour=1.0, stops_at=0.99))
    assert unreached[2] == "not reached: val_accuracy 0.99"


def test_without_a_price_nothing_is_shown_or_tracked() -> None:
    result = build_result()
    assert shown(result) == []
    assert run_document(result, summarize_run(result), None)["cost"] is None
    assert not [name for name in fields.params(result) if name.startswith("cost")]
    assert not {"tfbench.currency", "tfbench.instance"} & set(fields.tags(result, None))


def test_mlflow_gets_costs_as_a_group_of_metrics_with_currency_and_instance() -> None:
    metrics = fields.summary_metrics(summarize_run(PRICED))
    costs = {name: value for name, value in metrics.items() if "cost" in name}
    expected = {"cost/hours": 45.0, "cost/machine": 7.695, "cost/epoch": 0.3135, "cost/to_accuracy": 0.684}
    assert costs == pytest.approx(expected)
    tags = fields.tags(PRICED, None)
    assert (tags["tfbench.currency"], tags["tfbench.instance"]) == ("USD", "p2.xlarge")
