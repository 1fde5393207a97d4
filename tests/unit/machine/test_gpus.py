"""What the driver says of each GPU, and which is which: a driver and a CUDA that count in different orders."""

from typing import Any

import pytest

from fake_power import Card, Clock, FakeNvml, install_nvml
from tfbench.machine import gpus
from tfbench.machine.energy import addresses_in_use
from tfbench.records.machine import Gpu


class Cuda:
    """The functions of CUDA's driver that tell the addresses of the cards, in its own order."""

    def __init__(self, *addresses: str, fails_in: str = "") -> None:
        self._addresses, self._fails_in = addresses, fails_in

    def cuInit(self, flags: int) -> int:
        return 100 if self._fails_in == "cuInit" else 0  # no device

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = len(self._addresses)
        return 0

    def cuDeviceGet(self, device: Any, number: int) -> int:
        device._obj.value = number
        return 0

    def cuDeviceGetPCIBusId(self, text: Any, size: int, device: Any) -> int:
        assert size >= len(self._addresses[device.value]) + 1
        text.value = self._addresses[device.value].encode()
        return 101 if self._fails_in == "cuDeviceGetPCIBusId" else 0


SLOW = Card("0000:3b:00.0", "Quadro P400", clock_mhz=1252)
FAST = Card("0000:5e:00.0", "H100", limit_watts=250.5)
OTHER = Card("0001:86:00.0", "H100", clock_mhz=1755)  # of the same make, with a lower clock


def install(monkeypatch: pytest.MonkeyPatch, *cards: Card, cuda: Cuda | None = None, **options: Any) -> FakeNvml:
    def load() -> Cuda:
        if cuda is None:
            raise OSError("libcuda.so.1: cannot open shared object file")
        return cuda

    monkeypatch.setattr(gpus, "_load_cuda", load)
    return install_nvml(monkeypatch, FakeNvml(Clock(), *cards, **options))


def test_gpus_are_in_the_order_of_their_bus_and_addresses_in_that_of_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda("0001:86:00.0", "0000:5E:00.0", "0000:3B:00.0")
    driver = install(monkeypatch, OTHER, SLOW, FAST, cuda=cuda)
    assert [gpu.bus_id for gpu in gpus.read_gpus()] == ["0000:3b:00.0", "0000:5e:00.0", "0001:86:00.0"]
    assert driver.open == 0
    # Of a run on gpu:0 and gpu:2.
    assert gpus.find_addresses(["/physical_device:GPU:0", "/physical_device:GPU:2"]) == ("0001:86:00.0", "0000:3b:00.0")
    # Of a run on gpu:1, from which TensorFlow hides the others: CUDA, and so the number, does not know.
    (address,) = gpus.find_addresses(["/physical_device:GPU:1"])
    assert addresses_in_use(["gpu:1"], [address]) == {"gpu:1": "0000:5e:00.0"}


@pytest.mark.parametrize("in_bytes", [False, True])
def test_all_that_the_driver_says_is_read(monkeypatch: pytest.MonkeyPatch, in_bytes: bool) -> None:
    install(monkeypatch, FAST, in_bytes=in_bytes)
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


def test_what_the_driver_does_not_say_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    rejected = ("nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetEnforcedPowerLimit")
    install(monkeypatch, Card("0000:02:00.0", "GRID T4-8Q", rejected=rejected), Card("0000:03:00.0", is_lost=True))
    (gpu,) = gpus.read_gpus()
    assert (gpu.name, gpu.memory_bytes, gpu.driver) == ("GRID T4-8Q", 80 * 2**30, "550.54.15")
    assert gpu.clock_mhz is gpu.memory_clock_mhz is gpu.power_limit_watts is None


def test_a_machine_without_a_driver_has_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FAST, is_there=False)
    assert gpus.read_gpus() == gpus.find_addresses([]) == ()


@pytest.mark.parametrize("cuda", [None, Cuda(fails_in="cuInit"), Cuda("0000:5E:00.0", fails_in="cuDeviceGetPCIBusId")])
def test_without_cuda_s_word_no_address_is_known(monkeypatch: pytest.MonkeyPatch, cuda: Cuda | None) -> None:
    install(monkeypatch, SLOW, cuda=cuda)
    assert gpus.find_addresses(["/physical_device:GPU:0"]) == ()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        (b"0000:3b:00.0", "0000:3b:00.0"),
        ("00010000:03:1F.7", "10000:03:1f.7"),
        ("nonsense", "nonsense"),
    ],
)
def test_an_address_is_written_as_linux_does(text: str | bytes, address: str) -> None:
    assert gpus.read_address(text) == address


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
