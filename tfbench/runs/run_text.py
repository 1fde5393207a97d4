"""A run as sections: how it ended, its figures, published ones, warnings, and what to do next."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfbench.comparisons.references import (
    NO_SPEED,
    describe_ratio,
    format_ratio,
    match_run,
    reference_section,
)
from tfbench.metrics import METRICS, PROFILE_METRICS
from tfbench.runs.cost import compute_cost
from tfbench.runs.energy import find_energy
from tfbench.runs.record import RunResult, Summary, TrackedRun, read_fast
from tfbench.show.formats import format_bytes, format_number, format_speed, format_time
from tfbench.show.table import (
    Column,
    Facts,
    Section,
    Table,
    facts_section,
    format_metric,
    short_warnings,
    text_column,
    warnings_section,
)
from tfbench.sweeps.plan import format_value
from tfbench.tags import GROUP_TAG
from tfbench.wording import command_line, count, store_of, without_secrets

SYNTHETIC = "(synthetic data)"
_ID_CHARACTERS = 12  # a part of an id is enough for every command
_MAX_PUBLISHED = 3
# Of the placement and the settings, what the header or a warning says already, or what is long and
# in the JSON.
_NOT_LISTED = ("backend", "notes", "unused_gpu", "feed", "num_machines", "layout", "gpu_addresses")
_EVALUATIONS = {"test": "Test split", "multiview": "Multi-view"}
Metrics = Mapping[str, float | None]
_ENERGY_UNITS = {"samples_per_joule": "samples/J", "mean_watts": "W"}


def run_sections(result: RunResult, summary: Summary, *, is_full: bool = False) -> list[Section]:
    """Returns a run that is over: the answer alone, or every figure and warning."""
    answers = _list_answers(result, summary, is_full=is_full)
    sections = [facts_section(status_line(result, summary), answers), *_predictions(result)]
    if not is_full:
        return [*sections, *short_warnings(summary.warnings, summary.notes)]
    sections += [_figures(result, summary), *settings_sections(result)]
    if published := reference_section(match_run(result, summary)):
        sections.append(published)
    if summary.warnings:
        sections.append(warnings_section(summary.warnings))
    if summary.notes:
        sections.append(Section("Notes", tuple(f"i {note}" for note in summary.notes)))
    return sections


def status_line(result: RunResult, summary: Summary | None = None) -> str:
    """Returns how the run ended, after how long, and why where it did not end well."""
    reason = result.reason
    if not reason and result.error and result.status != "FINISHED":
        reason = f"{result.error.get('type', 'error')}: {result.error.get('message', '')}"
    text: str = result.status
    if text != "FINISHED" and not result.epochs:
        text += f" while {result.stage}"
    if reason:
        return f"{text}: {reason}"
    wall = summary.metrics.get("breakdown/wall_seconds") if summary else None
    if not summary or not wall or result.status != "FINISHED":
        return text
    text += f" in {format_time(wall, 3)}"
    trained = summary.metrics.get("elapsed_seconds")
    if trained and trained < wall:  # of a resumed run, it counts what was trained before, too
        text += f" (training and validation: {format_time(trained, 3)})"
    return text


def _list_answers(result: RunResult, summary: Summary, *, is_full: bool) -> Facts:
    """Yields the figures that most runs are made for, with labels."""
    metrics = summary.metrics
    yield "Speed", _describe_speed(metrics)
    if fast := read_fast(result.request):
        speed = metrics.get("samples_per_second")
        settings = [f"training.{key}={str(value).lower()}" for key, value in fast.settings.items()]
        times = "as fast as"
        if speed and settings:
            times = f"{format_ratio(speed / fast.as_asked)}x"
        asked = f"{format_speed(fast.as_asked)} samples/s in one short run, no interval"
        found = ", ".join(settings) or "no setting is faster"
        yield "Fast", f"{times} the recipe as it is ({asked}): {found}"
    yield from energy_facts(result, metrics, is_full=is_full)
    yield from _learning_facts(result, metrics)
    memory = metrics.get("peak_memory_bytes")
    if memory is not None:
        text = format_bytes(memory)
        before = metrics.get("memory_before_model_bytes")
        if before is not None:
            text += f" ({format_bytes(before)} before the model)"
        yield "Memory", text
    if result.status == "FINISHED":
        for text in _describe_published(result, summary):
            yield "Published", text
    yield from cost_facts(result, is_full=is_full)


def _describe_speed(metrics: Metrics) -> str:
    speed = metrics.get("samples_per_second")
    if speed is None:
        return ""
    text = f"{format_speed(speed)} samples/s"
    if tokens := metrics.get("tokens_per_second"):
        text += f", {format_speed(tokens)} tokens/s"
    median = metrics.get("step_time_median_seconds")
    if median is not None:
        text += f", median step {format_time(median)}"
        if slow := metrics.get("step_time_p99_seconds"):
            text += f" (p99 {format_time(slow)})"
    first = metrics.get("first_step_seconds")
    if first is not None:
        text += f", first step {format_time(first)}"
    return text


def _learning_facts(result: RunResult, metrics: Metrics) -> Facts:
    mark = f" {SYNTHETIC}" if result.is_synthetic else ""
    titles = {"accuracy": "Accuracy", "loss": "Loss", "bits_per_byte": "Bits per byte"}
    if result.last_epoch:
        for metric in result.last_epoch.metrics:
            name = metric.removeprefix("val_")
            titles.setdefault(name, name)
    for name, title in titles.items():
        keys = {"validation": f"val_{name}", "best": f"best_val_{name}", "training": name}
        values = []
        for label, key in keys.items():
            value = metrics.get(key)
            if value is not None:
                values.append(f"{label} {value:.4g}")
        text = ", ".join(values)
        if values and name != "loss":
            text += mark
        yield title, text
    for evaluation in result.evaluations:
        text = f"loss {format_number(evaluation.loss)}"
        if evaluation.accuracy is not None:
            text = f"accuracy {format_number(evaluation.accuracy)}, {text}"
        text += f" ({evaluation.num_samples:,} samples in {format_time(evaluation.seconds)}){mark}"
        yield _EVALUATIONS[evaluation.name], text


def energy_facts(result: RunResult, metrics: Metrics, *, is_full: bool) -> Facts:
    """Yields joules, watts and what a joule trains, as far as they were measured.

    In full also why there is no more.
    """
    energy = find_energy(result)
    if energy is None:
        return
    figures = [
        f"{format_number(metrics[name])} {unit}"
        for name, unit in _ENERGY_UNITS.items()
        if metrics.get(name)
    ]
    if figures:
        yield "Energy", f"{', '.join(figures)} (GPUs alone)"
    if is_full:
        for problem in energy.problems:
            yield "Energy", f"not measured: {problem}"


def cost_facts(result: RunResult, *, is_full: bool) -> Facts:
    """Yields what the machine cost, for how long and at which price.

    In full also an epoch, and the way to a target.
    """
    cost = compute_cost(result)
    if cost is None:
        return

    def money(value: float) -> str:
        return f"{format_number(value)} {cost.currency}"

    hours = f"{format_number(cost.hours)} h"
    if cost.hours < 1:
        hours = format_time(cost.hours * 3600)
    text = f"{money(cost.machine)} for {hours} at {money(cost.price_per_hour)} an hour"
    if cost.instance:
        text += f" ({cost.instance})"
    yield "Cost", text
    if is_full and cost.epoch is not None:
        yield "Cost", f"{money(cost.epoch)} an epoch, training and validation"
    target = cost.target
    if is_full and target:
        wanted = f"val_accuracy {format_number(target.val_accuracy)}"
        if target.machine is None:
            yield "Cost", f"not reached: {wanted}"
        else:
            yield "Cost", f"{money(target.machine)} to {wanted} in epoch {target.epoch}"


def _describe_published(result: RunResult, summary: Summary) -> list[str]:
    """Returns how a run compares with some published results, or why with none of them."""
    matches = [match for match in match_run(result, summary) if match.reason != NO_SPEED]
    if not matches:
        return []
    texts = []
    for match in matches:
        texts += [describe_ratio(match.reference, pair) for pair in match.pairs]
    if len(texts) > _MAX_PUBLISHED:
        texts[_MAX_PUBLISHED:] = [f"{len(texts) - _MAX_PUBLISHED} more"]
    if texts:
        return texts
    why = "none of them comparable"
    reasons = {match.reason for match in matches}
    if len(reasons) == 1:
        why = f"not comparable: {reasons.pop()}"
    return [f"{count(len(matches), 'result')}, {why}"]


def _predictions(result: RunResult) -> Iterator[Section]:
    """Yields labels beside predictions, and the accuracy of each class.

    Each is there only if the recipe asked for it.
    """
    predictions = result.predictions
    if predictions is None:
        return
    mark = f" {SYNTHETIC}" if result.is_synthetic else ""
    if labels := predictions.first_labels:
        width = max(len(str(number)) for number in (*labels, *predictions.first_predictions))
        pairs = []
        for name, numbers in (("label", labels), ("prediction", predictions.first_predictions)):
            pairs.append((name, " ".join(f"{number:{width}}" for number in numbers)))
        yield facts_section(f"First {len(labels)} validation samples{mark}", pairs)
    if predictions.class_samples:
        correct = [*predictions.class_correct, sum(predictions.class_correct)]
        samples = [*predictions.class_samples, sum(predictions.class_samples)]
        rows: list[dict[str, Any]] = []
        for right, num in zip(correct, samples, strict=True):
            rows.append({"class": len(rows), "correct": right, "of": num})
            if num:
                rows[-1]["accuracy"] = right / num
        rows[-1]["class"] = "all"
        columns = (
            Column("class", "class"),
            Column("accuracy", "accuracy", "{:.6f}".format),
            Column("correct", "correct", "{:,}".format),
            Column("of", "of", "{:,}".format),
        )
        table = Table("accuracy of each class", columns, rows)
        yield Section(f"Validation accuracy of each class{mark}", tables=(table,))


def _figures(result: RunResult, summary: Summary) -> Section:
    """Returns every figure that exists, by the name that it has in JSON."""
    metrics = METRICS | PROFILE_METRICS
    rows = []
    for name, value in summary.metrics.items():
        if value is None or name.startswith(("log2_", "log10_")):
            continue
        if value == 0 and name.startswith("breakdown/"):
            continue
        row = {"name": name, "value": format_metric(name, value)}
        if name in metrics:  # not one of the network's own
            row["meaning"] = metrics[name].meaning
        rows.append(row)
    columns = (
        text_column("name", "figure"),
        Column("value", "value"),
        text_column("meaning", "meaning", rank=1),
    )
    checks = []
    if check := result.replica_check:
        finding = check.fault or check.reason or "sums over them contain each once"
        checks.append(f"Replicas: {check.num_replicas}, {finding}.")
    return Section("Figures", tuple(checks), (Table("figures", columns, rows),))


def settings_sections(result: RunResult) -> list[Section]:
    """Returns where a run took place and with what settings, as they were read back.

    There is no section for a run that never got that far.
    """
    values: dict[str, Any] = {}
    for record in (result.placement, result.settings):
        if record:
            for field in dataclasses.fields(record):
                if field.name not in _NOT_LISTED:
                    values[field.name] = getattr(record, field.name)
    if values and result.environment:
        values["tensorflow_onednn"] = result.environment.tensorflow_onednn
        values["thread_variables"] = result.environment.thread_variables
    pairs = [
        (name, format_value(value))
        for name, value in values.items()
        if value not in (None, "", (), {})
    ]
    if not pairs:
        return []
    return [facts_section("Settings, as read back", pairs)]


def next_section(
    result: RunResult,
    tracked: TrackedRun | None,
    store_hint: str,
    files: Sequence[str] = (),
    server: str | None = None,
    *,
    is_full: bool = False,
) -> Section:
    """Returns where a run is stored, how to see the rest of it, and how to go on with it.

    Args:
        result: The run.
        tracked: Where it stands in MLflow; None: it could not be brought there.
        store_hint: Where its journal lies.
        files: What the run left besides: its model, and the picture of it.
        server: Address of the MLflow server that it was to go to; None: into the store's own
            database.
        is_full: Whether the journal and the place in MLflow are named, too.
    """
    store = store_of(store_hint)
    token = result.request.tags.get(GROUP_TAG) or result.request.run_id
    if is_full:
        lines = [("Journal", store_hint)]
    else:
        lines = [("Details", command_line("runs", token[:_ID_CHARACTERS], store=store))]
    if tracked:
        if is_full:
            lines += [("MLflow", tracked.tracking_uri), ("MLflow", f"run {tracked.run_id}")]
        lines.append(("MLflow", mlflow_link(tracked, store)))
    elif is_full and result.status == "RUNNING":
        lines.append(("MLflow", "not there before its end"))
    else:
        lines.append(("To MLflow", recovery_command(store, server)))
    lines.append(("Resume", resume_command(result, store)))
    lines += [("File", file) for file in files]
    return Section("", code="\n".join(f"  {label:10}  {text}" for label, text in lines if text))


def recovery_command(store: Path | str, server: str | None) -> str:
    """Returns the command that brings runs into MLflow that are not there.

    Args:
        store: Where they are.
        server: Address of the MLflow server that they are to go to; None: into the store's own
            database.
    """
    if not server:
        return command_line("recover", store=store)
    return command_line("recover", "--tracking-uri", without_secrets(server), store=store)


def mlflow_link(tracked: TrackedRun, store: Path | str) -> str:
    """Returns the address of a run in MLflow, or the command that shows the store that it is in."""
    if tracked.tracking_uri.startswith(("http:", "https:")):
        server = tracked.tracking_uri.rstrip("/")
        return f"{server}/#/experiments/{tracked.experiment_id}/runs/{tracked.run_id}"
    return command_line("ui", store=store)


def resume_command(result: RunResult, store: Path | str) -> str:
    """Returns how to go on with a run that ended before its epochs were done.

    "" if it cannot be gone on with.
    """
    request = result.request
    has_checkpoint = result.checkpoint_epoch is not None or request.resume is not None
    is_complete = result.status == "FINISHED" and not result.stop_reason
    if not has_checkpoint or result.status == "RUNNING" or is_complete:
        return ""
    return command_line(*request.resume_words, store=store)
