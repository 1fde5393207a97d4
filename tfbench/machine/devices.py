"""What of this machine's devices can be used, and why a GPU that is there cannot."""

import dataclasses
import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tfbench.errors import DeviceError
from tfbench.machine import children, frameworks
from tfbench.machine.gpus import choose_visible, read_gpus
from tfbench.recipe.abilities import BACKEND_TITLES, BackendName
from tfbench.records.machine import Gpu
from tfbench.schema import build, schema

_NVIDIA = "0x10de"  # PCI vendor
_DISPLAY_CLASSES = ("0x0300", "0x0302")  # PCI classes: VGA controller; 3D controller, as data centre cards are
_OTHER_GPUS = ("dev/dxg", "dev/kfd", "dev/dri/renderD*")  # of Windows' Linux, of AMD, of small boards and others
_TIMEOUT_SECONDS = 120  # TensorFlow takes 3 s here, and a minute on a cold network disk with many GPUs


@schema
class DeviceFacts:
    """What decides whether TensorFlow can use a GPU."""

    tensorflow: str | None  # version; None: it is not installed, and `gpus` are the driver's that CUDA shows
    logical_cores: int
    gpus: tuple[Gpu, ...] = ()  # that TensorFlow sees
    pci_gpus: tuple[str, ...] = ()  # addresses of NVIDIA's display devices on the PCI bus
    driver: str | None = None  # version of the kernel's driver
    device_nodes: tuple[str, ...] = ()  # /dev/nvidia0, ...
    cuda_visible_devices: str | None = None  # None: not set
    built_with_cuda: bool = False
    cuda: str | None = None  # version that TensorFlow was built for
    cudnn: str | None = None
    log: tuple[str, ...] = ()  # TensorFlow's own words on GPUs


