"""What the console shows of a run, as lines of plain text; nothing here prints."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tfbench.analysis.comparison.references import PHASE_FIGURES, match_run
from tfbench.analysis.run.spans import steady_spans
from tfbench.recipe.abilities import title_of
from tfbench.recipe.sections import CUTTING_STRATEGIES, Reference
from tfbench.records.run import EpochRecord, RunResult, Summary, TrackedRun
from tfbench.report.comparison.references import match_remarks
from tfbench.report.formats import format_bytes, format_number, format_pairs, format_speed, format_time, wrap
from tfbench.report.replicas import describe_replicas, name_parts
from tfbench.report.run.energy import energy_pairs
from tfbench.report.run.fast import fast_pairs
from tfbench.wording import command_line, count, store_of, without_secrets

EPOCH_COLUMNS = ("epoch", "loss", "val_loss", "accuracy", "val_accuracy", "epoch_s", "samples/s", "elapsed_s")
EPOCH_REMARK = "samples/s leaves the warm-up out, which epoch_s holds: dividing gives less."
_NARROW_WIDTHS = (5, 8, 8, 8, 12, 7, 9, 9)  # 80 characters with the gaps, the least that the names take
_WIDE_WIDTHS = (5, 11, 11, 11, 12, 10, 10, 10)  # "0.000392997" is the longest usual number
_GAP = "  "
SYNTHETIC = "(synthetic data)"


def header_lines(result: RunResult, width: int) -> list[str]:
    """Returns what is about to be measured, for a run whose devices, data and model are ready."""
    recipe = result.request.recipe
    pairs = [("run", f"{result.request.name} ({result.request.run_id})")]
    if result.model:
        pairs.append(("model", f"{recipe.model.name}, {result.model.num_parameters:,} parameters"))
    if placement := result.placement:
        backend = recipe.training.backend
        by = "" if backend == "tensorflow" else f" by {title_of(backend)}"
        each = f" of each of {placement.num_workers} workers" if placement.num_workers > 1 else ""
        where = f"{', '.join(placement.devices)}{each}{by}"
        pairs.append(("strategy", f"{placement.strategy} on {where}: {name_parts(placement)}"))
        batch = f"{placement.global_batch_size:,} samples"
        if placement.num_replicas > 1:
            one = "device" if placement.strategy in CUTTING_STRATEGIES else "replica"
            batch += f", {placement.per_replica_batch_size:,} a {one}"
        pairs.append(("batch", batch))
    if data := result.dataset:
        kind = f"SYNTHETIC, not the real {data.name}" if data.synthetic and data.name != "network" else data.name
        samples = f"{data.train_samples:,} samples, {data.validation_samples:,} for validation"
        pairs.append(("data", f"{kind}: {samples} ({data.source})"))
    if resume := result.request.resume:
        pairs.append(("going on", f"after epoch {len(resume.epochs)} of run {resume.run_id}"))
    about = ("profile", _describe_profile(result)) if result.request.profile else ("training", _describe_length(result))
    pairs += [about, ("precision", _describe_precision(result))]
    pairs += [("note", note) for note in (result.placement.notes if result.placement else ())]
    return [f"{recipe.recipe.title} ({recipe.name})", *format_pairs(pairs, width)]


def _describe_profile(result: RunResult) -> str:
    profile = result.request.profile
    if profile is None or profile.kind == "trace":
        return f"{title_of(result.request.recipe.training.backend)}'s own trace of a few steps"
    seconds = f"about {profile.seconds:g} s of rounds"
    if profile.kind == "variants":
        builds = f", {count(profile.builds, 'build')} of each" if profile.builds > 1 else ""
        return f"{count(len(profile.variants), 'variant')} of the step, in turns{builds}; {seconds}"
    return f"phases and layers of the step; {seconds}"


def _describe_length(result: RunResult) -> str:
    recipe = result.request.recipe
    limits = []
    if recipe.measurement.steps is not None:
        limits.append(f"{recipe.measurement.steps:,} steps")
    if recipe.measurement.seconds is not None:
        limits.append(f"{recipe.measurement.seconds:g} s")
    steps = "" if result.steps_per_epoch is None else f"{count(result.steps_per_epoch, 'step')}"
    if limits:
        return f"limited to {' or '.join(limits)} after the warm-up" + (f"; an epoch has {steps}" if steps else "")
    return count(recipe.training.epochs, "epoch") + (f" x {steps}" if steps else "")


def _describe_precision(result: RunResult) -> str:
    training = result.request.recipe.training
    precision = result.settings.precision if result.settings else training.precision
    parts = [precision, f"compiler {result.settings.compiler if result.settings else training.compiler_used}"]
    if training.steps_per_execution > 1:
        parts.append(f"{training.steps_per_execution:,} steps a call")
    if training.data_on_device:
        parts.append("samples on the device")
    return ", ".join(parts)


def epoch_header_lines(width: int, *, is_synthetic: bool) -> list[str]:
    """Returns the names over the epochs' rows, and what must be known before reading the accuracies below them."""
    names = _join(EPOCH_COLUMNS, _epoch_widths(width))
    return [names, f"{SYNTHETIC}: accuracy says nothing of the real task"] if is_synthetic else [names]


