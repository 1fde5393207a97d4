"""The frameworks that are installed, and the devices that each of them sees."""

import dataclasses
import importlib.util
import json
import subprocess

from tfbench.machine import children
from tfbench.recipe.backend_support import BACKEND_TITLES, BackendName, title_of
from tfbench.schema import build, schema

_DRIVER_OF_CUDA_13 = 580  # the oldest that starts it
_TIMEOUT_SECONDS = 120  # PyTorch takes 7 s, and a minute on a cold network disk with many GPUs


@schema
class Framework:
    """A backend as it is installed; with a `problem`, nothing but its name is known."""

    name: str
    version: str = ""
    cuda: str | None = None  # version that it was built for, or has the libraries of
    gpus: tuple[str, ...] = ()  # that it sees, by its numbering
    words: str = ""  # its own, on GPUs: the last that it logged
    problem: str = ""  # why it could not be asked


def is_installed(backend: BackendName) -> bool:
    """Says whether a backend can be imported, without doing so."""
    return importlib.util.find_spec(backend) is not None


def describe_lack(backend: BackendName) -> str:
    """Says that a backend is not installed, and what installs it."""
    return f"training.backend: {BACKEND_TITLES[backend]} is not installed. pip install {backend}."


def describe_silence(framework: Framework) -> str:
    """Says that a framework that is installed could not be asked."""
    return f"{title_of(framework.name)} could not be asked for its devices: {framework.problem}"


def install_with_cuda(framework: Framework, driver: str) -> str:
    """Returns the command that installs a framework's build for CUDA, of a version that a driver can start."""
    is_new = not driver.partition(".")[0].isdecimal() or int(driver.partition(".")[0]) >= _DRIVER_OF_CUDA_13
    if framework.name == "jax":
        return f'pip install "jax[cuda{13 if is_new else 12}]"'
    if framework.name == "torch":
        index = f"https://download.pytorch.org/whl/{'cu130' if is_new else 'cu126'}"
        return f"pip install --force-reinstall torch --index-url {index}"
    return f'{"" if framework.cuda else "pip uninstall tensorflow-cpu; "}pip install "tensorflow[and-cuda]"'


def ask_all() -> list[Framework]:
    """Asks each framework that is installed, in a process of its own."""
    return [ask(backend) for backend in BACKEND_TITLES if is_installed(backend)]


def ask(backend: BackendName) -> Framework:
    """Asks a framework, in a process of its own, whose chatter on stderr is kept from the user."""
    settings: dict[str, str | None] = {
        "KERAS_BACKEND": backend,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # as of a measuring process, so that gpu:0 is the same card
        "TF_CPP_MIN_LOG_LEVEL": "0",  # what TensorFlow says of GPUs is what we look for
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # JAX would take most of a GPU, maybe from a run that measures there
    }
    try:
        report = children.ask("tfbench.backends.device_report", timeout=_TIMEOUT_SECONDS, settings=settings)
        found: Framework = build(Framework, json.loads(report.stdout.splitlines()[-1]), "device report")
    except subprocess.TimeoutExpired:
        problem = f"no answer within {_TIMEOUT_SECONDS} s; `nvidia-smi` shows whether a GPU hangs"
        return Framework(name=backend, problem=problem)
    except (IndexError, ValueError):
        return Framework(name=backend, problem=(report.stderr.strip() or "no message").splitlines()[-1])
    return dataclasses.replace(found, words=_last_words(report.stderr))


def _last_words(log: str) -> str:
    """Returns the last message on GPUs, without its time and place in the framework's source; no line of code."""
    lines = [line for line in log.splitlines() if line[:1].strip()]
    found = [line for line in lines if "GPU" in line or "CUDA" in line.upper()]
    return (found[-1].partition("] ")[2].strip() or found[-1].strip()) if found else ""
