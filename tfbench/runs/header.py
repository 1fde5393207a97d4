"""What stands above the figures of a run: what is measured on which devices, and its epochs."""

import dataclasses
from collections.abc import Iterable

from tfbench.recipe.backend_support import BackendName, title_of
from tfbench.recipe.sections import CUTTING_STRATEGIES, TrainingConfig
from tfbench.runs.placement_record import Placement
from tfbench.runs.record import EpochRecord, RunResult
from tfbench.show.formats import format_number, format_speed, wrap
from tfbench.show.table import Column, Table
from tfbench.wording import count

_GAP = "   "  # between what a line says


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


_EPOCHS = Table(
    "epochs",
    (
        Column("epoch", "epoch", width=5),
        Column("samples_per_second", "samples/s", format_speed, width=9),
        Column("epoch_seconds", "epoch s", _seconds, width=7),
        Column("loss", "loss", "{:.4g}".format, width=9),
        Column("val_loss", "val loss", "{:.4g}".format, width=9),
        Column("accuracy", "accuracy", "{:.4f}".format),
        Column("val_accuracy", "val acc", "{:.4f}".format, width=7),
        Column("elapsed_seconds", "elapsed s", _seconds, width=9),
    ),
    (),
)


def epoch_header() -> str:
    """Returns the names over the rows of epochs."""
    return _EPOCHS.text(200)[0]


def epoch_lines(epoch: EpochRecord, steps_per_epoch: int | None) -> list[str]:
    """Returns an epoch's row and its figures in inference mode.

    For a part of an epoch, it also says how many steps that has.
    """
    is_part = epoch.is_part(steps_per_epoch)
    values = dataclasses.asdict(epoch)
    if is_part:
        values["epoch"] = f"{epoch.epoch}*"
    lines = dataclasses.replace(_EPOCHS, rows=[values]).text(200)[1:]
    if is_part:
        lines.append(f"* {epoch.num_steps:,} of the {steps_per_epoch:,} steps of an epoch")
    bits = epoch.metrics.get("val_bits_per_byte")
    if bits is not None:
        lines.append(f"       {format_number(bits)} bits per byte in validation")
    if epoch.inference_seconds is not None:
        figures = f"loss {format_number(epoch.inference_loss)}"
        if epoch.inference_accuracy is not None:
            figures += f", accuracy {format_number(epoch.inference_accuracy)}"
        lines.append(f"       training samples in inference mode: {figures}")
    return lines


def header_lines(result: RunResult, width: int) -> list[str]:
    """Returns what is about to be measured, for a run whose devices, data and model are ready."""
    request = result.request
    recipe = request.recipe
    placement = result.placement
    parts = [request.run_id, f'"{request.name}"']
    if placement:
        parts.append(_describe_placement(placement, recipe.training.backend))
    if result.model:
        network = recipe.model.name
        if result.model.is_built:
            network += f", {result.model.num_parameters:,} parameters"
        parts.append(network)
    if placement:
        batch = f"batch {placement.global_batch_size:,}"
        if placement.num_replicas > 1:
            batch += f" ({placement.per_replica_batch_size:,} each)"
        parts.append(batch)
    parts.append(_describe_precision(result))
    if data := result.dataset:
        kind = "SYNTHETIC" if data.synthetic else "real"
        source = data.source.removeprefix("synthetic, ")
        sizes = f"{data.train_samples:,} train, {data.validation_samples:,} validation"
        parts.append(f"{kind} {data.name} ({source}), {sizes}")
    parts.append(_describe_length(result))
    if resume := request.resume:
        parts.append(f"resumes {resume.run_id} after epoch {len(resume.epochs)}")
    lines = [f"{recipe.recipe.title} ({recipe.name})", *_packed(parts, width)]
    notes = describe_heads(recipe.training)
    if placement:
        notes = [*placement.notes, *notes]
    for note in notes:
        lines += wrap(note, width, first="i ")
    return lines


def _describe_placement(placement: Placement, backend: BackendName) -> str:
    text = f"{placement.strategy} on {','.join(placement.devices)}"
    if placement.num_workers > 1:
        text += f" of each of {placement.num_workers} workers"
    if backend != "tensorflow":
        text += f" by {title_of(backend)}"
    if placement.num_devices > 1:
        text += f" ({name_parts(placement)})"
    return text


def _packed(parts: Iterable[str], width: int) -> list[str]:
    """Returns what is to be said in as few lines as it takes, each part in one piece if it fits."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(_GAP) + len(part) <= width:
            lines[-1] += _GAP + part
        else:
            lines += wrap(part, width)
    return lines


def _describe_length(result: RunResult) -> str:
    recipe = result.request.recipe
    measurement = recipe.measurement
    if profile := result.request.profile:
        if profile.kind == "trace":
            return f"{title_of(recipe.training.backend)}'s own trace of a few steps"
        return f"phases and layers of the step; about {profile.seconds:g} s of rounds"
    limits = []
    if measurement.steps is not None:
        limits.append(f"{measurement.steps:,} steps")
    if measurement.seconds is not None:
        limits.append(f"{measurement.seconds:g} s")
    steps = None
    if result.steps_per_epoch is not None:
        steps = count(result.steps_per_epoch, "step")
    if limits:
        text = f"stops {' or '.join(limits)} after the warm-up"
        if steps:
            text += f" (an epoch has {steps})"
        return text
    text = count(recipe.training.epochs, "epoch")
    if steps:
        text += f" x {steps}"
    return text


def _describe_precision(result: RunResult) -> str:
    training = result.request.recipe.training
    parts = [training.precision, f"compiler {training.compiler_used}"]
    if settings := result.settings:
        parts = [settings.precision, f"compiler {settings.compiler}"]
    if training.steps_per_execution > 1:
        parts.append(f"{training.steps_per_execution:,} steps per call")
    if training.data_on_device:
        parts.append("samples on the device")
    return ", ".join(parts)


def describe_heads(training: TrainingConfig) -> list[str]:
    """Returns which losses have a second softmax, which keeps them above 0; nothing if none has."""
    heads = {
        "loss": training.head,
        "val loss and losses in inference mode": training.validation_head,
    }
    named = [name for name, head in heads.items() if head == "double_softmax"]
    if not named:
        return []
    text = f"{', '.join(named)}: softmax is applied twice, so it cannot reach 0"
    if len(named) < len(heads):
        text += "; do not compare loss with val loss"
    return [text]


def name_parts(placement: Placement) -> str:
    """Returns "2 replicas"; where weights are cut "4 devices, a mesh of data 1 x model 4"."""
    if placement.strategy not in CUTTING_STRATEGIES:
        return count(placement.num_replicas, "replica")
    text = count(placement.num_devices, "device")
    if placement.mesh:
        axes = [f"{name} {size}" for name, size in placement.mesh.items()]
        text += f", a mesh of {' x '.join(axes)}"
    return text