def read_system(root: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Reads the facts that need no TensorFlow.

    Args:
        root: Where /sys, /proc and /dev lie.
        environment: Environment variables.
    """
    return {
        "pci_gpus": tuple(
            sorted(device.name for device in root.glob("sys/bus/pci/devices/*") if _is_nvidia_gpu(device))
        ),
        "driver": _read_driver_version(root / "proc/driver/nvidia/version"),
        "device_nodes": tuple(sorted(f"/dev/{node.name}" for node in root.glob("dev/nvidia[0-9]*"))),
        "cuda_visible_devices": environment.get("CUDA_VISIBLE_DEVICES"),
    }


def parse_report(stdout: str, stderr: str) -> DeviceFacts:
    """Reads what this module printed when it ran in a process of its own.

    Raises:
        DeviceError: It printed no report.
    """
    try:
        facts: DeviceFacts = build(DeviceFacts, json.loads(stdout.splitlines()[-1]), "device report")
    except (IndexError, ValueError) as error:
        last_line = (stderr.strip() or "no message").splitlines()[-1]
        raise DeviceError(f"TensorFlow could not be asked for its devices: {last_line}") from error
    return dataclasses.replace(facts, log=tuple(_lines_on_gpus(stderr.splitlines())))


def ask_devices() -> DeviceFacts:
    """Asks TensorFlow, in a process of its own, whose chatter on stderr is kept from the user; if it is installed.

    Raises:
        DeviceError: It did not answer.
    """
    if not frameworks.is_installed("tensorflow"):
        system = read_system(Path("/"), os.environ)
        visible = choose_visible(read_gpus(), system["cuda_visible_devices"])
        return DeviceFacts(tensorflow=None, logical_cores=os.cpu_count() or 1, gpus=visible, **system)
    settings = {
        "TF_CPP_MIN_LOG_LEVEL": "0",  # what it says of GPUs is what we look for
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # as of a measuring process, so that gpu:0 is the same card
    }
    try:
        report = children.ask("tfbench.backends.tensorflow.device_report", timeout=_TIMEOUT_SECONDS, settings=settings)
    except subprocess.TimeoutExpired as error:
        raise DeviceError(
            f"TensorFlow did not answer within {_TIMEOUT_SECONDS} s when asked for its devices. "
            "`nvidia-smi` shows whether a GPU hangs."
        ) from error
    return parse_report(report.stdout, report.stderr)


def count_gpus(backend: BackendName = "tensorflow", root: Path = Path("/")) -> int:
    """Returns how many GPUs a back end sees, which is asked only on a machine that may have some.

    Args:
        backend: Which; of TensorFlow that is not installed it is what CUDA would show it.
        root: Where /sys and /dev lie.

    Raises:
        DeviceError: It is not installed, or did not answer.
    """
    system = read_system(root, os.environ)
    may_have = system["pci_gpus"] or system["device_nodes"] or any(any(root.glob(node)) for node in _OTHER_GPUS)
    if not may_have:
        return 0
    if backend == "tensorflow":
        return len(ask_devices().gpus)
    if not frameworks.is_installed(backend):
        raise DeviceError(frameworks.describe_lack(backend))
    answer = frameworks.ask(backend)
    if answer.problem:
        raise DeviceError(f"{BACKEND_TITLES[backend]} could not be asked for its devices: {answer.problem}")
    return len(answer.gpus)


def explain_missing_gpu(facts: DeviceFacts) -> str | None:
    """Says why a GPU in the machine is not seen, and how to mend it; None if one is seen or there is none."""
    if facts.gpus or facts.tensorflow is None or not (facts.pci_gpus or facts.device_nodes):
        return None
    found = f"an NVIDIA GPU is in this machine ({', '.join(facts.pci_gpus or facts.device_nodes)}), but "
    if facts.driver is None:
        return f"{found}NVIDIA's driver is not loaded. Install it; `nvidia-smi` lists the GPUs once it works."
    if not facts.device_nodes:
        return (
            f"{found}/dev/nvidia0 does not exist. A container must be started with `--gpus all` (NVIDIA Container "
            "Toolkit); elsewhere `nvidia-smi`, run once as root, makes the device files."
        )
    if facts.cuda_visible_devices is not None and not _names_a_gpu(facts.cuda_visible_devices, len(facts.device_nodes)):
        return f"{found}CUDA_VISIBLE_DEVICES='{facts.cuda_visible_devices}' hides it. Unset it."
    if not facts.built_with_cuda:
        return (
            f"{found}this TensorFlow ({facts.tensorflow}) was built without CUDA. "
            'Remove it and install the other build: pip uninstall tensorflow-cpu; pip install "tfbench[cuda]".'
        )
    words = f" TensorFlow says: {facts.log[-1]}" if facts.log else ""
    return (
        f"{found}TensorFlow cannot load its CUDA libraries, or start them with driver {facts.driver}. Install them: "
        f'pip install "tfbench[cuda]". If they are installed, the driver is too old for them.{words}'
    )


def _names_a_gpu(visible: str, num_gpus: int) -> bool:
    """CUDA reads the list up to the first entry that is no device; -1 is the usual way to say none."""
    first = visible.split(",")[0].strip()
    return first.startswith(("GPU-", "MIG-")) or (first.isdigit() and int(first) < num_gpus)


def _lines_on_gpus(lines: Iterable[str]) -> list[str]:
    """Returns TensorFlow's log messages on GPUs, each once, without their time and place in its source."""
    found = (line for line in lines if "GPU" in line or "CUDA" in line.upper())
    return list(dict.fromkeys(line.partition("] ")[2].strip() or line.strip() for line in found))


def _is_nvidia_gpu(device: Path) -> bool:
    try:
        vendor = (device / "vendor").read_text(encoding="ascii").strip()
        return vendor == _NVIDIA and (device / "class").read_text(encoding="ascii").startswith(_DISPLAY_CLASSES)
    except OSError:
        return False


def _read_driver_version(path: Path) -> str | None:
    """Finds "550.54.15" in "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC"."""
    try:
        words = path.read_text(encoding="utf-8").split()
    except OSError:
        return None
    return next((word for word in words if word[0].isdigit() and "." in word), "unknown")
