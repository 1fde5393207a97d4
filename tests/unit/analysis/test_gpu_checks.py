"""What GPUs did that speaks against a run's speed: each planted thing is named, and nothing else."""

import dataclasses
from typing import Any

import pytest

from builders import build_result
from tfbench.analysis.run.checks import find_speed_cautions
from tfbench.analysis.run.gpu_checks import check_gpus
from tfbench.records.energy import GpuState, MachineState
from tfbench.records.run import RunResult

GPU = "0000:3b:00.0"
QUIET = GpuState(
    clock_mhz=1980.0,
    temperature_celsius=60.0,
    clock_reasons=0,
    power_limit_watts=700.0,
    default_power_limit_watts=700.0,
    ecc_errors=7,
    num_other_processes=0,
)


def build_run(*states: GpuState | None) -> RunResult:
    """Builds a run whose GPU was seen so, once a second; None: it did not answer."""
    looks = [
        MachineState(seconds=float(second), gpus={GPU: state} if state else {}, joules={})
        for second, state in enumerate(states)
    ]
    return build_result(machine_states=tuple(looks))


def changed(**fields: Any) -> GpuState:
    return dataclasses.replace(QUIET, **fields)


def test_a_quiet_gpu_gives_no_caution() -> None:
    result = build_run(*[QUIET] * 9)
    assert list(check_gpus(result)) == []
    assert list(check_gpus(build_result())) == []


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0x04, "by its power limit in 20 % of 10 looks"),
        (0x20, "by its driver, since it was too hot in 20 % of 10 looks"),
        (0x40, "by its hardware, since it was too hot in 20 % of 10 looks"),
        (0x80, "by a power brake from outside, such as its power supply's in 20 % of 10 looks"),
        (0x08, "by its hardware (too hot, too much power drawn, or a brake from outside) in 20 % of 10 looks"),
    ],
)
def test_a_gpu_that_was_held_back_is_named_with_how_often(bits: int, words: str) -> None:
    states = [QUIET] * 8 + [changed(clock_reasons=bits | 0x01)] * 2
    (caution,) = check_gpus(build_run(*states))
    assert caution.startswith(f"the clock of GPU {GPU} was held back {words}: ")


def test_an_idle_gpu_and_one_whose_clock_was_set_are_not_held_back() -> None:
    assert list(check_gpus(build_run(*[changed(clock_reasons=0x01 | 0x02 | 0x10 | 0x100)] * 9))) == []


def test_once_in_a_hundred_looks_is_not_told() -> None:
    assert list(check_gpus(build_run(*[QUIET] * 99, changed(clock_reasons=0x04)))) == []


def test_a_power_limit_below_its_default_is_named_once() -> None:
    (caution,) = check_gpus(build_run(*[changed(power_limit_watts=400.0)] * 5))
    assert caution.startswith(f"the power limit of GPU {GPU} was 400 W, below its default of 700 W: ")
    assert "`nvidia-smi -pl 700`" in caution
    assert list(check_gpus(build_run(*[changed(power_limit_watts=750.0)] * 5))) == []


def test_another_process_on_the_gpu_is_named() -> None:
    (caution,) = check_gpus(build_run(QUIET, changed(num_other_processes=2), QUIET, QUIET))
    assert caution.startswith(f"another process computed on GPU {GPU}, or several, in 25 % of 4 looks: ")


@pytest.mark.parametrize(
    ("clocks", "degrees_a_look", "parts"),
    [
        ([1980] * 3 + [1900, 1850, 1800] + [1700] * 3, 0.0, ("fell by 14 %, from 1980 to 1700 MHz",)),
        # 3 %, which counts where the GPU became warmer.
        ([2000] * 3 + [1960] * 3 + [1940] * 3, 0.0, ()),
        (
            [2000] * 3 + [1960] * 3 + [1940] * 3,
            2.0,
            ("fell by 3.0 %, from 2000 to 1940 MHz", "while it became warmer, from 62 to 74 °C: "),
        ),
    ],
)
def test_a_clock_that_fell_is_named_with_how_far(
    clocks: list[int], degrees_a_look: float, parts: tuple[str, ...]
) -> None:
    states = [
        changed(clock_mhz=float(clock), temperature_celsius=60.0 + degrees_a_look * look)
        for look, clock in enumerate(clocks)
    ]
    found = list(check_gpus(build_run(*states)))
    assert len(found) == bool(parts)
    assert all(part in found[0] for part in parts)


def test_a_clock_that_rose_or_was_seen_too_seldom_is_none_that_fell() -> None:
    assert list(check_gpus(build_run(*(changed(clock_mhz=1000.0 + 100 * look) for look in range(9))))) == []
    assert list(check_gpus(build_run(changed(clock_mhz=1980.0), changed(clock_mhz=1000.0)))) == []


def test_new_errors_of_the_memory_are_named_and_old_ones_are_not() -> None:
    (caution,) = check_gpus(build_run(QUIET, changed(ecc_errors=9)))
    assert caution.startswith(f"the memory of GPU {GPU} had 2 errors (ECC), corrected or not, during the training: ")
    assert "nor are its results if one was not corrected" in caution


def test_a_gpu_that_fell_off_the_bus_is_named() -> None:
    (caution,) = check_gpus(build_run(QUIET, QUIET, None))
    assert caution == (f"GPU {GPU} did not answer any more before the training ended: it may have fallen off the bus.")
    assert list(check_gpus(build_run(QUIET, None, QUIET))) == []  # once


def test_what_a_gpu_does_not_say_is_no_caution() -> None:
    assert list(check_gpus(build_run(*[GpuState(temperature_celsius=60.0)] * 9))) == []


def test_these_are_cautions_against_the_speed_of_a_run_and_of_a_profile() -> None:
    result = build_run(*[changed(power_limit_watts=400.0)] * 5)
    assert any("below its default" in caution for caution in find_speed_cautions(result))
