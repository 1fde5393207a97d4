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


def test_an_input_pipeline_that_is_hardly_faster_than_the_training_is_pointed_out() -> None:
    # 11 batches of 32 in a second: 352 samples/s, 1.1 times 320.
    assert check(input_check=InputCheck(num_batches=11, seconds=1.0)) == [
        "input-bound, or nearly: the input pipeline alone makes 352 samples/s, 1.10 times the 320 of the training (1.5 "
        "times would leave room), so that this run says little of its devices. Use faster storage, more processor "
        "cores for the input, smaller images or a larger network."
    ]


@pytest.mark.parametrize(("num_batches", "is_bound"), [(149, True), (150, False)])
def test_an_input_pipeline_of_one_and_a_half_times_the_speed_is_fast_enough(num_batches: int, is_bound: bool) -> None:
    # 150 batches of 32 in 10 s: 480 samples/s.
    assert bool(check(input_check=InputCheck(num_batches=num_batches, seconds=10.0))) == is_bound


@pytest.mark.parametrize(("num_batches", "is_possible"), [(94, False), (95, True)])
def test_a_pipeline_slower_than_the_training_that_it_fed_is_a_contradiction_and_not_input_bound(
    num_batches: int, is_possible: bool
) -> None:
    # 95 batches of 32 in 10 s: 304 samples/s, 0.95 times 320.
    (text,) = check(input_check=InputCheck(num_batches=num_batches, seconds=10.0))
    assert text.startswith("input-bound, or nearly: " if is_possible else "the input check contradicts the training: ")


def test_a_contradiction_names_both_rates_and_what_to_do() -> None:
    assert check(input_check=InputCheck(num_batches=42, seconds=10.0)) == [
        "the input check contradicts the training: the input pipeline alone made 134 samples/s in 10 s, less than the "
        "320 that the training is said to have used, so that nothing is known of what limits it. Something else may "
        "have taken the processor during the check: repeat the run on a quiet machine."
    ]


def short_epochs(ready_batches: int | None) -> tuple[EpochRecord, ...]:
    """Builds epochs of eight steps."""
    return tuple(build_epoch(epoch=number, num_steps=8, ready_batches=ready_batches) for number in (1, 2))


def test_a_contradiction_is_explained_by_batches_that_were_made_between_epochs() -> None:
    (text,) = check(input_check=InputCheck(num_batches=50, seconds=10.0), epochs=short_epochs(4))
    assert text.endswith(
        "Up to 50 % of its batches were made between epochs, outside of their clock, which makes it look faster than "
        "it is: measure a part without validation (--seconds 10)."
    )


def test_short_epochs_whose_batches_were_made_between_them_are_pointed_out() -> None:
    # 4 of 8 batches, whose making takes a tenth of the time of a step: 5 %.
    assert check(input_check=InputCheck(num_batches=100, seconds=1.0), epochs=short_epochs(4)) == [
        "epochs are short: up to 50 % of their batches were made between epochs, outside of their clock, which may "
        "make the training look up to 5 % faster than it is. Measure a part without validation (--seconds 10)."
    ]


@pytest.mark.parametrize(("num_batches", "ready"), [(251, 4), (100, 1), (100, 0), (100, None)])
def test_batches_made_between_epochs_that_hardly_count_are_not_pointed_out(num_batches: int, ready: int | None) -> None:
    # 50 % of the batches at 25.1 times the speed; 12.5 % at ten times; none; not recorded.
    assert check(input_check=InputCheck(num_batches=num_batches, seconds=1.0), epochs=short_epochs(ready)) == []


def test_more_than_the_peak_measured_twice_is_pointed_out() -> None:
    # 6,000,000 x 320 = 1.92 GFLOP/s; the better one of the two peaks counts.
    model = build_model(training_flops_per_sample=6_000_000)
    assert check(model=model, peak_checks=(build_peak(1_500_000_000), build_peak(1_400_000_000))) == [
        "model_flops_utilization is not available: the training made 1.92 GFLOP/s, more than the 1.5 of matrix "
        "products on the same devices, measured 2 times. Either these were disturbed, or they are no peak for this "
        "network: there are shorter ways to convolve than are counted (Winograd's). Repeat the run on a quiet machine."
    ]


@pytest.mark.parametrize(("peak", "is_above"), [(1_919_999_999, True), (1_920_000_000, False)])
def test_a_training_may_reach_the_peak(peak: int, is_above: bool) -> None:
    model = build_model(training_flops_per_sample=6_000_000)
    assert bool(check(model=model, peak_checks=(build_peak(1), build_peak(peak)))) == is_above


def test_one_peak_is_no_proof() -> None:
    model = build_model(training_flops_per_sample=6_000_000)
    assert check(model=model, peak_checks=(build_peak(1),)) == []


def test_layers_whose_operations_are_not_known_are_named() -> None:
    assert check(model=build_model(uncounted_layers=("attend (AdditiveAttention)", "mine (Mine)"))) == [
        "flops_per_sample is not available, since the operations of these layers are not known: attend "
        "(AdditiveAttention), mine (Mine). A layer of your own says them in a method "
        "forward_flops(input_shape, output_shape)."
    ]


def test_a_step_of_ones_own_is_no_layer_that_could_say_its_operations() -> None:
    assert check(model=build_model(uncounted_layers=("net (Own.train_step)",))) == [
        "flops_per_sample is not available: code of the network's own cannot be counted, net (Own.train_step)."
    ]


def test_of_many_layers_whose_operations_are_not_known_five_are_named() -> None:
    (caution,) = check(model=build_model(uncounted_layers=tuple("abcde")))
    assert "not known: a, b, c, d, e. A layer" in caution
    (caution,) = check(model=build_model(uncounted_layers=tuple("abcdefg")))
    assert "not known: a, b, c, d, e and 2 more. A layer" in caution


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
    assert check(model=build_model(training_flops_per_sample=1000), peak_checks=disturbed) == [
        "model_flops_utilization is not available: while the devices' peak was measured, other processes took 25 % of "
        "the machine's processor time. Stop them, and repeat the run."
    ]
    # A quiet one among them shows that the faster one is no less than the peak.
    assert find_peak((*disturbed, build_peak(1_000_000_000, 0.1))) == 2e9
