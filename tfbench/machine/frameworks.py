"""The frameworks beside TensorFlow that are installed, and the devices that each of them sees."""

import importlib.util
import json
import subprocess
from collections.abc import Iterator

from tfbench.machine import children
from tfbench.recipe.abilities import BACKEND_TITLES, BackendName
from tfbench.schema import build, schema

_DRIVER_OF_CUDA_13 = 580  # the oldest that starts it
_TIMEOUT_SECONDS = 120  # PyTorch takes 7 s here, and a minute on a cold network disk


@schema
class Framework:
    """A back end as it is installed; with a `problem`, nothing but its name is known."""

    name: str
    version: str = ""
    cuda: str | None = None  # version that it was built for, or has the libraries of
    gpus: tuple[str, ...] = ()  # that it sees, by its numbering
    words: str = ""  # its own, on GPUs
    problem: str = ""


def is_installed(backend: BackendName) -> bool:
    """Says whether a back end can be imported, without doing so."""
    return importlib.util.find_spec(backend) is not None


def describe_lack(backend: BackendName) -> str:
    """Says that a back end is not installed, and what installs it."""
    return f"training.backend: {BACKEND_TITLES[backend]} is not installed. pip install {backend}."


def install_with_cuda(framework: Framework, driver: str) -> str:
    """Returns the command that installs a framework's build for CUDA, of a version that a driver can start."""
    is_new = not driver.partition(".")[0].isdecimal() or int(driver.partition(".")[0]) >= _DRIVER_OF_CUDA_13
    if framework.name == "jax":
        return f'pip install "jax[cuda{13 if is_new else 12}]"'
    if framework.name == "torch":
        index = f"https://download.pytorch.org/whl/{'cu130' if is_new else 'cu126'}"
        return f"pip install --force-reinstall torch --index-url {index}"
    return f'{"" if framework.cuda else "pip uninstall tensorflow-cpu; "}pip install "tensorflow[and-cuda]"'


def ask_others() -> Iterator[Framework]:
    """Asks each framework but TensorFlow that is installed, in a process of its own."""
    for backend in BACKEND_TITLES:
        if backend != "tensorflow" and is_installed(backend):
            yield ask(backend)


def ask(backend: BackendName) -> Framework:
    """Asks a framework, in a process of its own."""
    settings: dict[str, str | None] = {
        "KERAS_BACKEND": backend,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # as of a measuring process
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # JAX would take most of a GPU, maybe from a run that measures there
    }
    try:
        report = children.ask("tfbench.backends.device_report", timeout=_TIMEOUT_SECONDS, settings=settings)
        found: Framework = build(Framework, json.loads(report.stdout.splitlines()[-1]), "device report")
    except subprocess.TimeoutExpired:
        return Framework(name=backend, problem=f"did not answer within {_TIMEOUT_SECONDS} s")
    except (IndexError, ValueError):
        return Framework(name=backend, problem=(report.stderr.strip() or "no message").splitlines()[-1])
    return found
