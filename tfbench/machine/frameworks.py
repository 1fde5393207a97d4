"""Installed frameworks, the devices that each sees, and why one sees no GPU."""

import dataclasses
import importlib.util
import json
import os
import subprocess
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tfbench.errors import DeviceError, Notice
from tfbench.machine import children
from tfbench.machine.facts import Environment, Gpu
from tfbench.machine.gpus import choose_visible, read_gpus
from tfbench.machine.kernel import read_text
from tfbench.recipe.backend_support import BACKEND_TITLES, BackendName, title_of
from tfbench.recipe.sections import Recipe
from tfbench.runs.placement_record import Placement
from tfbench.schema import build, schema

_NVIDIA = "0x10de"  # PCI vendor
# PCI classes: VGA controller; 3D controller, as data centre cards are.
_DISPLAY_CLASSES = ("0x0300", "0x0302")
_DRIVER_OF_CUDA_13 = 580  # the oldest that starts it
_TIMEOUT_SECONDS = 120  # PyTorch takes 7 s, and a minute on a cold network disk with many GPUs
# Of Windows' Linux, of AMD, of small boards and others.
_OTHER_GPUS = ("dev/dxg", "dev/kfd", "dev/dri/renderD*")


@schema
class GpuFacts:
    """What the machine shows of NVIDIA's GPUs, without a framework."""

    pci_gpus: tuple[str, ...] = ()  # addresses of NVIDIA's display devices on the PCI bus
    driver: str | None = None  # version of the kernel's driver
    device_nodes: tuple[str, ...] = ()  # /dev/nvidia0, ...
    cuda_visible_devices: str | None = None  # None: not set


@schema
class Framework:
    """A backend as it is installed; with a `problem`, nothing but its name is known."""

    name: str
    version: str = ""
    cuda: str | None = None  # version that it was built for, or has the libraries of
    gpus: tuple[str, ...] = ()  # that it sees, by its numbering
    words: str = ""  # the last that it logged on GPUs
    problem: str = ""  # why it could not be asked


def read_system(root: Path, environment: Mapping[str, str]) -> GpuFacts:
    """Reads what the machine shows.

    Args:
        root: Where /sys, /proc and /dev lie.
        environment: Environment variables.
    """
    gpus = []
    for folder in root.glob("sys/bus/pci/devices/*"):
        is_nvidias = read_text(folder / "vendor") == _NVIDIA
        if is_nvidias and read_text(folder / "class").startswith(_DISPLAY_CLASSES):
            gpus.append(folder.name)
    return GpuFacts(
        pci_gpus=tuple(sorted(gpus)),
        driver=_read_driver_version(root / "proc/driver/nvidia/version"),
        device_nodes=tuple(sorted(f"/dev/{node.name}" for node in root.glob("dev/nvidia[0-9]*"))),
        cuda_visible_devices=environment.get("CUDA_VISIBLE_DEVICES"),
    )


def is_installed(backend: BackendName) -> bool:
    """Says whether a backend can be imported, without doing so."""
    return importlib.util.find_spec(backend) is not None


def describe_lack(backend: BackendName, *, in_sweep: bool = False) -> str:
    """Says that a backend is not installed, what installs it, and which ones are there.

    Args:
        backend: The one that was asked for.
        in_sweep: Whether a setup may have asked for it.
    """
    message = f"training.backend: {BACKEND_TITLES[backend]} is not installed. pip install {backend}"
    for name in BACKEND_TITLES:
        if not is_installed(name):
            continue
        message += f", or choose --backend {name}"
        if in_sweep:
            message += f" (in a --setup, backend={name})"
    return f"{message}."


def describe_silence(framework: Framework) -> str:
    """Says that a framework that is installed could not be asked."""
    return f"{title_of(framework.name)} could not be asked for its devices: {framework.problem}"


def install_with_cuda(framework: Framework, driver: str) -> str:
    """Returns the command that installs a framework's build for a CUDA that the driver starts."""
    major = driver.partition(".")[0]
    builds = {"jax": "cuda13", "torch": "cu130"}
    if major.isdecimal() and int(major) < _DRIVER_OF_CUDA_13:
        builds = {"jax": "cuda12", "torch": "cu126"}
    if framework.name == "jax":
        return f'pip install "jax[{builds["jax"]}]"'
    if framework.name == "torch":
        index = f"https://download.pytorch.org/whl/{builds['torch']}"
        return f"pip install --force-reinstall torch --index-url {index}"
    command = 'pip install "tensorflow[and-cuda]"'
    return command if framework.cuda else f"pip uninstall tensorflow-cpu; {command}"


