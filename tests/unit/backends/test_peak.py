"""What a training is compared with afterwards.

The peak of its devices, its input pipeline alone.
"""

import itertools
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from builders import build_peak, build_placement, build_sizes
from prepared import build_prepared, read_result
from tfbench.backends import peak
from tfbench.backends.tensorflow import input_pipeline
from tfbench.backends.tensorflow.backend import BACKEND
from tfbench.machine.facts import InputCheck, PeakCheck
from tfbench.measure import checks


class Device:
    """A device with a clock.

    Each call costs the host something, each product the device, and the end of all a wait.

    It stands in the place of the backend.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, launch: float, flops_per_second: dict[int, float]
    ) -> None:
        self._launch = launch
        self._flops_per_second = flops_per_second
        self._now = 0.0
        self.built = []
        monkeypatch.setattr(peak.time, "perf_counter", lambda: self._now)
        monkeypatch.setattr(peak.backends, "current", lambda: self)
        counters = SimpleNamespace(other_share=lambda before: 0.0)
        monkeypatch.setattr(peak, "read_counters", lambda: counters)

    def build_products(self, devices: Any, sizes: peak.Sizes, dtype: str, chain: int) -> peak.Run:
        self.built.append(sizes)
        speed = self._flops_per_second.get(sizes[0], self._flops_per_second[0])
        return self._build(chain * 2 * math.prod(sizes) / speed)

    def build_additions(self, devices: Any, size: int, chain: int) -> peak.Run:
        return self._build(chain * 3 * 4 * size / 3e12)

    def _build(self, seconds: float) -> peak.Run:
        def run(num_calls: int) -> None:
            self._now += self._launch + num_calls * seconds

        return run


def peak_on_cpu(own_sizes: peak.Sizes | None = None) -> PeakCheck:
    return peak.measure_peak(("/device:CPU:0",), "float32", seconds=1.0, own_sizes=own_sizes)


# At 800 TFLOP/s eight products of 4096 rows take 1.4 ms.
@pytest.mark.parametrize(
    ("launch", "teraflops"), [(2e-3, 1.0), (200e-6, 60.0), (20e-6, 800.0), (2e-3, 800.0)]
)
def test_what_a_launch_costs_is_less_than_a_hundredth_of_a_peak(
    monkeypatch: pytest.MonkeyPatch, launch: float, teraflops: float
) -> None:
    Device(monkeypatch, launch=launch, flops_per_second={0: teraflops * 1e12})
    check = peak.measure_peak(("/device:GPU:0",), "mixed_bfloat16", seconds=1.0)
    assert check.sizes == (4096, 4096, 4096)
    assert 0.99 <= check.flops_per_second / (teraflops * 1e12) <= 1.0
    bandwidth = peak.measure_bandwidth(("/device:GPU:0",), seconds=1.0)
    assert 0.99 <= bandwidth.bytes_per_second / 3e12 <= 1.0


def test_a_round_that_is_held_up_lowers_no_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    class HeldUp(Device):
        """Every second call takes three times as long, that of a network's own product ten."""

        def build_products(self, devices: Any, sizes: peak.Sizes, *how: Any) -> peak.Run:
            compute = super().build_products(devices, sizes, *how)
            times = itertools.cycle((1, 10 if sizes[0] == 512 else 3))

            def run(num_calls: int) -> None:
                for _ in range(next(times)):
                    compute(num_calls)

            return run

    HeldUp(monkeypatch, launch=1e-6, flops_per_second={0: 100e9, 512: 130e9})
    check = peak_on_cpu((512, 1152, 128))
    assert check.sizes == (512, 1152, 128)
    assert 0.99 <= check.flops_per_second / 130e9 <= 1.0


def test_the_network_s_own_product_is_the_peak_where_it_is_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = Device(monkeypatch, launch=1e-4, flops_per_second={0: 100e9, 512: 130e9})
    check = peak_on_cpu((512, 1152, 128))
    assert (check.size, check.sizes) == (512, (512, 1152, 128))
    assert 0.99 <= check.flops_per_second / 130e9 <= 1.0
    slower = peak_on_cpu((100, 784, 100))
    assert slower.sizes == (2048, 2048, 2048)
    # No larger than a square one: as fast, and with less memory.
    peak_on_cpu((131_072, 1152, 128))
    assert device.built[-1] == (2048, 1152, 128)


