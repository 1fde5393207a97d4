"""`tfbench devices`: what a run can be placed on."""

from typing import TYPE_CHECKING

import click

from tfbench.cli._options import format_option
from tfbench.cli._output import echo_lines, waiting

if TYPE_CHECKING:
    from tfbench.machine.devices import DeviceFacts


@click.command()
@format_option
def command(output_format: str) -> None:
    """Show the devices that TensorFlow sees.

    If a GPU is in the machine but not seen, it says why, and how to mend it.

    \b
    tfbench devices
    tfbench devices --format json
    """
    from tfbench.machine.devices import ask_devices, explain_missing_gpu

    with waiting("asking TensorFlow for devices"):
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


def _describe(facts: "DeviceFacts") -> list[str]:
    lines = [f"cpu    {facts.logical_cores} logical cores; cpu:0, cpu:1, ... are made as asked for"]
    for index, gpu in enumerate(facts.gpus):
        memory = f", {gpu.memory_bytes / 2**30:.1f} GiB" if gpu.memory_bytes else ""
        lines.append(f"gpu:{index}  {gpu.name}{memory}, driver {gpu.driver or 'unknown'}")
    if not facts.gpus:
        lines.append("gpu    none")
    cuda = f"built for CUDA {facts.cuda or 'of unknown version'}" if facts.built_with_cuda else "built without CUDA"
    return [*lines, f"TensorFlow {facts.tensorflow}, {cuda}"]
