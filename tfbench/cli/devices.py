"""`tfbench devices`: what a run can be placed on."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tfbench.cli._options import format_option
from tfbench.cli._output import echo_json, echo_lines, text_width, waiting
from tfbench.errors import DeviceError, ExitCode

if TYPE_CHECKING:
    from tfbench.machine.frameworks import Framework
    from tfbench.records.energy import EnergySources
    from tfbench.records.machine import Gpu
    from tfbench.report.table import Section


CHECK_SECONDS = 2.0  # of steady steps on each device


class Check(NamedTuple):
    """What came of a short training on a device."""

    device: str
    samples_per_second: float | None
    cautions: tuple[str, ...]  # about what was measured there
    problem: str  # why nothing could be trained; "" if it could


@click.command()
@click.option("--check", is_flag=True, help="Train for seconds on each device: what disturbs a measurement there?")
@format_option
def command(check: bool, output_format: str) -> ExitCode:
    """Show the installed back ends, and the devices that they see.

    If a back end does not see a GPU of the machine, it says why, and how to mend it; so it does of counters of energy.
    --check trains a small network on each device, keeps nothing of it, and says what speaks against measuring there:
    other load, stolen time, a quota, the governor, memory, XLA flags, GPUs that are held back or shared, steps that
    scatter or drift. Exit code 1: a device cannot train.

    \b
    tfbench devices
    tfbench devices --check
    tfbench devices --format json
    """
    from tfbench.machine import frameworks
    from tfbench.machine.devices import explain_missing_gpu, list_gpus, read_system
    from tfbench.machine.energy import find_energy_sources
    from tfbench.report.table import text

    with waiting("asking what is installed for devices"):
        installed = frameworks.ask_all()
    usable = [one for one in installed if not one.problem]
    if installed and not usable:
        raise DeviceError("\n".join(map(frameworks.describe_silence, installed)))
    facts = read_system(Path("/"), os.environ)
    gpus = list_gpus(facts, usable)
    problems = list(dict.fromkeys(filter(None, (explain_missing_gpu(facts, one) for one in usable))))
    energy = find_energy_sources(gpus)
    if output_format == "text":
        echo_lines(text([_describe(gpus, installed, energy)], text_width()))
        for problem in problems:
            click.echo(f"\nWarning: {problem}")  # not wrapped: it holds a command
    first = usable[0] if usable else frameworks.Framework(name="tensorflow")
    checks = []
    for device in ["cpu:0", *(f"gpu:{index}" for index in range(len(first.gpus)))] if check else []:
        checks.append(_check(device, first.name))
        if output_format == "text":
            echo_lines(["", *text([_describe_check(checks[-1])], text_width())])
    if output_format == "json":
        from tfbench.report.document import to_plain

        found = {"logical_cores": os.cpu_count(), "gpus": gpus, "backends": installed, "energy": energy}
        beside = {"problem": "\n".join(problems) or None, **({"checks": checks} if check else {})}
        echo_json(to_plain(facts) | found | beside)
    return ExitCode.RUN_FAILED if any(one.problem for one in checks) else ExitCode.DONE


def _check(device: str, backend: str) -> Check:
    import tempfile

    from tfbench import api
    from tfbench.analysis.run.checks import find_requested_cautions
    from tfbench.errors import TfbenchError

    with tempfile.TemporaryDirectory(prefix="tfbench-") as folder, waiting(f"training on {device}"):
        try:
            run = api.run(
                "mnist_hidden100_mlp",
                overrides={
                    "measurement.seconds": CHECK_SECONDS,
                    "measurement.checks": False,
                    "training.backend": backend,
                },
                devices=device,
                synthetic=True,
                store=folder,
                track=False,
            )
        except TfbenchError as error:
            return Check(device, None, (), str(error))
    asked_for = find_requested_cautions(run.result)
    cautions = tuple(caution for caution in run.summary.cautions if caution not in asked_for)
    problem = "" if run.status == "FINISHED" else run.reason or run.status
    return Check(device, run.metrics.get("samples_per_second"), cautions, problem)


def _describe_check(check: Check) -> "Section":
    from tfbench.report.formats import format_speed
    from tfbench.report.table import Section

    if check.problem or check.samples_per_second is None:
        return Section(f"{check.device} cannot train: {check.problem or 'no step was timed.'}")
    what = f"{check.device} trains a small network at {format_speed(check.samples_per_second)} samples/s"
    found = "but see the warnings:" if check.cautions else "and nothing was found that disturbs a measurement."
    return Section(f"{what}, {found}", tuple(f"- {caution}" for caution in check.cautions))


def _describe(gpus: "Sequence[Gpu]", installed: "Sequence[Framework]", energy: "EnergySources") -> "Section":
    from tfbench.recipe.abilities import title_of
    from tfbench.report import table

    rows = [("cpu", f"{os.cpu_count()} logical cores; cpu:1, cpu:2, ... are virtual and share them")]
    for index, gpu in enumerate(gpus):
        memory = f", {gpu.memory_bytes / 2**30:.1f} GiB" if gpu.memory_bytes else ""
        rows.append((f"gpu:{index}", f"{gpu.name}{memory}, driver {gpu.driver or 'unknown'}"))
    if not gpus:
        rows.append(("gpu", "none"))
    for one in installed:
        seen = ", ".join(f"gpu:{index} {name}" for index, name in enumerate(one.gpus))
        cuda = f"built for CUDA {one.cuda}" if one.cuda else "built without CUDA"
        what = f"{one.version}, {cuda}{f', sees {seen}' if seen else ''}"
        rows.append((title_of(one.name), f"cannot be asked: {one.problem}" if one.problem else what))
    rows += [("energy", f"of {source.name} ({source.part})") for source in energy.sources]
    rows += [("energy", f"not read: {problem}") for problem in energy.problems]
    return table.Section("Devices", tables=(table.facts(rows),))