def test_every_device_has_its_products_of_what_the_layers_compute_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = {"_CPU_SIZE": 64, "_SMALL_SIZE": 64, "_MIN_ROUND_SECONDS": 0.001, "_MIN_LAUNCHES": 1}
    for name, value in small.items():
        monkeypatch.setattr(peak, name, value)
    devices = ("/device:CPU:0", "/device:CPU:0")
    check = peak.measure_peak(devices, "mixed_bfloat16", seconds=0.0, own_sizes=(8, 4, 2))
    assert (check.size, check.precision, check.num_rounds) == (check.sizes[0], "bfloat16", 3)
    assert check.sizes in [(64, 64, 64), (8, 4, 2)]
    of_a_call = 2 * 2 * math.prod(check.sizes)  # two for each multiply-accumulate, on two devices
    assert check.flops % of_a_call == 0
    assert peak.measure_bandwidth(devices[:1], seconds=0.0).num_rounds == 3


def test_a_machine_on_which_a_large_product_takes_too_long_is_given_small_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Device(monkeypatch, launch=1e-4, flops_per_second={0: 20e9})  # 0.9 s for 2048 rows
    assert peak_on_cpu().size == 1024


# 3,000 operations of 32 samples, ten steps a second: 960,000 a second. With nothing to compare, none
# is measured. Products are of the 8 samples of one replica.
@pytest.mark.parametrize(
    ("peaks", "flops", "speed"),
    [
        ([960_000], 3000, 10.0),
        ([959_999, 970_000], 3000, 10.0),
        ([1, 2], 3000, 10.0),
        ([], None, 10.0),
        ([], 1000, None),
    ],
)
def test_a_peak_below_what_was_reached_is_measured_once_more(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    peaks: list[int],
    flops: int | None,
    speed: float | None,
) -> None:
    found = iter(peaks)
    sizes = []

    def measure(*_: Any, own_sizes: Any, **__: Any) -> PeakCheck:
        sizes.append(own_sizes)
        return build_peak(flops=next(found))

    alone = InputCheck(num_batches=64, seconds=0.5)
    monkeypatch.setattr(checks, "measure_peak", measure)
    monkeypatch.setattr(checks, "check_input", lambda *_: alone)
    prepared = build_prepared(
        tmp_path,
        resolved=SimpleNamespace(
            device_names=("/device:CPU:0",),
            placement=build_placement(num_replicas=4, per_replica_batch_size=8),
        ),
        summary=build_sizes(training_flops_per_sample=flops, main_product=(2, 3, 5)),
    )
    checks.check_limits(prepared, speed)
    result = read_result(prepared)
    assert [check.flops for check in result.peak_checks] == peaks
    assert result.input_check == alone
    assert sizes == [(16, 3, 5)] * len(peaks)


class Pipeline:
    """Batches that take a given time each, on a clock of its own."""

    def __init__(self, batch_seconds: float) -> None:
        self._batch_seconds = batch_seconds
        self.drawn = 0

    def draw(self, count: int) -> None:
        self.drawn += count

    def now(self) -> float:
        return self.drawn * self._batch_seconds


# 1 + 4 + 2 batches were ready, or in the making, before the drain began.
@pytest.mark.parametrize(
    ("batch_seconds", "least", "most"), [(0.001, 500, 501), (0.1, 5, 6), (3.0, 1, 1)]
)
def test_batches_are_drawn_from_the_pipeline_alone_for_half_a_second_once_none_is_ready_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_seconds: float, least: int, most: int
) -> None:
    pipeline = Pipeline(batch_seconds)
    monkeypatch.setattr(BACKEND, "build_training_dataset", lambda *_, **__: pipeline)
    monkeypatch.setattr(BACKEND, "compile_draws", lambda batches: batches.draw)
    monkeypatch.setattr(checks.time, "perf_counter", pipeline.now)
    check = checks.check_input(build_prepared(tmp_path))
    assert least <= check.num_batches <= most
    assert check.seconds == pytest.approx(check.num_batches * batch_seconds)
    assert pipeline.drawn == 7 + check.num_batches


def test_as_many_batches_are_drawn_as_are_counted() -> None:
    import tensorflow as tf

    made = []

    def make(number: Any) -> Any:
        made.append(int(number))
        return number

    batches = tf.data.Dataset.counter().map(
        lambda number: tf.numpy_function(make, [number], tf.int64)
    )
    options = tf.data.Options()
    # which TensorFlow does where a pipeline has none
    options.experimental_optimization.inject_prefetch = False
    draw = input_pipeline.compile_draws(batches.with_options(options))
    draw(1)
    draw(5)
    draw(20)
    assert made == list(range(26))
