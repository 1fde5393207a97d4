"""What the driver says of each GPU, and which is which."""

from typing import Any

import pytest

from fake_power import Card, Clock, FakeNvml, install_nvml
from tfbench.machine import gpus
from tfbench.machine.facts import Gpu

SLOW = Card("0000:3b:00.0", "Quadro P400", clock_mhz=1252)
FAST = Card("0000:5e:00.0", "H100", limit_watts=250.5)
OTHER = Card("0001:86:00.0", "H100", clock_mhz=1755)  # of the same make, with a lower clock


def install(monkeypatch: pytest.MonkeyPatch, *cards: Card, **options: Any) -> FakeNvml:
    return install_nvml(monkeypatch, FakeNvml(Clock(), *cards, **options))


@pytest.mark.parametrize(
    ("shown", "names", "addresses"),
    [
        (None, ["GPU:0", "GPU:2"], ("0000:3b:00.0", "0001:86:00.0")),
        (
            "2,0",
            ["/physical_device:GPU:0", "/physical_device:GPU:1"],
            ("0001:86:00.0", "0000:3b:00.0"),
        ),
        ("1", ["GPU:0"], ("0000:5e:00.0",)),  # the others are hidden from the process
        ("1", ["GPU:1"], ()),
        ("MIG-5f", ["GPU:0"], ()),
        (None, [], ()),
    ],
)
def test_a_gpu_s_address_follows_from_its_number_among_those_that_cuda_shows(
    monkeypatch: pytest.MonkeyPatch, shown: str | None, names: list[str], addresses: tuple[str, ...]
) -> None:
    driver = install(monkeypatch, OTHER, SLOW, FAST)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if shown is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    assert gpus.find_addresses(names) == addresses
    assert driver.open == 0


def test_all_that_the_driver_says_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FAST)
    assert gpus.read_gpus() == (
        Gpu(
            name="H100",
            memory_bytes=80 * 2**30,
            driver="550.54.15",
            clock_mhz=1980,
            memory_clock_mhz=3960,
            power_limit_watts=250.5,
            bus_id="0000:5e:00.0",
            uuid="GPU-5E",
        ),
    )


def test_a_machine_without_a_driver_has_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FAST, is_there=False)
    assert gpus.read_gpus() == gpus.find_addresses(["GPU:0"]) == ()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (None, ["Quadro P400", "H100", "H100"]),
        ("2,1", ["H100", "H100"]),
        (" 0 ", ["Quadro P400"]),
        ("0,7,1", ["Quadro P400"]),  # CUDA reads up to the first that is none
        ("0,-1,1", ["Quadro P400"]),
        ("", []),
        ("-1", []),
        ("GPU-3B", ["Quadro P400"]),
        ("GPU-", []),  # of which of them, it does not say
        ("GPU-99,0", []),
        ("MIG-5f", ["MIG-5f"]),
    ],
)
def test_what_cuda_shows_is_told_without_cuda(
    monkeypatch: pytest.MonkeyPatch, text: str | None, names: list[str]
) -> None:
    install(monkeypatch, SLOW, FAST, OTHER)
    assert [gpu.name for gpu in gpus.choose_visible(gpus.read_gpus(), text)] == names
    assert gpus.choose_visible((), "0") == ()
