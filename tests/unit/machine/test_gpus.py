"""What the driver says of each GPU, and which is which: a driver and a CUDA that count in different orders."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tfbench.machine import gpus
from tfbench.machine.energy import addresses_in_use
from tfbench.records.machine import Gpu


class NvmlError(Exception):
    """The driver has no answer."""


class Driver:
    """NVIDIA's driver, as `pynvml` asks it: cards in the order of their bus, some without answers.

    A card is a name, an address, and the highest clock.
    """

    NVMLError = NvmlError
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    def __init__(self, *cards: tuple[str, str, int], is_there: bool = True, in_bytes: bool = False) -> None:
        self._cards, self._is_there, self._in_bytes = cards, is_there, in_bytes
        self.open = 0

    def nvmlInit(self) -> None:
        if not self._is_there:
            raise NvmlError
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> str | bytes:
        return self._say("550.54.15")

    def nvmlDeviceGetCount(self) -> int:
        return len(self._cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> tuple[str, str, int]:
        if self._cards[index][0] == "lost":
            raise NvmlError
        return self._cards[index]

    def nvmlDeviceGetName(self, card: tuple[str, str, int]) -> str | bytes:
        return self._say(card[0])

    def nvmlDeviceGetPciInfo(self, card: tuple[str, str, int]) -> Any:
        return SimpleNamespace(busId=self._say(card[1]))

    def nvmlDeviceGetUUID(self, card: tuple[str, str, int]) -> str | bytes:
        return self._say(f"GPU-{card[1][-7:-5]}")

    def nvmlDeviceGetMemoryInfo(self, card: tuple[str, str, int]) -> Any:
        return SimpleNamespace(total=card[2] * 2**20)

    def nvmlDeviceGetMaxClockInfo(self, card: tuple[str, str, int], kind: int) -> int:
        if card[0].startswith("GRID"):
            raise NvmlError
        return card[2] if kind == self.NVML_CLOCK_SM else 2 * card[2]

    def nvmlDeviceGetEnforcedPowerLimit(self, card: tuple[str, str, int]) -> int:
        if card[0].startswith("GRID"):
            raise NvmlError
        return 250_500

    def _say(self, text: str) -> str | bytes:
        return text.encode() if self._in_bytes else text


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


SLOW = ("Quadro P400", "00000000:3B:00.0", 1252)
FAST = ("H100", "00000000:5E:00.0", 1980)
OTHER = ("H100", "00000001:86:00.0", 1755)  # of the same make, with a lower clock


def install(monkeypatch: pytest.MonkeyPatch, driver: Driver, cuda: Cuda | None) -> Driver:
    def load() -> Cuda:
        if cuda is None:
            raise OSError("libcuda.so.1: cannot open shared object file")
        return cuda

    monkeypatch.setitem(sys.modules, "pynvml", driver)
    monkeypatch.setattr(gpus, "_load_cuda", load)
    return driver


def test_each_gpu_is_the_one_with_its_address_whatever_the_order_that_cuda_counts_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = install(monkeypatch, Driver(SLOW, FAST, OTHER), Cuda("0001:86:00.0", "0000:5E:00.0", "0000:3B:00.0"))
    assert [(gpu.bus_id, gpu.clock_mhz) for gpu in gpus.read_gpus()] == [
        ("0000:3b:00.0", 1252),
        ("0000:5e:00.0", 1980),
        ("0001:86:00.0", 1755),
    ]
    assert driver.open == 0
    # Of a run on gpu:0 and gpu:2.
    assert gpus.find_addresses(["/physical_device:GPU:0", "/physical_device:GPU:2"]) == ("0001:86:00.0", "0000:3b:00.0")
    # Of a run on gpu:1, from which TensorFlow hides the others: CUDA, and so the number, does not know.
    (address,) = gpus.find_addresses(["/physical_device:GPU:1"])
    assert addresses_in_use(["gpu:1"], [address]) == {"gpu:1": "0000:5e:00.0"}
    matched = gpus.match_gpus(["H100", "H100", "Quadro P400"])
    assert [gpu.clock_mhz for gpu in matched] == [1755, 1980, 1252]


def test_gpus_that_cuda_does_not_show_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    # As with CUDA_VISIBLE_DEVICES=2,1, which CUDA itself reads.
    install(monkeypatch, Driver(SLOW, FAST, OTHER), Cuda("0001:86:00.0", "0000:5E:00.0"))
    assert len(gpus.read_gpus()) == 3
    assert gpus.find_addresses(["/physical_device:GPU:1"]) == ("0000:5e:00.0",)
    assert [gpu.clock_mhz for gpu in gpus.match_gpus(["H100", "H100"])] == [1755, 1980]


def test_all_that_the_driver_says_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Driver(FAST), Cuda("0000:5E:00.0"))
    assert gpus.read_gpus() == (
        Gpu(
            name="H100",
            memory_bytes=1980 * 2**20,
            driver="550.54.15",
            clock_mhz=1980,
            memory_clock_mhz=3960,
            power_limit_watts=250.5,
            bus_id="0000:5e:00.0",
            uuid="GPU-5E",
        ),
    )
    install(monkeypatch, Driver(FAST, in_bytes=True), Cuda("0000:5E:00.0"))
    assert (gpus.read_gpus()[0].name, gpus.read_gpus()[0].driver) == ("H100", "550.54.15")


def test_what_the_driver_does_not_say_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Driver(("GRID T4-8Q", "00000000:02:00.0", 8192), ("lost", "", 0)), None)
    (gpu,) = gpus.read_gpus()
    assert (gpu.name, gpu.memory_bytes, gpu.driver) == ("GRID T4-8Q", 2**33, "550.54.15")
    assert gpu.clock_mhz is gpu.memory_clock_mhz is gpu.power_limit_watts is None


def test_a_machine_without_a_driver_has_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Driver(FAST, is_there=False), None)
    assert gpus.read_gpus() == ()
    assert gpus.match_gpus([]) == gpus.find_addresses([]) == ()
    assert gpus.match_gpus(["Titan V"], "550.54.15") == (Gpu(name="Titan V", driver="550.54.15"),)


def test_this_machine_is_asked_without_an_error() -> None:
    assert all(gpu.bus_id for gpu in gpus.read_gpus())


@pytest.mark.parametrize("cuda", [None, Cuda(fails_in="cuInit"), Cuda("0000:5E:00.0", fails_in="cuDeviceGetPCIBusId")])
def test_without_cuda_s_word_only_a_make_that_there_is_one_of_is_matched(
    monkeypatch: pytest.MonkeyPatch, cuda: Cuda | None
) -> None:
    install(monkeypatch, Driver(SLOW, FAST, OTHER), cuda)
    assert gpus.find_addresses(["/physical_device:GPU:0"]) == ()
    assert gpus.match_gpus(["H100", "H100", "Quadro P400"], "550.54.15") == (
        Gpu(name="H100", driver="550.54.15"),
        Gpu(name="H100", driver="550.54.15"),
        gpus.read_gpus()[0],
    )


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
    install(monkeypatch, Driver(SLOW, FAST, OTHER), None)
    assert [gpu.name for gpu in gpus.choose_visible(gpus.read_gpus(), text)] == names
    assert gpus.choose_visible((), "0") == ()
