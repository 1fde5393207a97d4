"""Why a GPU that is in the machine is not seen."""

import json
from pathlib import Path
from typing import Any

import pytest

from builders import build_environment, build_placement, build_recipe
from tfbench.errors import DeviceError, Notice
from tfbench.machine import devices, frameworks
from tfbench.machine.devices import (
    DeviceFacts,
    GpuFacts,
    explain_missing_gpu,
    parse_report,
    read_system,
    with_unused_gpu,
)
from tfbench.machine.frameworks import Framework
from tfbench.records.machine import Gpu
from tfbench.schema import to_plain

VERSION_LINE = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version: 12.3.0\n"
)


def build_facts(**fields: Any) -> DeviceFacts:
    """Builds the facts of a machine whose GPU should be seen, and is not."""
    return DeviceFacts(
        **{
            "tensorflow": "2.21.0",
            "logical_cores": 8,
            "pci_gpus": ("0000:01:00.0",),
            "driver": "550.54.15",
            "device_nodes": ("/dev/nvidia0",),
            "built_with_cuda": True,
            "cuda": "12.5.1",
        }
        | fields
    )


def explain(**fields: Any) -> str | None:
    facts = build_facts(**fields)
    return explain_missing_gpu(facts, facts.framework, ())


@pytest.mark.parametrize(
    ("fields", "reason", "remedy"),
    [
        ({"driver": None, "device_nodes": ()}, "NVIDIA's driver is not loaded", "Install the driver"),
        ({"device_nodes": ()}, "/dev/nvidia0 does not exist", "--gpus all"),
        ({"cuda_visible_devices": "-1"}, "CUDA_VISIBLE_DEVICES='-1' hides it", "Unset it"),
        ({"cuda_visible_devices": ""}, "CUDA_VISIBLE_DEVICES='' hides it", "Unset it"),
        ({"cuda_visible_devices": "1"}, "CUDA_VISIBLE_DEVICES='1' hides it", "Unset it"),
        ({"built_with_cuda": False}, "TensorFlow 2.21.0 is a build without CUDA", "pip uninstall tensorflow-cpu; pip "),
        ({}, "cannot start CUDA 12.5.1 with driver 550.54.15", ': pip install "tensorflow[and-cuda]"'),
        ({"cuda_visible_devices": "0"}, "cannot start CUDA 12.5.1", 'pip install "tensorflow[and-cuda]"'),
        (
            {"log": ("Cannot dlopen some GPU libraries.",)},
            "too new for the driver (Cannot dlopen some GPU",
            "[and-cuda]",
        ),
    ],
)
def test_names_the_reason_and_the_remedy(fields: dict[str, Any], reason: str, remedy: str) -> None:
    explanation = explain(**fields)
    assert explanation is not None
    assert "0000:01:00.0" in explanation
    assert reason in explanation
    assert remedy in explanation


@pytest.mark.parametrize(
    ("name", "cuda", "driver", "remedy"),
    [
        ("jax", None, "580.65", 'pip install "jax[cuda13]"'),
        ("jax", "13", "550.54", 'pip install "jax[cuda12]"'),
        ("torch", None, "580.65", "torch --index-url https://download.pytorch.org/whl/cu130"),
        ("torch", "13.0", "550.54", "torch --index-url https://download.pytorch.org/whl/cu126"),
    ],
)
def test_each_back_end_is_installed_for_a_cuda_that_the_driver_can_start(
    name: str, cuda: str | None, driver: str, remedy: str
) -> None:
    explanation = explain_missing_gpu(build_facts(driver=driver), Framework(name=name, version="1.0", cuda=cuda), ())
    assert explanation is not None and explanation.endswith(remedy)


def test_a_gpu_that_the_driver_alone_names_is_in_the_machine() -> None:
    known = (Gpu(name="H100", driver="580.65", uuid="GPU-5f"),)
    bare = {"pci_gpus": (), "device_nodes": (), "driver": None}
    facts = build_facts(**bare, cuda_visible_devices="GPU-99")
    explanation = explain_missing_gpu(facts, facts.framework, known)
    assert explanation is not None and "H100" in explanation and "CUDA_VISIBLE_DEVICES='GPU-99' hides it" in explanation
    explanation = explain_missing_gpu(build_facts(**bare, cuda_visible_devices="GPU-5"), facts.framework, known)
    assert explanation is not None and "with driver 580.65" in explanation


def test_says_nothing_of_a_gpu_that_is_seen_or_not_there_and_knows_one_in_a_container() -> None:
    assert explain(gpus=(Gpu(name="Titan X"),)) is None
    assert explain(pci_gpus=(), device_nodes=(), driver=None) is None
    assert "/dev/nvidia0" in str(explain(pci_gpus=()))


def write_pci_device(root: Path, address: str, vendor: str, device_class: str) -> None:
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n", encoding="ascii")
    (folder / "class").write_text(f"{device_class}\n", encoding="ascii")


