import math
import random
from typing import Any

import pytest

from tfbench.analysis.comparison.step_model import StepModel, StepWork, describe_work, fit_step_model
from tfbench.analysis.comparison.step_prediction import bound_crossings, predict_crossings

MLP = {"global_batch_size": 100.0, "num_parameters": 1000.0, "flops_per_sample": 2000.0, "num_replicas": 2.0}


def step(work: float, exchanged: float = 0.0) -> StepWork:
    return StepWork(work=work, unit="sample", exchanged_bytes=exchanged)


def model(fixed: float, per_work: float, per_byte: float | None = None) -> StepModel:
    return StepModel(
        fixed=fixed,
        per_work=per_work,
        per_byte=per_byte,
        unit="sample",
        exchanges_untold=False,
        num_values=5,
        largest_error=0.0,
    )


def test_work_is_counted_in_samples_where_the_batch_varies_and_in_operations_where_the_network_does() -> None:
    assert describe_work(MLP, varies_batch=True) == StepWork(work=100, unit="sample", exchanged_bytes=4000)
    assert describe_work(MLP, varies_batch=False) == StepWork(work=200_000, unit="operation", exchanged_bytes=4000)
    unknown = MLP | {"flops_per_sample": None, "num_replicas": 1.0}
    assert describe_work(unknown, varies_batch=False) == StepWork(work=100_000, unit="parameter", exchanged_bytes=0)
    assert describe_work({"global_batch_size": 8.0}, varies_batch=False) is None
    assert describe_work({}, varies_batch=True) is None


def test_costs_are_fitted_to_relative_errors() -> None:
    rng = random.Random(0)
    measured = [
        (step(batch), (2e-3 + 1e-5 * batch) * math.exp(rng.gauss(0, 0.01))) for batch in (1, 8, 64, 512, 4096) * 3
    ]
    found = fit_step_model(measured)
    assert found is not None
    assert found.fixed == pytest.approx(2e-3, rel=0.02)
    assert found.per_work == pytest.approx(1e-5, rel=0.02)
    assert (found.per_byte, found.num_values, found.exchanges_untold) == (None, 5, False)
    assert found.largest_error < 0.02
    assert found.predict(step(100)) == pytest.approx(3e-3, rel=0.02)


def test_the_largest_error_is_that_of_a_value_and_not_of_a_run() -> None:
    measured = [(step(work), work * factor) for work in (1, 2, 4) for factor in (0.5, 2.0)]
    found = fit_step_model(measured)
    assert found is not None
    same_everywhere = [found.predict(step(work)) / work for work in (1, 2, 4)]
    assert found.largest_error == pytest.approx(abs(same_everywhere[0] - 1), rel=0.01)


def test_a_cost_that_comes_out_negative_is_left_out() -> None:
    found = fit_step_model([(step(batch), 1e-5 * batch**1.2) for batch in (10, 100, 1000)])
    assert found is not None
    assert found.fixed == 0.0 and found.per_work > 0
    assert found.largest_error > 0.1  # which says that the model does not fit


def test_the_exchange_has_a_cost_of_its_own_where_it_does_not_grow_with_the_work() -> None:
    sizes = [(1e6, 4e6), (2e6, 4e6), (4e6, 1e6), (8e6, 16e6), (3e6, 2e6)]
    measured = [(step(work, size), 1e-3 + 1e-9 * work + 2e-10 * size) for work, size in sizes]
    found = fit_step_model(measured)
    assert found is not None and found.per_byte is not None
    assert (found.fixed, found.per_work, found.per_byte) == pytest.approx((1e-3, 1e-9, 2e-10), rel=1e-6)
    assert not found.exchanges_untold


def test_an_exchange_that_grows_with_the_work_or_not_at_all_is_in_the_other_costs() -> None:
    growing = fit_step_model([(step(size, 2 * size), 1e-3 + 3e-9 * size) for size in (1e6, 2e6, 4e6)])
    constant = fit_step_model([(step(batch, 4e6), 1e-3 + 1e-5 * batch) for batch in (1, 8, 64)])
    for found in (growing, constant):
        assert found is not None
        assert found.per_byte is None and found.exchanges_untold
        assert found.fixed == pytest.approx(1e-3)


