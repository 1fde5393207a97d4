"""Metric names are ours, and MLflow takes them."""

import re

import pytest

from tfbench.metrics import (
    CURVE_METRICS,
    EPOCH_SERIES,
    LEARNING_METRICS,
    METRICS,
    PROFILE_METRICS,
    TRACKED_METRICS,
    curve_metric,
)
from tfbench.tracking.mlflow_view import AXES

CURVES = {
    curve_metric(name, "parameters of the network"): metric
    for name, metric in CURVE_METRICS.items()
}
ALL = METRICS | PROFILE_METRICS | CURVES


@pytest.mark.parametrize("name", ALL)
def test_a_name_has_only_small_letters_digits_and_underscores_and_a_meaning_of_one_line(
    name: str,
) -> None:
    assert re.fullmatch(r"[a-z0-9_/]+", name)
    assert ALL[name].meaning and "\n" not in ALL[name].meaning


def test_metrics_of_an_epoch_and_what_mlflow_shows_of_a_run_are_metrics() -> None:
    assert set(TRACKED_METRICS) <= set(METRICS)
    assert set(EPOCH_SERIES) <= set(METRICS)
    assert not set(TRACKED_METRICS) & set(LEARNING_METRICS)  # one number for one thing


def test_mlflow_takes_every_name() -> None:
    from mlflow.utils.validation import _validate_metric_name

    for name in (*ALL, *AXES, *(f"by_epoch/{name}" for name in EPOCH_SERIES)):
        _validate_metric_name(name)