def test_reads_the_system(tmp_path: Path) -> None:
    write_pci_device(tmp_path, "0000:02:00.0", "0x10de", "0x030200")
    write_pci_device(tmp_path, "0000:01:00.0", "0x10de", "0x030000")
    write_pci_device(tmp_path, "0000:01:00.1", "0x10de", "0x040300")  # the sound of a graphics card
    write_pci_device(tmp_path, "0000:00:02.0", "0x8086", "0x030000")
    (tmp_path / "sys/bus/pci/devices/0000:03:00.0").mkdir()
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text(VERSION_LINE, encoding="ascii")
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev" / name).touch()
    assert read_system(tmp_path, {"CUDA_VISIBLE_DEVICES": "0"}) == {
        "pci_gpus": ("0000:01:00.0", "0000:02:00.0"),
        "driver": "550.54.15",
        "device_nodes": ("/dev/nvidia0",),
        "cuda_visible_devices": "0",
    }


def test_parses_a_report_and_keeps_what_the_log_says_of_gpus() -> None:
    stderr = (
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
        "W0000 00:00:1.5  7 gpu_device.cc:2342] Cannot dlopen some GPU libraries.\n"
        "W0000 00:00:1.6  7 gpu_device.cc:2342] Cannot dlopen some GPU libraries.\n"
    )
    facts = parse_report("noise\n" + json.dumps(to_plain(build_facts())) + "\n", stderr)
    assert facts == build_facts(log=("Cannot dlopen some GPU libraries.",))


@pytest.mark.parametrize("node", ["nvidia0", "dxg", "kfd"])
def test_tensorflow_is_asked_for_gpus_only_where_there_may_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: str
) -> None:
    asked: list[None] = []

    def ask() -> DeviceFacts:
        asked.append(None)
        return build_facts(gpus=(Gpu(name="A GPU"),) * 3)

    monkeypatch.setattr(devices, "ask_devices", ask)
    (tmp_path / "dev").mkdir()
    assert (devices.count_gpus(root=tmp_path), asked) == (0, [])
    (tmp_path / "dev" / node).touch()
    assert (devices.count_gpus(root=tmp_path), asked) == (3, [None])
    if node == "nvidia0":
        monkeypatch.setattr(devices, "ask_devices", lambda: build_facts(gpus=()))
        with pytest.warns(Notice, match=r"an NVIDIA GPU is in this machine \(/dev/nvidia0\) and is not used"):
            assert devices.count_gpus(root=tmp_path) == 0


def test_a_child_that_crashed_is_an_error_with_its_last_words() -> None:
    with pytest.raises(DeviceError, match="could not be asked for its devices: ImportError: libfoo"):
        parse_report("", "Traceback\nImportError: libfoo\n")


def test_without_tensorflow_the_gpus_are_those_of_the_driver_that_cuda_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frameworks, "is_installed", lambda backend: False)
    monkeypatch.setattr(devices, "read_gpus", lambda: (Gpu(name="First"), Gpu(name="Second")))
    for text, names in ((None, ["First", "Second"]), ("1", ["Second"]), ("-1", [])):
        if text is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", text)
        assert [gpu.name for gpu in devices.ask_devices().gpus] == names


def test_another_back_end_is_asked_for_the_gpus_that_it_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    monkeypatch.setattr(devices, "ask_devices", pytest.fail)
    monkeypatch.setattr(frameworks, "is_installed", lambda backend: True)
    monkeypatch.setattr(frameworks, "ask", lambda backend: Framework(name=backend, gpus=("H100",)))
    assert devices.count_gpus("jax", tmp_path) == 1
    monkeypatch.setattr(frameworks, "ask", lambda backend: Framework(name=backend, problem="no driver"))
    with pytest.raises(DeviceError, match=r"^PyTorch could not be asked for its devices: no driver$"):
        devices.count_gpus("torch", tmp_path)
    monkeypatch.setattr(frameworks, "is_installed", lambda backend: False)
    with pytest.raises(DeviceError, match=r"JAX is not installed\. pip install jax\.$"):
        devices.count_gpus("jax", tmp_path)


@pytest.mark.parametrize(
    ("named", "used", "is_told"), [((), "cpu:0", True), (("cpu:0",), "cpu:0", False), ((), "gpu:0", False)]
)
def test_a_run_on_the_processor_that_was_not_asked_for_says_why(
    named: tuple[str, ...], used: str, is_told: bool
) -> None:
    recipe = build_recipe(distribution={"devices": named}, training={"backend": "jax"})
    placement = build_placement(devices=(used,))
    found = with_unused_gpu(
        placement, recipe, GpuFacts(device_nodes=("/dev/nvidia0",)), build_environment(jax="1.0", gpus=())
    )
    assert ("NVIDIA's driver is not loaded" in found.unused_gpu) == is_told
