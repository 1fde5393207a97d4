"""Why a GPU that is in the machine is not seen."""

import dataclasses
import json
import os
import shlex
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest

from builders import build_environment, build_placement, build_recipe
from kinds import Fields
from tfbench.errors import DeviceError, Notice
from tfbench.machine import frameworks
from tfbench.machine.facts import Gpu
from tfbench.machine.frameworks import (
    Framework,
    GpuFacts,
    explain_missing_gpu,
    find_unused_gpu,
    list_gpus,
    read_system,
)
from tfbench.schema import to_plain

VERSION_LINE = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC"
    " version: 12.3.0\n"
)
# Of a machine and a framework that should see its GPU, and does not.
FACTS = GpuFacts(pci_gpus=("0000:01:00.0",), driver="550.54.15", device_nodes=("/dev/nvidia0",))
TENSORFLOW = Framework(name="tensorflow", version="2.21.0", cuda="12.5.1")
BARE = {"pci_gpus": (), "device_nodes": (), "driver": None}
DRIVERS = (Gpu(name="H100", driver="580.65", uuid="GPU-5f"),)


def explain(facts: Fields, framework: Fields, known: tuple[Gpu, ...] = ()) -> str:
    one = dataclasses.replace(TENSORFLOW, **framework)
    return explain_missing_gpu(dataclasses.replace(FACTS, **facts), one, known) or ""


@pytest.mark.parametrize(
    ("facts", "framework", "reason", "remedy"),
    [
        (
            {"driver": None, "device_nodes": ()},
            {},
            "NVIDIA's driver is not loaded",
            "Install the driver",
        ),
        ({"device_nodes": ()}, {}, "/dev/nvidia0 does not exist", "--gpus all"),
        *[
            (
                {"cuda_visible_devices": text},
                {},
                f"CUDA_VISIBLE_DEVICES='{text}' hides it",
                "Unset it",
            )
            for text in ("-1", "", "1")
        ],
        (
            {},
            {"cuda": None},
            "TensorFlow 2.21.0 is a build without CUDA",
            "pip uninstall tensorflow-cpu; pip ",
        ),
        (
            {},
            {},
            "cannot start CUDA 12.5.1 with driver 550.54.15",
            ': pip install "tensorflow[and-cuda]"',
        ),
        (
            {"cuda_visible_devices": "0"},
            {},
            "cannot start CUDA 12.5.1",
            'pip install "tensorflow[and-cuda]"',
        ),
        ({}, {"words": "Cannot dlopen."}, "too new for the driver (Cannot dlopen.)", "[and-cuda]"),
        ({"driver": "580.65"}, {"name": "jax", "cuda": None}, "JAX", 'pip install "jax[cuda13]"'),
        ({}, {"name": "jax", "cuda": "13"}, "JAX", 'pip install "jax[cuda12]"'),
        (
            {"driver": "580.65"},
            {"name": "torch", "cuda": None},
            "PyTorch",
            "https://download.pytorch.org/whl/cu130",
        ),
        (
            {},
            {"name": "torch", "cuda": "13.0"},
            "PyTorch",
            "https://download.pytorch.org/whl/cu126",
        ),
    ],
)
def test_names_the_reason_and_the_remedy(
    facts: Fields, framework: Fields, reason: str, remedy: str
) -> None:
    explanation = explain(facts, framework)
    assert "0000:01:00.0" in explanation
    assert reason in explanation
    assert remedy in explanation


@pytest.mark.parametrize(
    ("facts", "known", "found"),
    [
        ({"pci_gpus": ()}, (), "/dev/nvidia0"),  # passed into a container without its PCI bus
        (
            BARE | {"cuda_visible_devices": "GPU-99"},
            DRIVERS,
            "CUDA_VISIBLE_DEVICES='GPU-99' hides it",
        ),
        (BARE | {"cuda_visible_devices": "GPU-5"}, DRIVERS, "with driver 580.65"),
    ],
)
def test_a_gpu_may_be_in_the_machine_without_a_place_on_its_bus(
    facts: Fields, known: tuple[Gpu, ...], found: str
) -> None:
    assert found in explain(facts, {}, known)


def test_says_nothing_of_a_gpu_that_is_seen_or_of_a_machine_without_one() -> None:
    assert explain({}, {"gpus": ("Titan X",)}) == explain(BARE, {}) == ""


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
    assert read_system(tmp_path, {"CUDA_VISIBLE_DEVICES": "0"}) == GpuFacts(
        pci_gpus=("0000:01:00.0", "0000:02:00.0"),
        driver="550.54.15",
        device_nodes=("/dev/nvidia0",),
        cuda_visible_devices="0",
    )
    assert read_system(tmp_path / "elsewhere", {}) == GpuFacts()


def report(monkeypatch: pytest.MonkeyPatch, stdout: str, stderr: str) -> Framework:
    """Returns what becomes of what a process prints that is asked for its devices."""
    done = subprocess.CompletedProcess(["python"], 0, stdout, stderr)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    return frameworks.ask_framework("tensorflow")