def epoch_lines(record: EpochRecord, width: int, steps_per_epoch: int | None) -> list[str]:
    """Returns the row of one epoch, seconds and losses in six significant digits; of a part of one, what part it is."""
    is_part = record.is_part(steps_per_epoch)
    values = (
        record.loss,
        record.val_loss,
        record.accuracy,
        record.val_accuracy,
        record.epoch_seconds,
        record.samples_per_second,
        record.elapsed_seconds,
    )
    row = _join([f"{record.epoch}{'*' * is_part}", *map(format_number, values)], _epoch_widths(width))
    return [row, f"* {record.num_steps:,} of the {steps_per_epoch:,} steps of an epoch"] if is_part else [row]


def _epoch_widths(width: int) -> Sequence[int]:
    return _WIDE_WIDTHS if width >= sum(_WIDE_WIDTHS) + len(_GAP) * (len(_WIDE_WIDTHS) - 1) else _NARROW_WIDTHS


def _join(cells: Iterable[str], widths: Iterable[int]) -> str:
    """Joins cells at fixed columns; one too long for its column takes room from the padding after the next ones."""
    line, end = "", 0
    for cell, width in zip(cells, widths, strict=True):
        line += cell
        end += width + len(_GAP)
        line = line.ljust(max(end, len(line) + len(_GAP)))
    return line.rstrip()


def status_line(result: RunResult) -> str:
    """Returns how the run ended, with the reason where it did not end well."""
    reason = result.exit.reason if result.exit else ""
    if not reason and result.error and result.status != "FINISHED":
        reason = f"{result.error.get('type', 'error')}: {result.error.get('message', '')}"
    where = "" if result.status == "FINISHED" or result.epochs else f" while {result.stage}"
    return f"{result.status}{where}: {reason}" if reason else f"{result.status}{where}"


def result_line(result: RunResult, summary: Summary) -> str:
    """Returns how a run ended in one line: its speed, and the accuracy or the loss of its validation."""
    texts = [status_line(result)]
    if result.status == "FINISHED":
        metrics = summary.metrics
        if (speed := metrics.get("samples_per_second")) is not None:
            texts.append(f"{format_speed(speed)} samples/s")
        name = "val_loss" if metrics.get("val_accuracy") is None else "val_accuracy"
        if (value := metrics.get(name)) is not None:
            texts.append(f"{name} {format_number(value)}" + (f" {SYNTHETIC}" if result.is_synthetic else ""))
    if summary.cautions:
        texts.append(count(len(summary.cautions), "caution"))
    return f"{', '.join(texts)} ({result.request.run_id})"


