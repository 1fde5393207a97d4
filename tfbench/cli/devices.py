"""`tfbench devices`: what a run can be placed on."""

from typing import TYPE_CHECKING

import click

from tfbench.cli._options import format_option
from tfbench.cli._output import echo_lines

if TYPE_CHECKING:
    from tfbench.machine.devices import DeviceFacts

_TIMEOUT_SECONDS = 120  # TensorFlow takes 3 s here, and a minute on a cold network disk with many GPUs


@click.command()
@format_option
def command(output_format: str) -> None:
    """Show the devices that TensorFlow sees.

    If a GPU is in the machine but not seen, it says why, and how to mend it.

    \b
    tfbench devices
    tfbench devices --format json
    """
    from tfbench.machine.devices import explain_missing_gpu

    facts = ask_devices()
    problem = explain_missing_gpu(facts)
    if output_format == "json":
        import json

        from tfbench.schema import to_plain

        click.echo(json.dumps(to_plain(facts) | {"problem": problem}, indent=2))
        return
    echo_lines(_describe(facts))
    if problem:
        click.echo(f"\nNot seen: {problem}")


def ask_devices() -> "DeviceFacts":
    """Asks in a process of its own, whose chatter on stderr is kept from the user.

    Raises:
        DeviceError: It did not answer.
    """
    import subprocess

    from tfbench.errors import DeviceError
    from tfbench.machine import children
    from tfbench.machine.devices import parse_report

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


def _describe(facts: "DeviceFacts") -> list[str]:
    lines = [f"cpu    {facts.logical_cores} logical cores; cpu:0, cpu:1, ... are made as asked for"]
    for index, gpu in enumerate(facts.gpus):
        memory = f", {gpu.memory_bytes / 2**30:.1f} GiB" if gpu.memory_bytes else ""
        lines.append(f"gpu:{index}  {gpu.name}{memory}, driver {gpu.driver or 'unknown'}")
    if not facts.gpus:
        lines.append("gpu    none")
    cuda = f"built for CUDA {facts.cuda or 'of unknown version'}" if facts.built_with_cuda else "built without CUDA"
    return [*lines, f"TensorFlow {facts.tensorflow}, {cuda}"]