def test_a_report_is_read_with_the_last_words_on_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = (
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
        "W0000 00:00:1.5  7 gpu_device.cc:2342] Cannot dlopen some GPU libraries.\n"
        "  return torch._C._cuda_getDeviceCount() > 0\n"
    )
    found = report(monkeypatch, "noise\n" + json.dumps(to_plain(TENSORFLOW)) + "\n", stderr)
    assert found == dataclasses.replace(TENSORFLOW, words="Cannot dlopen some GPU libraries.")


def test_a_child_that_crashed_is_a_problem_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = report(monkeypatch, "", "Traceback\nImportError: libfoo\n")
    assert found == Framework(name="tensorflow", problem="ImportError: libfoo")


def test_gpus_are_those_that_frameworks_see_in_the_words_of_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = dataclasses.replace(TENSORFLOW, gpus=("MI300",))
    assert [gpu.name for gpu in list_gpus(GpuFacts(), [TENSORFLOW, seen])] == ["MI300"]
    monkeypatch.setattr(frameworks, "read_gpus", lambda: (Gpu(name="First"), Gpu(name="Second")))
    for text, names in ((None, ["First", "Second"]), ("1", ["Second"]), ("-1", [])):
        assert [gpu.name for gpu in list_gpus(GpuFacts(cuda_visible_devices=text), [])] == names
    assert list_gpus(GpuFacts(), [TENSORFLOW]) == ()  # which the driver has, and no framework sees


def test_a_backend_is_asked_for_gpus_only_where_there_may_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frameworks, "is_installed", lambda backend: backend != "torch")
    answers = iter(
        [
            Framework(name="tensorflow", gpus=("A GPU",) * 3),
            Framework(name="jax", gpus=("H100",)),
            Framework(name="jax", problem="no driver"),
            TENSORFLOW,
        ]
    )
    monkeypatch.setattr(frameworks, "ask_framework", lambda backend: next(answers))
    (tmp_path / "dev").mkdir()
    assert frameworks.count_gpus(root=tmp_path) == 0
    (tmp_path / "dev" / "nvidia0").touch()
    assert frameworks.count_gpus(root=tmp_path) == 3
    assert frameworks.count_gpus("jax", tmp_path) == 1
    with pytest.raises(DeviceError, match=r"^JAX could not be asked for its devices: no driver$"):
        frameworks.count_gpus("jax", tmp_path)
    with pytest.raises(
        DeviceError,
        match=r"PyTorch is not installed\. pip install torch, or choose --backend tensorflow \(in a",
    ):
        frameworks.count_gpus("torch", tmp_path)
    with pytest.warns(
        Notice, match=r"an NVIDIA GPU is in this machine \(/dev/nvidia0\) and is not used"
    ):
        assert frameworks.count_gpus(root=tmp_path) == 0


@pytest.mark.parametrize(
    ("named", "used", "is_told"),
    [((), "cpu:0", True), (("cpu:0",), "cpu:0", False), ((), "gpu:0", False)],
)
def test_a_run_on_the_processor_that_was_not_asked_for_says_why(
    named: tuple[str, ...], used: str, is_told: bool
) -> None:
    recipe = build_recipe(distribution={"devices": named}, training={"backend": "jax"})
    placement = build_placement(devices=(used,))
    facts = GpuFacts(device_nodes=("/dev/nvidia0",))
    environment = build_environment(jax="1.0", gpus=())
    assert (
        "NVIDIA's driver is not loaded" in find_unused_gpu(placement, recipe, facts, environment)
    ) == is_told


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A package index that holds one package, named torch."""
    folder = tmp_path / "index/torch"
    folder.mkdir(parents=True)
    wheel = "torch-2.9-py3-none-any.whl"
    (folder / "index.html").write_text(f'<a href="{wheel}">{wheel}</a>', encoding="utf-8")
    with zipfile.ZipFile(folder / wheel, "w") as file:
        file.writestr("torch.py", "")
        described = "torch-2.9.dist-info"
        file.writestr(f"{described}/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 2.9\n")
        file.writestr(f"{described}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr(f"{described}/RECORD", "")
    return folder.parent


@pytest.mark.slow
@pytest.mark.advice("pip install --force-reinstall torch")
def test_the_command_that_installs_a_build_for_a_gpu_works_as_typed(
    index: Path, tmp_path: Path
) -> None:
    advised = frameworks.install_with_cuda(Framework(name="torch"), "580.65")
    pip, *words, url = shlex.split(advised)
    assert (pip, url) == ("pip", "https://download.pytorch.org/whl/cu130")
    venv.create(tmp_path / "venv", with_pip=True)
    command = [tmp_path / "venv/bin/pip", *words, index.as_uri()]
    alone = {"PIP_CONFIG_FILE": os.devnull}
    for _ in range(2):  # the second time it is there, and is installed again
        done = subprocess.run(command, capture_output=True, check=True, text=True, env=alone)
        assert "Successfully installed torch-2.9" in done.stdout