def describe_speed(metrics: Mapping[str, float | None]) -> str:
    """Returns a run's speed, and that of a replica where there are several; "" if it has none."""
    if (speed := metrics.get("samples_per_second")) is None:
        return ""
    text = f"{format_speed(speed)} samples/s"
    if (per_replica := metrics.get("samples_per_second_per_replica")) and (metrics.get("num_replicas") or 1) > 1:
        text += f", {format_speed(per_replica)} a replica"
    return text


def summary_lines(result: RunResult, summary: Summary, width: int) -> list[str]:
    """Returns the figures of a whole run that exist, each with its unit."""
    metrics = summary.metrics
    pairs: list[tuple[str, str]] = []
    if text := describe_speed(metrics):
        steps = count(int(metrics.get("steady_steps") or 0), "steady step")
        pairs.append(("speed", f"{text} ({steps} in {format_time(metrics.get('steady_seconds') or 0.0)})"))
    pairs += [*fast_pairs(result.request, metrics), *energy_pairs(result, metrics)]
    if (median := metrics.get("step_time_median_seconds")) is not None:
        text = format_time(median)
        for name, label in (("p90", "p90"), ("p99", "p99"), ("mad", "MAD")):
            if (value := metrics.get(f"step_time_{name}_seconds")) is not None:
                text += f", {label} {format_time(value)}"
        pairs.append(("median step", f"{text}{_describe_spans(result)}"))
    if (first := metrics.get("first_step_seconds")) is not None:
        pairs.append(("first step", f"{format_time(first)} (tracing and compilation)"))
    if (memory := metrics.get("peak_memory_bytes")) is not None:
        text = format_bytes(memory)
        if (before := metrics.get("memory_before_model_bytes")) is not None:
            text += f", {format_bytes(before)} before the model was built"
        pairs.append(("peak memory", text))
    if (check := result.replica_check) and (placement := result.placement):
        label = "devices" if placement.strategy in CUTTING_STRATEGIES else "replicas"
        pairs.append((label, describe_replicas(check, placement)))
    return format_pairs(pairs + learning_pairs(result, metrics), width)


def _describe_spans(result: RunResult) -> str:
    """Says that the percentiles are of means, where a span holds more than one execution."""
    steady = steady_spans(result.spans, warmup_steps=result.request.recipe.measurement.warmup_steps)
    sizes = [span.num_steps for span in steady]
    per_span = sum(sizes) / len(sizes) if sizes else 1.0
    return f" (means of spans of about {per_span:.0f} steps)" if per_span >= 1.5 else ""


def learning_pairs(result: RunResult, metrics: Mapping[str, float | None]) -> list[tuple[str, str]]:
    """Returns what is known of the loss, the accuracy and a compiled network's own metrics, each in words."""
    pairs = []
    mark = f"{SYNTHETIC} " if result.is_synthetic else ""
    own = dict.fromkeys(name.removeprefix("val_") for name in (result.epochs[-1].metrics if result.epochs else ()))
    for name, best in (("accuracy", "best_val_accuracy"), ("loss", None), *((name, None) for name in own)):
        texts = []
        for key, label in ((name, "training"), (f"val_{name}", "validation"), (best, "best validation")):
            if key and (value := metrics.get(key)) is not None:
                texts.append(f"{label} {format_number(value)}")
        if texts:
            pairs.append((name, ("" if name == "loss" else mark) + ", ".join(texts)))
    return pairs


def reference_lines(result: RunResult, summary: Summary, width: int) -> list[str]:
    """Returns this run's figures above those published for the recipe; nothing if there are none.

    Each row begins with hardware and devices; where that leaves too little room, they stand on a line of their own.
    """
    references = result.request.recipe.reference
    if not references:
        return []
    published = dict.fromkeys(name for reference in references for name in reference.figures)
    names = [name for name in published if name not in PHASE_FIGURES]
    labels = [_describe_ours(result), *map(_describe_reference, references)]
    rows = [names]
    rows.append([format_number(_our_figure(name, result, summary)) for name in names])
    rows += [[format_number(reference.figures.get(name)) for name in names] for reference in references]
    widths = [max(len(row[column]) for row in rows) for column in range(len(names))]
    head, *figures = (_join(row, widths) for row in rows)
    label_width = max(map(len, labels))
    if label_width + len(_GAP) + len(head) <= width:
        lines = [f"{'':{label_width}}{_GAP}{head}"]
        lines += [f"{label:{label_width}}{_GAP}{row}" for label, row in zip(labels, figures, strict=True)]
    else:
        lines = [_GAP + head]
        for label, row in zip(labels, figures, strict=True):
            lines += [label, _GAP + row]
    remarks = match_remarks(match_run(result, summary))
    remarks += [f"{reference.hardware}: {reference.notes}" for reference in references if reference.notes]
    remarks += [f"Source: {source}" for source in dict.fromkeys(reference.source for reference in references)]
    return ["Beside published figures", *lines, *(line for text in remarks for line in wrap(text, width))]


