"""A link between devices, measured by several processes one after the other."""

import json
import platform
import subprocess
import time
from collections.abc import Sequence

from tfbench import __version__, errors
from tfbench.errors import DeviceError, MeasurementError, TfbenchError
from tfbench.machine import children, frameworks
from tfbench.recipe.abilities import BackendName
from tfbench.records.link import LinkAnswer, LinkMeasurement, LinkQuestion
from tfbench.schema import build, to_plain

BACKEND: BackendName = (
    "jax"  # TensorFlow's replicas add up through its graph, which a process of single additions would not show
)
SIZES = tuple(4096 * 4**power for power in range(7))  # bytes: 4 KiB to 16 MiB
_NUM_REPEATS = 9  # of each size in a process
_TIMEOUT_SECONDS = 300


def choose_link_devices() -> tuple[str, ...]:
    """Returns all GPUs, where JAX sees two or more, or else two logical devices of the processor."""
    return ("gpu",) if len(frameworks.ask(BACKEND).gpus) > 1 else ("cpu:0", "cpu:1")


def measure_link(devices: Sequence[str], num_processes: int, *, sizes: Sequence[int] = SIZES) -> LinkMeasurement:
    """Measures how long devices take to add arrays of several sizes up over all of them.

    Args:
        devices: As a recipe names them.
        num_processes: That measure, one after the other.
        sizes: Bytes of the array that each device holds.

    Raises:
        DeviceError: JAX is not installed, or a device is absent.
        MeasurementError: A process did not measure.
    """
    if not frameworks.is_installed(BACKEND):
        raise DeviceError(frameworks.describe_lack(BACKEND))
    question = LinkQuestion(devices=tuple(devices), sizes=tuple(sizes), num_repeats=_NUM_REPEATS)
    answers = [_ask(question) for _ in range(num_processes)]
    return LinkMeasurement(
        created=time.time(),
        tfbench=__version__,
        backend=BACKEND,
        hostname=platform.node(),
        hardware=answers[0].hardware,
        devices=answers[0].devices,
        sizes=question.sizes,
        seconds=tuple(answer.seconds for answer in answers),
    )


def _ask(question: LinkQuestion) -> LinkAnswer:
    settings: dict[str, str | None] = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # as of a measuring process
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    text = json.dumps(to_plain(question))
    try:
        done = children.ask(
            f"tfbench.backends.{BACKEND}.link_report", question=text, timeout=_TIMEOUT_SECONDS, settings=settings
        )
        report = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired as error:
        raise MeasurementError(f"the devices did not add up within {_TIMEOUT_SECONDS} s.") from error
    except (IndexError, ValueError) as error:
        last_line = (done.stderr.strip() or "no message").splitlines()[-1]
        raise MeasurementError(f"the process that adds up ended with code {done.returncode}: {last_line}") from error
    if "error" in report:
        kind: type[TfbenchError] = getattr(errors, report["error"]["type"], MeasurementError)
        raise kind(report["error"]["message"])
    answer: LinkAnswer = build(LinkAnswer, report, "answer")
    return answer
