"""What is said of what limited a training: each text, and each threshold from both sides. Speed: 320 samples/s."""

from typing import Any

import pytest

from builders import build_epoch, build_result
from tfbench.analysis.run.work import check_work, find_peak
from tfbench.records.machine import InputCheck, PeakCheck
from tfbench.records.run import EpochRecord, ModelSummary

SPEED = 320.0  # samples/s, in batches of 32


def check(speed: float | None = SPEED, **fields: Any) -> list[str]:
    return list(check_work(speed, build_result(**fields)))


def build_peak(flops_per_second: int, other_share: float = 0.0) -> PeakCheck:
    return PeakCheck(
        size=100, precision="float32", num_rounds=3, flops=2 * flops_per_second, seconds=2.0, other_share=other_share
    )


def build_model(**fields: Any) -> ModelSummary:
    return ModelSummary(**{"num_parameters": 10, "num_trainable_parameters": 10} | fields)


BOUND, CONTRADICTION = "input-bound, or nearly: the input", "the input check contradicts the training: the input"


@pytest.mark.parametrize(
    ("num_batches", "beginning"),
    [
        # In ten seconds, of 32: 480 samples/s are one and a half times 320, 304 are 0.95 times as many.
        (150, ""),
        (149, f"{BOUND} pipeline alone makes 477 samples/s, 1.49 times the 320 of the training"),
        (95, f"{BOUND} pipeline alone makes 304 samples/s, 0.95 times the 320 of the training"),
        (94, CONTRADICTION),
        (42, f"{CONTRADICTION} pipeline alone made 134 samples/s in 10 s, less than the 320"),
    ],
)
def test_an_input_pipeline_must_be_one_and_a_half_times_as_fast_as_the_training_and_cannot_be_slower(
    num_batches: int, beginning: str
) -> None:
    found = check(input_check=InputCheck(num_batches=num_batches, seconds=10.0))
    assert [text[: len(beginning)] for text in found] == ([beginning] if beginning else [])


def short_epochs(ready_batches: int | None) -> tuple[EpochRecord, ...]:
    """Builds epochs of eight steps."""
    return tuple(build_epoch(epoch=number, num_steps=8, ready_batches=ready_batches) for number in (1, 2))


def test_batches_that_were_made_between_epochs_explain_a_contradiction_and_are_pointed_out() -> None:
    (text,) = check(input_check=InputCheck(num_batches=50, seconds=10.0), epochs=short_epochs(4))
    assert "Up to 50 % of its batches were made between epochs" in text
    # 4 of 8 batches, whose making takes a tenth of the time of a step: 5 %.
    (text,) = check(input_check=InputCheck(num_batches=100, seconds=1.0), epochs=short_epochs(4))
    assert text.startswith("epochs are short: up to 50 % of their batches") and "look up to 5 % faster" in text


@pytest.mark.parametrize(("num_batches", "ready"), [(251, 4), (100, 1), (100, 0), (100, None)])
def test_batches_made_between_epochs_that_hardly_count_are_not_pointed_out(num_batches: int, ready: int | None) -> None:
    # 50 % of the batches at 25.1 times the speed; 12.5 % at ten times; none; not recorded.
    assert check(input_check=InputCheck(num_batches=num_batches, seconds=1.0), epochs=short_epochs(ready)) == []


@pytest.mark.parametrize(
    ("peaks", "is_above"),
    [
        # 6,000,000 x 320 = 1.92 GFLOP/s; the better one of the two peaks counts, and one alone is no proof.
        ((1_500_000_000, 1_400_000_000), True),
        ((1, 1_919_999_999), True),
        ((1, 1_920_000_000), False),
        ((1,), False),
    ],
)
def test_more_than_the_peak_measured_twice_is_pointed_out(peaks: tuple[int, ...], is_above: bool) -> None:
    found = check(model=build_model(training_flops_per_sample=6_000_000), peak_checks=tuple(map(build_peak, peaks)))
    beginning = "model_flops_utilization is not available: the training made 1.92 GFLOP/s, more than"
    assert [text[: len(beginning)] for text in found] == [beginning] * is_above


@pytest.mark.parametrize(
    ("layers", "named"),
    [
        (("attend (AdditiveAttention)", "mine (Mine)"), "not known: attend (AdditiveAttention), mine (Mine). A layer"),
        (tuple("abcde"), "not known: a, b, c, d, e. A layer"),
        (tuple("abcdefg"), "not known: a, b, c, d, e and 2 more. A layer"),
        (("net (Own.train_step)",), "code of the network's own cannot be counted, net (Own.train_step)"),
    ],
)
def test_what_operations_are_not_known_of_is_named(layers: tuple[str, ...], named: str) -> None:
    (caution,) = check(model=build_model(uncounted_layers=layers))
    assert caution.startswith("flops_per_sample is not available") and named in caution


def test_nothing_is_said_without_a_speed_or_a_record() -> None:
    model = build_model(training_flops_per_sample=6_000_000)
    peaks = (build_peak(1), build_peak(1))
    assert check(None, model=model, peak_checks=peaks, input_check=InputCheck(num_batches=1, seconds=9.0)) == []
    assert check(model=None, peak_checks=peaks) == []
    assert check(model=build_model(), peak_checks=peaks) == []
    assert check(placement=None, input_check=InputCheck(num_batches=1, seconds=9.0)) == []


def test_a_peak_that_others_disturbed_is_none() -> None:
    disturbed = (build_peak(2_000_000_000, 0.4), build_peak(1_000_000_000, 0.25))
    assert find_peak(disturbed) is None
    (caution,) = check(model=build_model(training_flops_per_sample=1000), peak_checks=disturbed)
    assert "other processes took 25 % of" in caution
    # A quiet one among them shows that the faster one is no less than the peak.
    assert find_peak((*disturbed, build_peak(1_000_000_000, 0.1))) == 2e9