def ask_framework(backend: BackendName) -> Framework:
    """Asks a framework, in a process of its own, whose chatter on stderr is kept from the user."""
    settings = {
        "KERAS_BACKEND": backend,
        # As of a measuring process, so that gpu:0 is the same card.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "TF_CPP_MIN_LOG_LEVEL": "0",  # what TensorFlow logs of GPUs is what we look for
        # Else JAX would take most of a GPU, maybe from a run that measures there.
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    try:
        report = children.ask_child(
            "tfbench.backends.device_report", timeout=_TIMEOUT_SECONDS, settings=settings
        )
        table = json.loads(report.stdout.splitlines()[-1])
        framework = build(Framework, table, "device report")
        return dataclasses.replace(framework, words=_last_words(report.stderr))
    except subprocess.TimeoutExpired:
        problem = f"no answer in {_TIMEOUT_SECONDS} s; `nvidia-smi` shows if a GPU hangs"
    except (IndexError, ValueError):
        message = report.stderr.strip() or "no message"
        problem = message.splitlines()[-1]
    return Framework(name=backend, problem=problem)


def list_gpus(facts: GpuFacts, installed: Sequence[Framework]) -> tuple[Gpu, ...]:
    """Returns the GPUs that frameworks can see, as the driver describes them if it does.

    Args:
        facts: Of the machine.
        installed: Frameworks that were asked; none: what CUDA shows.
    """
    with_gpus = [framework for framework in installed if framework.gpus]
    if installed and not with_gpus:
        return ()
    visible = choose_visible(read_gpus(), facts.cuda_visible_devices)
    if visible or not with_gpus:
        return visible
    return tuple(Gpu(name=name) for name in with_gpus[0].gpus)


def count_gpus(backend: BackendName = "tensorflow", root: Path = Path("/")) -> int:
    """Returns how many GPUs a backend sees, which is asked only on a machine that may have some.

    Warns with a `Notice` where it sees none of those that there are.

    Args:
        backend: Which.
        root: Where /sys and /dev lie.

    Raises:
        DeviceError: It is not installed, or did not answer.
    """
    facts = read_system(root, os.environ)
    if not _may_have_gpus(facts, root):
        return 0
    if not is_installed(backend):
        raise DeviceError(describe_lack(backend, in_sweep=True))
    framework = ask_framework(backend)
    if framework.problem:
        raise DeviceError(describe_silence(framework))
    if why := explain_missing_gpu(facts, framework):
        warnings.warn(why, Notice, stacklevel=2)
    return len(framework.gpus)


def require_gpus(devices: Iterable[str], root: Path = Path("/")) -> None:
    """Rejects GPUs by their names where the machine has none; no framework is asked.

    Raises:
        DeviceError: Naming them.
    """
    named = [device for device in devices if device.startswith("gpu")]
    if named and not _may_have_gpus(read_system(root, os.environ), root):
        raise DeviceError(
            f"{', '.join(named)}: not found. This machine has no GPU that a framework could use."
            " `tfbench devices` shows what there is."
        )


def explain_missing_gpu(
    facts: GpuFacts, framework: Framework, known: Sequence[Gpu] | None = None
) -> str | None:
    """Says why a framework does not see a GPU of the machine, and what to do.

    It is None if the framework sees one, or there is none.

    Args:
        facts: Of the machine.
        framework: As it describes itself.
        known: The GPUs that the driver names; None: it is asked.
    """
    if framework.gpus or framework.problem:
        return None
    if known is None:
        known = read_gpus()
    names = facts.pci_gpus or facts.device_nodes or tuple(gpu.name for gpu in known)
    if not names:
        return None
    intro = f"an NVIDIA GPU is in this machine ({', '.join(names)}) and is not used: "
    driver = facts.driver or next((gpu.driver for gpu in known), None)
    if driver is None:
        return (
            f"{intro}NVIDIA's driver is not loaded. Install the driver; `nvidia-smi` lists the GPU"
            " once it works."
        )
    if not facts.device_nodes and not known:
        return (
            f"{intro}/dev/nvidia0 does not exist. Start a container with `--gpus all` (NVIDIA"
            " Container Toolkit); elsewhere run `nvidia-smi` once as root, which makes the device"
            " files."
        )
    if _is_hidden(facts, known):
        return f"{intro}CUDA_VISIBLE_DEVICES='{facts.cuda_visible_devices}' hides it. Unset it."
    title = f"{title_of(framework.name)} {framework.version}"
    install = install_with_cuda(framework, driver)
    if not framework.cuda:
        return f"{intro}{title} is a build without CUDA. Install one with CUDA: {install}"
    says = f" ({framework.words})" if framework.words else ""
    return (
        f"{intro}{title} cannot start CUDA {framework.cuda} with driver {driver}: CUDA's libraries"
        f" are missing, or too new for the driver{says}. Install them: {install}"
    )


def find_unused_gpu(
    placement: Placement, recipe: Recipe, gpu_facts: GpuFacts, environment: Environment
) -> str:
    """Says why a run is on the processor although there is a GPU; "" if not, or if asked for."""
    if recipe.distribution.devices or not placement.devices[0].startswith("cpu"):
        return ""
    name = recipe.training.backend
    framework = Framework(
        name=name,
        version=getattr(environment, name) or "",
        cuda=getattr(environment, f"{name}_cuda"),
    )
    return explain_missing_gpu(gpu_facts, framework, environment.gpus) or ""


def _may_have_gpus(facts: GpuFacts, root: Path) -> bool:
    """Says whether a machine shows a GPU of any kind, so that asking a framework is worth it."""
    if facts.pci_gpus or facts.device_nodes:
        return True
    return any(any(root.glob(node)) for node in _OTHER_GPUS)


def _is_hidden(facts: GpuFacts, known: Sequence[Gpu]) -> bool:
    """Says whether CUDA_VISIBLE_DEVICES leaves no GPU."""
    text = facts.cuda_visible_devices
    if text is None or (not known and text.startswith(("GPU-", "MIG-"))):
        return False
    return not choose_visible(known or (Gpu(name="GPU"),) * len(facts.device_nodes), text)


def _read_driver_version(path: Path) -> str | None:
    """Finds "550.54.15" in "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue"."""
    words = read_text(path).split()
    for word in words:
        if word[0].isdigit() and "." in word:
            return word
    return "unknown" if words else None


def _last_words(log: str) -> str:
    """Returns the last message on GPUs, without its time and place in the framework's source."""
    message = ""
    for line in log.splitlines():
        is_code = not line[:1].strip()
        if not is_code and ("GPU" in line or "CUDA" in line.upper()):
            message = line
    return message.partition("] ")[2].strip() or message.strip()
