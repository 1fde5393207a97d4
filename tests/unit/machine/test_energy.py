"""What can be read of energy and of GPUs: a driver of which all is known."""

from contextlib import closing
from typing import Any

import pynvml
import pytest

from fake_power import ANSWERS, Card, Clock, FakeNvml, install_nvml
from tfbench.machine.energy_counters import EnergyMeter, addresses_in_use, find_energy_sources
from tfbench.machine.energy_readings import EnergySources, GpuState
from tfbench.machine.facts import Gpu
from tfbench.machine.gpus import WatchedGpu
from tfbench.runs.speed_warnings import CLOCK_REASONS

FIRST = "0000:3b:00.0"
SECOND = "0000:86:00.0"


def meter_of(monkeypatch: pytest.MonkeyPatch, *cards: Card, **options: Any) -> EnergyMeter:
    """Builds a meter of some GPUs."""
    install_nvml(monkeypatch, FakeNvml(Clock(), *cards, **options))
    return EnergyMeter([card.address for card in cards])


@pytest.mark.parametrize(
    ("used", "visible", "found"),
    [
        (["gpu:1", "gpu:3"], [SECOND, FIRST], [SECOND, FIRST]),
        (["cpu:0", "cpu:1"], [], []),
        (["gpu:0"], [], [""]),
    ],
)
def test_gpus_in_use_are_found_by_their_addresses_whatever_is_visible(
    used: list[str], visible: list[str], found: list[str]
) -> None:
    assert addresses_in_use(used, visible) == found


def test_only_the_gpus_in_use_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    driver = install_nvml(
        monkeypatch, FakeNvml(clock, Card(FIRST), Card(SECOND, watts=10.0, counted_before=0.0))
    )
    with closing(EnergyMeter([SECOND])) as meter:
        before = meter.read("steady")
        clock.seconds += 60
        after = meter.read("end")
        assert driver.open == 1
    assert driver.open == 0
    assert after.joules.keys() == {SECOND}
    assert after.joules[SECOND] - before.joules[SECOND] == pytest.approx(600.0)
    (source,) = meter.sources.sources
    assert (source.part, source.resolution_seconds) == ("gpu", 0.1)


def test_all_that_the_driver_says_of_a_gpu_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(FIRST, reasons=0x24, pids=(1, 4242))
    meter = meter_of(monkeypatch, card)
    assert meter.look().gpus == {
        FIRST: GpuState(
            clock_mhz=1980.0, temperature_celsius=60.0, clock_reasons=0x24, num_other_processes=1
        )
    }
    assert meter.read("end").joules == {FIRST: pytest.approx(25_000.0)}


@pytest.mark.parametrize("name", ["Event", "Throttle"])
def test_why_a_clock_is_low_is_known_by_either_name(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacks = f"nvmlDeviceGetCurrentClocks{name}Reasons"
    state = meter_of(monkeypatch, Card(FIRST, reasons=2**63), lacks=(lacks,)).look()
    assert state.gpus[FIRST].clock_reasons == 2**63  # "unknown", to the driver


@pytest.mark.parametrize("how", ["rejected", "lacks"])
def test_what_a_gpu_or_the_bindings_do_not_support_is_not_known(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions = ("nvmlDeviceGetMigMode", "nvmlDeviceGetComputeRunningProcesses")
    rejected = functions if how == "rejected" else ()
    lacks = functions if how == "lacks" else ()
    state = meter_of(monkeypatch, Card(FIRST, rejected=rejected, reasons=0x8), lacks=lacks).look()
    assert state.gpus[FIRST].num_other_processes is None
    assert state.gpus[FIRST].clock_reasons == 0x8


def test_a_driver_that_is_older_than_the_bindings_does_not_say_what_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Uses the real bindings, on a driver that lacks one function.

    Newer bindings raise no `NVMLError` then. The driver answers 0 to all else.
    """

    def find(name: str) -> Any:
        if name.startswith("nvmlDeviceGetComputeRunningProcesses"):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return lambda *arguments: 0

    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer", find)
    state = WatchedGpu(FIRST).read_state()
    assert (state.clock_mhz, state.num_other_processes) == (0.0, None)


def test_the_stand_in_has_the_names_and_values_of_the_real_bindings() -> None:
    functions = [name for name in dir(FakeNvml) if name.startswith("nvml")]
    assert [name for name in (*functions, *ANSWERS) if not hasattr(pynvml, name)] == []
    constants = [name for name in dir(FakeNvml) if name.startswith("NVML_")]
    assert [getattr(FakeNvml, name) for name in constants] == [
        getattr(pynvml, name) for name in constants
    ]
    reasons = (
        "HwSlowdown",
        "SwThermalSlowdown",
        "HwThermalSlowdown",
        "HwPowerBrakeSlowdown",
        "SwPowerCap",
    )
    assert list(CLOCK_REASONS) == [
        getattr(pynvml, f"nvmlClocksEventReason{name}") for name in reasons
    ]


def test_a_gpu_that_falls_off_the_bus_is_missing_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = Card(FIRST)
    kept = Card(SECOND)
    meter = meter_of(monkeypatch, lost, kept)
    assert meter.look().gpus.keys() == {FIRST, SECOND}
    lost.is_lost = True
    assert meter.look().gpus.keys() == meter.read("end").joules.keys() == {SECOND}


@pytest.mark.parametrize(
    ("address", "card", "problem"),
    [
        (FIRST, Card(SECOND), f"GPU {FIRST}: the driver does not know it: Not Found"),
        ("", Card(SECOND), "GPUs: the driver does not tell which of the machine's GPUs are in use"),
        (
            FIRST,
            Card(FIRST, is_divided=True),
            f"GPU {FIRST}: it is divided (MIG), and its counter is of all parts",
        ),
        (
            FIRST,
            Card(FIRST, rejected=("nvmlDeviceGetTotalEnergyConsumption",)),
            f"GPU {FIRST}: the driver does not count its energy (Not Supported)",
        ),
    ],
)
def test_a_gpu_whose_energy_is_not_counted_is_told(
    address: str, card: Card, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = install_nvml(monkeypatch, FakeNvml(Clock(), card))
    with closing(EnergyMeter([address])) as meter:
        assert meter.sources.problems[0].startswith(problem)
        assert (meter.sources.sources, meter.read("steady").joules) == ((), {})
        assert meter.watches == (card.address == address)  # what it does is seen all the same
    assert driver.open == 0


def test_without_a_driver_a_run_on_a_cpu_asks_for_none_and_one_on_a_gpu_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install_nvml(monkeypatch, FakeNvml(Clock(), is_there=False))
    assert find_energy_sources([]) == EnergySources()
    problems = find_energy_sources([Gpu(name="H100", bus_id=FIRST)]).problems
    assert problems == ("GPUs: NVIDIA's driver cannot be asked: Driver Not Loaded",)
