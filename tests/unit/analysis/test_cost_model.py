"""Links fitted to what a simulated ring takes, and predictions held against the same ring with more devices."""

import dataclasses

import pytest

from links import SIZES, build_link, ring_seconds
from rows import small_alexnet
from tfbench.analysis.parallel.cost_model import predict_modes
from tfbench.analysis.parallel.link import fit_link, moved_bytes
from tfbench.analysis.parallel.traffic import count_traffic
from tfbench.recipe.mesh import Mesh

HOP, PER_BYTE = 5e-6, 1e-10
STEP_SECONDS, BATCH = 0.02, 64


def test_the_costs_of_a_ring_are_found_again() -> None:
    link = fit_link(build_link(4, hop=HOP, per_byte=PER_BYTE))
    assert link.latency.center == pytest.approx(2 * 3 * HOP)
    assert link.seconds_per_byte.center == pytest.approx(PER_BYTE)
    assert link.largest_error == pytest.approx(0, abs=1e-6)
    assert moved_bytes(1000, 4) == 1500


def test_intervals_are_over_processes() -> None:
    link = fit_link(build_link(4, hop=HOP, per_byte=PER_BYTE, factors=(0.9, 1.0, 1.1)))
    # Student's t of two degrees of freedom is 4.303; the standard deviation is 0.1.
    half = 4.303 * 0.1 / 3**0.5
    assert link.seconds_per_byte.low / PER_BYTE == pytest.approx(1 - half, rel=1e-3)
    assert link.latency.high / (6 * HOP) == pytest.approx(1 + half, rel=1e-3)


def test_no_cost_is_below_zero_and_a_bad_fit_is_known() -> None:
    times = tuple((size / SIZES[0]) ** 1.5 * 1e-6 for size in SIZES)  # the larger, the slower a byte
    link = fit_link(dataclasses.replace(build_link(), seconds=(times,)))
    assert link.latency.center == 0
    assert link.largest_error > 0.5


@pytest.mark.parametrize("num", [8, 64])
def test_a_prediction_is_what_the_simulated_ring_takes(num: int) -> None:
    link = fit_link(build_link(4, hop=HOP, per_byte=PER_BYTE))
    predicted = {
        one.mode: one
        for one in predict_modes(
            small_alexnet(), link, step_seconds=STEP_SECONDS, batch_size=BATCH, nums_of_devices=[num]
        )
    }
    gradients = ring_seconds(4 * 477_424, num, hop=HOP, per_byte=PER_BYTE)
    assert predicted["data"].exchange_seconds == pytest.approx(gradients)
    assert predicted["data"].speedup == pytest.approx(num * STEP_SECONDS / (STEP_SECONDS + gradients))
    samples = num * BATCH
    # Gradients of the convolutions; a dense layer's inputs are gathered, and their gradients added up.
    inputs = [4 * samples * size for size in (1568, 256, 256)]
    loss = 4 * samples * (4 + 2 * num)
    added = [4 * (1216 + 4640), *inputs, loss]
    whole = 0.0
    if num > 16:  # the last layer's 16 outputs do not divide: parts of features become parts of samples, and back
        added = [4 * (1216 + 4640 + 257 * 16), *inputs[:2]]
        whole = ring_seconds(2 * inputs[2] / num, num, hop=HOP, per_byte=PER_BYTE) / 2
        inputs = inputs[:2]
    exchange = whole + sum(ring_seconds(size, num, hop=HOP, per_byte=PER_BYTE) for size in added)
    exchange += sum(ring_seconds(size, num, hop=HOP, per_byte=PER_BYTE) / 2 for size in inputs)
    assert predicted["hybrid"].exchange_seconds == pytest.approx(exchange)


def test_what_every_device_computes_for_itself_bounds_the_speed_up() -> None:
    free = fit_link(build_link(4, hop=0.0, per_byte=1e-18))
    rows = small_alexnet()
    model = next(
        one
        for one in predict_modes(rows, free, step_seconds=STEP_SECONDS, batch_size=BATCH, nums_of_devices=[8])
        if one.mode == "model"
    )
    one, eight = (count_traffic(rows, {}, Mesh(1), BATCH).flops_per_device or 0), 0
    dense = 3 * 2 * (1568 * 256 + 256 * 256 + 256 * 16) * BATCH
    eight = one - dense + dense // 8
    assert model.speedup == pytest.approx(one / eight)
