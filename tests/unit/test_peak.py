import pytest

from tfbench import peak


def test_the_fastest_round_counts_and_every_device_has_its_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak, "_CPU_SIZE", 64)
    monkeypatch.setattr(peak, "_SMALL_SIZE", 64)
    times = iter([0.001, 0.5, 0.25, 0.125])

    def timed(work: object) -> float:
        work()  # type: ignore[operator]
        return next(times)

    monkeypatch.setattr(peak, "_time", timed)
    check = peak.measure_peak(("/device:CPU:0", "/device:CPU:0"), "float32", seconds=0.8)
    assert (check.size, check.precision, check.num_rounds) == (64, "float32", 3)
    assert check.flops == 2 * 2 * 64**3  # two for each multiply-accumulate, on two devices
    assert check.seconds == 0.125
    assert check.flops_per_second == 2 * 2 * 64**3 / 0.125


def test_a_machine_on_which_a_large_product_takes_too_long_is_given_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak, "_CPU_SIZE", 128)
    monkeypatch.setattr(peak, "_SMALL_SIZE", 32)
    monkeypatch.setattr(peak, "_time", lambda work: 1.0)
    assert peak.measure_peak(("/device:CPU:0",), "mixed_bfloat16", seconds=1.0).size == 32