def test_two_sizes_are_too_few() -> None:
    assert fit_step_model([(step(1), 1.0), (step(2), 2.0), (step(2), 2.1)]) is None
    assert fit_step_model([]) is None


def test_the_predicted_crossing_is_where_both_models_take_the_same_time() -> None:
    steps = {batch: step(batch) for batch in (1, 8, 64, 512, 4096)}
    arms = (model(1e-3, 1e-5), model(5e-3, 4e-6))
    assert predict_crossings(arms, (steps, steps)) == [(pytest.approx(2000 / 3, rel=1e-3), True)]
    assert predict_crossings((arms[0], model(2e-3, 2e-5)), (steps, steps)) == []


def test_the_network_is_interpolated_between_the_sizes_that_were_measured() -> None:
    # Of layers as wide as the value: width squared parameters, twice as many operations a sample.
    widths = (16, 64, 256, 1024)
    work = {width: step(2.0 * width**2) for width in widths}
    exchanged = {width: step(2.0 * width**2, 4.0 * width**2) for width in widths}
    # 1 + 2 w**2 1e-4 = 1.5 + 2 w**2 2e-5 + 4 w**2 1e-5: w**2 = 0.5 / 1.2e-4
    found = predict_crossings((model(1.0, 1e-4), model(1.5, 2e-5, 1e-5)), (work, exchanged))
    assert found == [(pytest.approx(math.sqrt(0.5 / 1.2e-4), rel=1e-3), True)]


def drawn(rng: random.Random, *costs: tuple[float, float]) -> tuple[list[Any], list[Any]]:
    """Returns step times of two arms at five batch sizes, three runs each, off by some 5 %."""
    first, second = (
        [
            (step(batch), (fixed + per_sample * batch) * math.exp(rng.gauss(0, 0.05)))
            for batch in (1, 8, 64, 512, 4096)
            for _ in range(3)
        ]
        for fixed, per_sample in costs
    )
    return first, second


@pytest.mark.slow
def test_a_crossing_of_models_is_told_with_an_interval_that_holds_it() -> None:
    steps = {batch: step(batch) for batch in (1, 8, 64, 512, 4096)}
    rng = random.Random(0)
    found = [bound_crossings(drawn(rng, (1e-3, 1e-5), (5e-3, 4e-6)), (steps, steps)) for _ in range(40)]
    held = [one[0].low <= 2000 / 3 <= one[0].high for one in found if one]
    assert len(held) >= 38
    assert sum(held) / len(held) >= 0.9


@pytest.mark.slow
def test_models_of_equal_arms_cross_nowhere_that_is_bounded() -> None:
    steps = {batch: step(batch) for batch in (1, 8, 64, 512, 4096)}
    rng = random.Random(0)
    found = [bound_crossings(drawn(rng, (1e-3, 1e-5), (1e-3, 1e-5)), (steps, steps)) for _ in range(60)]
    assert sum(map(bool, found)) <= 3


def test_models_that_do_not_cross_are_said_not_to() -> None:
    steps = {batch: step(batch) for batch in (1, 8, 64, 512, 4096)}
    assert bound_crossings(drawn(random.Random(0), (1e-3, 1e-5), (2e-3, 2e-5)), (steps, steps)) == ()


def test_models_that_fit_exactly_as_many_values_as_they_have_costs_bound_nothing() -> None:
    steps = {batch: step(batch, 4.0 * batch**1.5) for batch in (1, 8, 64)}
    first, second = (
        [(steps[batch], fixed + slope * batch + 1e-8 * steps[batch].exchanged_bytes) for batch in steps]
        for fixed, slope in ((1e-3, 1e-5), (1.2e-3, 4e-6))
    )
    assert bound_crossings((first, second), (steps, steps)) is None
