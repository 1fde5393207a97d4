"""What a run took of energy, against figures worked out by hand: GPUs of 200 W and of 50 W."""

import dataclasses
from typing import Any

import pytest

from builders import build_placement
from powered import CARD, GPU, ON_GPU, PACKAGE, SECOND_CARD, STEPS, WATTS, build_powered_run
from tfbench.machine.energy_readings import EnergyReading
from tfbench.runs.energy import find_energy
from tfbench.runs.summary import summarize_run

SECONDS = 77.0  # from the beginning of the steady part to the end of the training
SAMPLES = 3 * STEPS * 32
NOT_ALL = "not all GPUs in use can be read, and the rest alone would say little"


def test_watts_are_joules_a_second_from_the_steady_part_to_the_end_of_the_training() -> None:
    energy = find_energy(build_powered_run(CARD, placement=ON_GPU))
    # Three epochs of 20 s and 5 s of validation, and two pauses of a second; the warm-up is not in
    # it.
    assert energy.seconds == pytest.approx(SECONDS)
    assert energy.joules == pytest.approx(200.0 * SECONDS)
    assert (energy.samples, energy.problems) == (SAMPLES, ())


def test_short_epochs_are_counted_as_long_ones_are() -> None:
    # A counter that is renewed every 0.1 s needs 2 s, and no epoch of 26 ms has them.
    result = build_powered_run(CARD, num_epochs=1, placement=ON_GPU)
    spans = tuple(
        dataclasses.replace(
            result.spans[1], epoch=number, first_step=2 + number, last_step=2 + number, seconds=0.02
        )
        for number in range(1, 1001)
    )
    energy = find_energy(
        dataclasses.replace(result, spans=(*result.spans[:1], *spans), steps_per_epoch=1)
    )
    assert energy.joules == pytest.approx(200.0 * 25.0)
    assert energy.samples == 1000 * 32


@pytest.mark.parametrize("older", [(), (PACKAGE,)], ids=["", "with a processor"])
def test_gpus_add_up_and_figures_have_their_names(older: tuple[Any, ...]) -> None:
    result = build_powered_run(
        CARD, SECOND_CARD, *older, placement=build_placement(devices=("gpu:0", "gpu:1"))
    )
    metrics = summarize_run(result).metrics
    assert metrics["energy_joules"] == pytest.approx(250.0 * SECONDS)
    assert metrics["mean_watts"] == pytest.approx(250.0)
    assert metrics["samples_per_joule"] == pytest.approx(SAMPLES / (250.0 * SECONDS))


def test_a_counter_that_stands_still_counts_nothing_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(WATTS, GPU, 0.0)  # as in a virtual machine
    energy = find_energy(build_powered_run(CARD, placement=ON_GPU))
    stands_still = f"{GPU}: its counter stood still, so that it counts nothing"
    assert (energy.metrics(), energy.problems) == ({}, (stands_still, NOT_ALL))


@pytest.mark.parametrize("joules", [{GPU: 3.0}, {}], ids=["began anew", "was not read"])
def test_a_counter_that_is_not_known_to_have_grown_leaves_no_figure(
    joules: dict[str, float],
) -> None:
    result = build_powered_run(CARD, placement=ON_GPU)
    begin, end = result.energy_readings
    end = EnergyReading(moment="end", seconds=end.seconds, joules=joules)
    energy = find_energy(dataclasses.replace(result, energy_readings=(begin, end)))
    assert energy.joules is None
    assert energy.problems == (f"{GPU}: the counter could not be read throughout, or began anew",)


def test_a_stretch_too_short_for_a_counter_s_resolution_has_no_figure_and_says_why() -> None:
    # A counter that is renewed every 4 s is off by a twentieth over 80 s.
    coarse = dataclasses.replace(CARD, resolution_seconds=4.0)
    energy = find_energy(build_powered_run(coarse, placement=ON_GPU))
    assert energy.metrics() == {}
    assert energy.problems == ("77 s is too short for the counters: 80 s are needed",)


def test_gpus_that_cannot_be_read_and_several_workers_leave_no_figure() -> None:
    problem = f"GPU {GPU}: the driver does not count its energy (Not Supported)"
    energy = find_energy(build_powered_run(PACKAGE, problems=(problem,), placement=ON_GPU))
    assert (energy.metrics(), energy.problems) == ({}, (problem, NOT_ALL))
    workers = build_placement(devices=("gpu:0",), num_workers=2)
    energy = find_energy(build_powered_run(CARD, placement=workers))
    assert energy.metrics() == {}
    assert energy.problems[-1].startswith(
        "several workers: each one's journal has the readings of its own machine"
    )
    alone = build_powered_run(CARD, placement=ON_GPU)
    stopped = find_energy(dataclasses.replace(alone, energy_readings=alone.energy_readings[:1]))
    assert stopped.metrics() == {}