def _our_figure(name: str, result: RunResult, summary: Summary) -> float | None:
    if name not in ("epochs", "elapsed_seconds"):
        return summary.metrics.get(name)
    if any(epoch.is_part(result.steps_per_epoch) for epoch in result.epochs):
        return None  # a part of an epoch is none
    return len(result.epochs) if name == "epochs" else summary.metrics.get(name)


def _describe_ours(result: RunResult) -> str:
    mark = f" {SYNTHETIC}" if result.is_synthetic else ""
    devices = result.placement.devices if result.placement else ()
    return f"this run: {_describe_hardware(result, devices)}, {' '.join(devices) or 'no device'}{mark}"


def _describe_hardware(result: RunResult, devices: Sequence[str]) -> str:
    names = result.placement.hardware if result.placement else ()
    if not names:
        return "unknown hardware"
    is_gpu = devices[0].startswith("gpu")  # logical CPU devices are one processor
    return f"{len(names)} x {names[0]}" if is_gpu and len(names) > 1 else names[0]


def _describe_reference(reference: Reference) -> str:
    return f"{reference.hardware}, {reference.devices}" + ("" if reference.verified else " (unverified)")


def caution_lines(cautions: Sequence[str], width: int) -> list[str]:
    """Returns the cautions as a list; nothing without any."""
    if not cautions:
        return []
    return ["Cautions", *(line for text in cautions for line in wrap(text, width, first="- "))]


def stored_lines(
    result: RunResult,
    tracked: TrackedRun | None,
    store_hint: str,
    width: int,
    *,
    files: Sequence[str] = (),
    server: str | None = None,
) -> list[str]:
    """Returns where the run was stored and how to look at it.

    Args:
        result: The run.
        tracked: The run in MLflow, if it is there.
        store_hint: Where the journal lies.
        width: Characters of a line.
        files: What the run left besides: its model, and the picture of it.
        server: As of `bring_it_there`.
    """
    store = store_of(store_hint)
    if tracked is None:
        how = f"`{bring_it_there(store, server)}` brings it there from the journal"
        pairs = [("MLflow", "not there before its end" if result.status == "RUNNING" else f"not there; {how}")]
    else:
        pairs = [("MLflow", tracked.tracking_uri), ("in MLflow", tracked.run_id)]
    pairs += [("journal", store_hint), *(("file", file) for file in files)]
    if tracked:
        pairs.append(("look at it", look_at_it(tracked, store)))
    return format_pairs([pair for pair in pairs if pair[1]], width)


def bring_it_there(store: Path | str, server: str | None) -> str:
    """Returns the command that brings runs into MLflow that are not there.

    Args:
        store: Where they are.
        server: Address of the MLflow server that they are to go to; None: into the store's own database.
    """
    named = ["--tracking-uri", without_secrets(server)] if server else []
    return command_line("recover", *named, store=store)


def look_at_it(tracked: TrackedRun, store: Path | str) -> str:
    """Returns the address of a run in MLflow, or the command that shows the store that it is in."""
    if tracked.tracking_uri.startswith(("http:", "https:")):
        return f"{tracked.tracking_uri.rstrip('/')}/#/experiments/{tracked.experiment_id}/runs/{tracked.run_id}"
    return command_line("ui", store=store)
