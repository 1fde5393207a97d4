"""`tfbench devices`: what a run can be placed on."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tfbench.cli._options import format_option
from tfbench.cli._output import echo_json, echo_sections, log_waiting
from tfbench.errors import DeviceError, ExitCode, TfbenchError

if TYPE_CHECKING:
    from tfbench.machine.energy_readings import EnergySources
    from tfbench.machine.facts import Gpu
    from tfbench.machine.frameworks import Framework
    from tfbench.show.table import Section


CHECK_SECONDS = 2.0  # of steady steps on each device
# Of a training on several devices and on one: samples a device in each step, steps, and by how much
# the losses may differ. Sums in another order differ by less than 1e-5; where a device is left out,
# by much more.
SHARED_SAMPLES = 100
SHARED_STEPS = 50
LARGEST_DIFFERENCE = 1e-3


class Check(NamedTuple):
    """What came of a short training on a device."""

    device: str
    samples_per_second: float | None
    warnings: tuple[str, ...]  # about what was measured there
    problem: str  # why nothing could be trained; "" if it could


@click.command("devices")
@click.option(
    "--check", is_flag=True, help="Train briefly on each device, and report what disturbs it."
)
@format_option
def devices_command(check: bool, output_format: str) -> ExitCode:
    """Show the installed backends, and the devices that they see.

    If a GPU or an energy counter is missing, this shows why and how to fix it. --check trains a
    small network on each device, stores nothing, and reports what would disturb a measurement:
    other load, stolen time, a CPU quota, the governor, little memory, XLA flags, throttled or
    shared GPUs, unsteady steps. All GPUs together, or two logical CPUs, must learn what one device
    learns. Exit code 1: a device cannot train, or several do not train like one.

    \b
    tfbench devices
    tfbench devices --check
    tfbench devices --format json
    """
    from tfbench.machine import frameworks
    from tfbench.machine.energy_counters import find_energy_sources
    from tfbench.recipe.backend_support import BACKEND_TITLES

    log_waiting("asking what is installed for devices")
    installed = [
        frameworks.ask_framework(name) for name in BACKEND_TITLES if frameworks.is_installed(name)
    ]
    usable = [framework for framework in installed if not framework.problem]
    if installed and not usable:
        raise DeviceError("\n".join(map(frameworks.describe_silence, installed)))
    facts = frameworks.read_system(Path("/"), os.environ)
    gpus = frameworks.list_gpus(facts, usable)
    explanations = [frameworks.explain_missing_gpu(facts, framework) for framework in usable]
    problems = dict.fromkeys(filter(None, explanations))
    energy = find_energy_sources(gpus)
    as_text = output_format == "text"
    if as_text:
        echo_sections([_describe(gpus, installed, energy)])
        for problem in problems:
            click.echo(f"\nWarning: {problem}")  # not wrapped: it holds a command
    checks = []
    if check:
        framework = usable[0] if usable else frameworks.Framework(name="tensorflow")
        for result in _check_all(framework):
            checks.append(result)
            if as_text:
                click.echo()
                echo_sections([_describe_check(result)])
    if not as_text:
        from tfbench.show.document import to_document

        document = to_document(facts) | {
            "logical_cores": os.cpu_count(),
            "gpus": gpus,
            "backends": installed,
            "energy": energy,
            "problem": "\n".join(problems) or None,
        }
        if check:
            document["checks"] = checks
        echo_json(document)
    return ExitCode.RUN_FAILED if any(result.problem for result in checks) else ExitCode.DONE


def _check_all(framework: "Framework") -> Iterator[Check]:
    gpus = [f"gpu:{index}" for index in range(len(framework.gpus))]
    values = {"measurement.seconds": CHECK_SECONDS, "distribution.strategy": "default"}
    for device in ("cpu:0", *gpus):
        check, _ = _train(device, framework.name, values)
        yield check
    if framework.name != "torch":
        yield _check_as_one(gpus if len(gpus) > 1 else ["cpu:0", "cpu:1"], framework.name)


def _train(devices: str, backend: str, values: Mapping[str, Any]) -> tuple[Check, float]:
    """Trains a small network, and keeps nothing; returns what came of it, and its last loss."""
    import tempfile

    from tfbench import api

    log_waiting(f"training on {devices}")
    try:
        with tempfile.TemporaryDirectory(prefix="tfbench-") as folder:
            run = api.run(
                "mnist_hidden100_mlp",
                overrides={"measurement.checks": False, "training.backend": backend, **values},
                devices=devices,
                synthetic=True,
                store=folder,
                track=False,
            )
    except TfbenchError as error:
        return Check(devices, None, (), str(error)), math.nan
    problem = "" if run.is_finished else run.reason or run.status
    check = Check(devices, run.samples_per_second, run.warnings, problem)
    loss = run.result.epochs[-1].loss if run.result.epochs else None
    return check, math.nan if loss is None else loss


def _check_as_one(devices: Sequence[str], backend: str) -> Check:
    """Trains on several devices and on the first of them, and compares what they learned."""
    values = {
        "training.global_batch_size": SHARED_SAMPLES * len(devices),
        "measurement.steps": SHARED_STEPS,
    }
    alone, expected = _train(devices[0], backend, values | {"distribution.strategy": "default"})
    several, loss = _train(
        ",".join(devices), backend, values | {"distribution.strategy": "mirrored"}
    )
    problem = alone.problem or several.problem
    is_alike = abs(loss - expected) <= LARGEST_DIFFERENCE * abs(expected)  # False of no number
    if not problem and not is_alike:
        problem = (
            f"they do not train as one device does: the loss is {loss:.6g}, that of {devices[0]}"
            f" {expected:.6g}."
        )
    return several._replace(warnings=(), problem=problem)


def _describe_check(check: Check) -> "Section":
    from tfbench.show.formats import format_speed
    from tfbench.show.table import Section

    if check.problem or check.samples_per_second is None:
        return Section(f"{check.device}: {check.problem or 'no step was timed.'}")
    finding = "and nothing was found that disturbs a measurement."
    if check.warnings:
        finding = "but see the warnings:"
    return Section(
        f"{check.device} trains a small network at {format_speed(check.samples_per_second)}"
        f" samples/s, {finding}",
        tuple(f"- {warning}" for warning in check.warnings),
    )


def _describe(
    gpus: "Sequence[Gpu]", installed: "Sequence[Framework]", energy: "EnergySources"
) -> "Section":
    from tfbench.machine import frameworks
    from tfbench.recipe.backend_support import BACKEND_TITLES, title_of
    from tfbench.show import table

    rows = [
        ("cpu", f"{os.cpu_count()} logical cores, shared by cpu:0, cpu:1, ... (logical devices)")
    ]
    for index, gpu in enumerate(gpus):
        memory = f", {gpu.memory_bytes / 2**30:.1f} GiB" if gpu.memory_bytes else ""
        rows.append((f"gpu:{index}", f"{gpu.name}{memory}, driver {gpu.driver or 'unknown'}"))
    if not gpus:
        rows.append(("gpu", "none that NVIDIA's driver reports; containers need `--gpus all`"))
    for framework in installed:
        seen = ", ".join(f"gpu:{index} {name}" for index, name in enumerate(framework.gpus))
        cuda = f"built for CUDA {framework.cuda}" if framework.cuda else "built without CUDA"
        text = f"{framework.version}, {cuda}"
        if seen:
            text += f", sees {seen}"
        if framework.problem:
            text = f"cannot be asked: {framework.problem}"
        rows.append((title_of(framework.name), text))
    known = {framework.name for framework in installed}
    for name, title in BACKEND_TITLES.items():
        if name not in known:
            install = f"pip install {name}"
            if gpus:
                missing = frameworks.Framework(name=name)
                install = frameworks.install_with_cuda(missing, gpus[0].driver or "")
            rows.append((title, f"not installed; `{install}` adds it"))
    rows += [("energy", f"of GPU {source.name}") for source in energy.sources]
    rows += [("energy", f"unavailable, {problem}") for problem in energy.problems]
    return table.Section("Devices", tables=(table.facts(rows),))
