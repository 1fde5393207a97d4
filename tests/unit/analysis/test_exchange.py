"""Which worker the others wait for, told from what each spent in collectives."""

import pytest

from builders import build_result
from tfbench.analysis.run.exchange import check_waiting
from tfbench.records.spread import ExchangeCheck, StepParts


def check(*workers: tuple[float, float, float | None]) -> list[str]:
    parts = tuple(StepParts(step_seconds=step, exchange_seconds=own, input_seconds=wait) for step, own, wait in workers)
    return list(check_waiting(build_result(exchange_check=ExchangeCheck(num_steps=20, workers=parts))))


def test_the_worker_that_spends_the_least_in_collectives_is_waited_for() -> None:
    (text,) = check((0.06, 0.055, 0.001), (0.06, 0.005, 0.001), (0.06, 0.054, 0.001))
    assert text.startswith("the other workers wait for worker 1 of 3: 50 of 60 ms of a step (83 %), as traced over 20")
    assert "Its own work takes longer" in text


def test_its_input_is_named_where_that_accounts_for_most_of_the_waiting() -> None:
    (text,) = check((0.06, 0.055, 0.001), (0.06, 0.005, 0.046))
    assert "Its input takes 45 ms longer than the others'" in text


def test_an_input_that_is_not_told_is_not_named() -> None:
    (text,) = check((0.06, 0.055, None), (0.06, 0.005, None))
    assert "Its own work, or its input, takes longer, which this back end does not tell apart." in text


@pytest.mark.parametrize("workers", [[(0.06, 0.0205, 0.0), (0.06, 0.018, 0.0)], [(0.06, 0.05, 0.0)]])
def test_a_little_waiting_is_nothing_to_speak_of(workers: list[tuple[float, float, float]]) -> None:
    assert check(*workers) == []
