"""What is shown and tracked of a run's cost."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from builders import build_epoch, build_recipe, build_request, build_result
from tfbench.analysis.run.summary import summarize_run
from tfbench.records.run import RunResult
from tfbench.report.run.costs import cost_section
from tfbench.report.run.run_document import run_document
from tfbench.report.table import text
from tfbench.tracking import fields

Golden = Callable[[str, str], None]
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


def cost_lines(result: RunResult, width: int) -> list[str]:
    section = cost_section(result)
    return text([section], width) if section else []


def test_the_cost_is_shown_as_in_the_golden_file(golden: Golden) -> None:
    golden("cost_80.txt", "\n".join(cost_lines(PRICED, 80)) + "\n")


def test_what_is_not_known_or_reached_is_left_out_or_named() -> None:
    result = build_result(request=build_request(recipe=build_recipe(cost={"price_per_hour": 36.0, "currency": "EUR"})))
    assert [line.split(None, 1)[0] for line in cost_lines(result, 80)[1:]] == ["machine", "an"]
    assert "  machine     0.1 EUR for 10 s at 36 EUR an hour" in cost_lines(result, 80)
    lines = cost_lines(build_run(price_per_hour=1.0, stops_at=0.99), 80)
    assert "  to accuracy  not reached: val_accuracy 0.99 (training.stop_at_val_accuracy)" in lines


def test_without_a_price_nothing_is_shown_or_tracked() -> None:
    result = build_result()
    assert cost_lines(result, 80) == []
    assert run_document(result, summarize_run(result), None)["cost"] is None
    assert not [name for name in fields.params(result) if name.startswith("cost")]
    assert not {"tfbench.currency", "tfbench.instance"} & set(fields.tags(result, None))


def test_json_holds_every_figure_of_the_cost() -> None:
    written = json.loads(json.dumps(run_document(PRICED, summarize_run(PRICED), None), allow_nan=False))
    cost = written["cost"]
    assert [cost[name] for name in ("currency", "instance", "price_per_hour", "hours")] == [
        "USD",
        "p2.xlarge",
        0.171,
        45,
    ]
    assert cost["machine"] == pytest.approx(7.695)
    assert cost["target"] == {
        "val_accuracy": 0.95,
        "origin": "training.stop_at_val_accuracy",
        "epoch": 2,
        "seconds": pytest.approx(4 * 3600.0),
        "machine": pytest.approx(0.684),
    }
    assert written["summary"]["cost/machine"] == cost["machine"]


def test_mlflow_gets_costs_as_a_group_of_metrics_with_currency_and_instance() -> None:
    metrics = fields.summary_metrics(summarize_run(PRICED))
    costs = {name: value for name, value in metrics.items() if "cost" in name}
    assert costs == pytest.approx(
        {
            "cost/hours": 45.0,
            "cost/machine": 7.695,
            "cost/epoch": 0.3135,  # 6,600 s
            "cost/to_accuracy": 0.684,
        }
    )
    assert next(iter(metrics)) == "samples_per_second"
    tags = fields.tags(PRICED, None)
    assert (tags["tfbench.currency"], tags["tfbench.instance"]) == ("USD", "p2.xlarge")
