"""What a run took of energy, against figures worked out by hand.

A GPU of 200 W, a processor of 10 W, memory of 2 W.
"""

import dataclasses

import pytest

from builders import build_placement, build_result
from powered import CARD, DRAM, GPU, ON_GPU, PACKAGE, STEPS, WATTS, build_powered_run
from tfbench.machine.energy_readings import EnergyReading, EnergySource, EnergySources, MachineState
from tfbench.runs.energy import find_energy
from tfbench.runs.summary import summarize_run
from tfbench.store.brief import make_brief

SECONDS = 77.0  # from the beginning of the steady part to the end of the training


def test_ten_watts_are_ten_joules_a_second_from_the_steady_part_to_the_end_of_the_training() -> (
    None
):
    # The counter of 8,000 J begins anew a second after the steady part has begun.
    energy = find_energy(build_powered_run(PACKAGE))
    # Three epochs of 20 s and 5 s of validation, and two pauses of a second; the warm-up is not in
    # it.
    assert energy.seconds == pytest.approx(SECONDS)
    assert energy.joules == pytest.approx(770.0)
    assert energy.samples == 3 * STEPS * 32
    assert energy.parts == ("package",)
    assert energy.problems == ()


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


def test_parts_add_up_and_figures_have_their_names() -> None:
    result = build_powered_run(CARD, PACKAGE, DRAM, placement=ON_GPU)
    metrics = summarize_run(result).metrics
    assert metrics["energy_joules"] == pytest.approx(16_324.0)  # 15,400 J, 770 J and 154 J
    assert metrics["mean_watts"] == pytest.approx(212.0)
    assert metrics["samples_per_joule"] == pytest.approx(3 * STEPS * 32 / 16_324)
    brief = make_brief(result, summarize_run(result), journal_bytes=0)
    assert brief.energy_parts == ["gpu", "package", "dram"]


def test_a_counter_that_stands_still_counts_nothing_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(WATTS, DRAM.name, 0.0)  # as of a desktop processor, or in a virtual machine
    result = build_powered_run(PACKAGE, DRAM)
    energy = find_energy(result)
    assert (energy.parts, energy.joules) == (("package",), pytest.approx(770.0))
    assert energy.problems == (
        "package-0 dram: its counter stood still, so that it counts nothing",
    )
    alone = build_powered_run(DRAM)
    assert not [
        name for name in summarize_run(alone).metrics if "energy" in name or "joule" in name
    ]
    monkeypatch.setitem(WATTS, GPU, 0.0)
    divided = find_energy(build_powered_run(CARD, PACKAGE, placement=ON_GPU))
    assert divided.metrics() == {}
    assert (
        divided.problems[-1]
        == "not all GPUs in use can be read, and the rest alone would say little"
    )


@pytest.mark.parametrize(
    ("points", "range_joules", "counted"),
    [
        ([(0.0, 5.0), (1.0, 15.0), (2.0, 30.0)], None, 25.0),
        ([(0.0, 990.0), (0.5, 10.0), (0.9, 30.0)], 1000.0, 40.0),
        # Two processes that write in the other order than they read.
        ([(0.0, 990.0), (0.5, 989.0), (0.9, 995.0)], 1000.0, 5.0),
        ([(0.0, 5000.0), (1.0, 5010.0), (9.0, 3.0), (10.0, 13.0)], None, None),
        ([(0.0, 0.0), (300.0, 10.0)], 262_143.0, None),
    ],
    ids=["grows", "begins anew", "out of order", "was reset", "not read for too long"],
)
def test_a_counter_is_unwrapped(
    points: list[tuple[float, float]], range_joules: float | None, counted: float | None
) -> None:
    source = EnergySource(
        name="s", part="package", resolution_seconds=0.001, range_joules=range_joules
    )
    (begin, first), *looks, (end, last) = points
    result = build_result(
        energy=EnergySources(sources=(source,)),
        energy_readings=(
            EnergyReading(moment="steady", seconds=begin, joules={"s": first}),
            EnergyReading(moment="end", seconds=end, joules={"s": last}),
        ),
        machine_states=tuple(
            MachineState(seconds=at, gpus={}, joules={"s": joules}) for at, joules in looks
        ),
    )
    assert find_energy(result).joules == counted


def test_a_stretch_too_short_for_a_counter_s_resolution_has_no_figure_and_says_why() -> None:
    # A counter that is renewed every 4 s is off by a twentieth over 80 s.
    coarse = dataclasses.replace(CARD, resolution_seconds=4.0)
    energy = find_energy(build_powered_run(coarse, placement=ON_GPU))
    assert energy.joules is None
    assert energy.problems == ("77 s is too short for the counters: 80 s are needed",)
    assert "samples_per_joule" not in energy.metrics()


def test_gpus_that_cannot_be_read_and_several_workers_leave_no_figure() -> None:
    problem = f"GPU {GPU}: the driver does not count its energy (Not Supported)"
    energy = find_energy(build_powered_run(PACKAGE, problems=(problem,), placement=ON_GPU))
    assert energy.metrics() == {}
    assert energy.problems == (
        problem,
        "not all GPUs in use can be read, and the rest alone would say little",
    )
    energy = find_energy(build_powered_run(PACKAGE, placement=build_placement(num_workers=2)))
    assert energy.metrics() == {}
    assert energy.problems[-1].startswith(
        "several workers: each one's journal has the readings of its own machine"
    )
    alone = build_powered_run(PACKAGE)
    stopped = find_energy(dataclasses.replace(alone, energy_readings=alone.energy_readings[:1]))
    assert (stopped.parts, stopped.metrics()) == ((), {})
