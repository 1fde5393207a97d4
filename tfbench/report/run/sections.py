"""A run as sections.

How it ended, its figures, published ones beside them, warnings, and what to do next.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tfbench.analysis.comparison.references import NO_SPEED, match_run
from tfbench.analysis.run.cost import compute_cost
from tfbench.analysis.run.energy import find_energy, name_parts
from tfbench.metrics import METRICS, PROFILE_METRICS
from tfbench.records.run import RunResult, Summary, TrackedRun, read_fast
from tfbench.records.sweep import format_value
from tfbench.report.comparison.references import describe_ratio, format_ratio, reference_section
from tfbench.report.formats import format_bytes, format_number, format_speed, format_time
from tfbench.report.table import (
    Column,
    Section,
    Table,
    facts,
    format_metric,
    short_warnings,
    warnings_section,
)
from tfbench.tags import GROUP_TAG
from tfbench.wording import command_line, count, store_of, without_secrets

SYNTHETIC = "(synthetic data)"
_ID_CHARACTERS = 12  # a part of an id is enough for every command
_MAX_PUBLISHED = 3
# Of the placement and the settings, what the header or a warning says already, or what is long and
# in the JSON.
_NOT_LISTED = ("backend", "notes", "unused_gpu", "feed", "num_machines", "layout", "gpu_addresses")
_EVALUATIONS = {"test": "Test split", "multiview": "Multi-view"}
_ENERGY_UNITS = {"samples_per_joule": "samples/J", "mean_watts": "W"}


def run_sections(result: RunResult, summary: Summary, *, is_full: bool = False) -> list[Section]:
    """Returns what there is to say of a run that is over.

    The answer alone, or every figure and warning.
    """
    answer = Section(
        status_line(result, summary),
        tables=(facts(_list_answers(result, summary, is_full=is_full)),),
    )
    sections = [answer, *_predictions(result)]
    if not is_full:
        return [*sections, *short_warnings(summary.warnings, summary.notes)]
    published = reference_section(match_run(result, summary))
    sections += [
        _figures(result, summary),
        *settings_sections(result),
        *([published] if published else []),
    ]
    sections += [warnings_section(summary.warnings)] if summary.warnings else []
    return [
        *sections,
        *([Section("Notes", tuple(f"i {one}" for one in summary.notes))] if summary.notes else []),
    ]


def status_line(result: RunResult, summary: Summary | None = None) -> str:
    """Returns how the run ended, after how long, and why where it did not end well."""
    reason = result.exit.reason if result.exit else ""
    if not reason and result.error and result.status != "FINISHED":
        reason = f"{result.error.get('type', 'error')}: {result.error.get('message', '')}"
    text = (
        result.status
        if result.status == "FINISHED" or result.epochs
        else f"{result.status} while {result.stage}"
    )
    wall = (
        summary.metrics.get("breakdown/wall_seconds")
        if summary and result.status == "FINISHED"
        else None
    )
    if reason or not summary or not wall:
        return f"{text}: {reason}" if reason else text
    trained = summary.metrics.get("elapsed_seconds") or 0.0
    is_part = trained < wall  # of a resumed run, it counts what was trained before, too
    part = f" (training and validation: {format_time(trained, 3)})" if trained and is_part else ""
    return f"{text} in {format_time(wall, 3)}{part}"


def _list_answers(
    result: RunResult, summary: Summary, *, is_full: bool
) -> Iterator[tuple[str, str]]:
    """Yields the figures that most runs are made for, with labels."""
    metrics = summary.metrics
    speed, median, first = (
        metrics.get(name)
        for name in ("samples_per_second", "step_time_median_seconds", "first_step_seconds")
    )
    if speed is not None:
        parts = [f"{format_speed(speed)} samples/s"]
        parts += (
            [f"{format_speed(tokens)} tokens/s"]
            if (tokens := metrics.get("tokens_per_second"))
            else []
        )
        if median is not None:
            slow = metrics.get("step_time_p99_seconds")
            parts.append(
                f"median step {format_time(median)}"
                + (f" (p99 {format_time(slow)})" if slow else "")
            )
        parts += [f"first step {format_time(first)}"] if first is not None else []
        yield "Speed", ", ".join(parts)
    if fast := read_fast(result.request):
        settings = ", ".join(
            f"training.{key}={str(value).lower()}" for key, value in fast.settings.items()
        )
        times = f"{format_ratio(speed / fast.as_asked)}x" if speed and settings else "as fast as"
        recipe = f"the recipe as it is ({format_speed(fast.as_asked)} samples/s in a short run)"
        yield "Fast", f"{times} {recipe}: {settings or 'no setting is faster'}"
    yield from energy_facts(result, metrics, is_full=is_full)
    mark = f" {SYNTHETIC}" if result.is_synthetic else ""
    own = dict.fromkeys(
        name.removeprefix("val_") for name in (result.epochs[-1].metrics if result.epochs else ())
    )
    titles = {"accuracy": "Accuracy", "loss": "Loss", "bits_per_byte": "Bits per byte"}
    named = titles | {name: name for name in own if name not in titles}
    for name, title in named.items():
        values = {"validation": f"val_{name}", "best": f"best_val_{name}", "training": name}
        found = [
            f"{label} {metrics[key]:.4g}"
            for label, key in values.items()
            if metrics.get(key) is not None
        ]
        yield title, ", ".join(found) + (mark if found and name != "loss" else "")
    for one in result.evaluations:
        accuracy = "" if one.accuracy is None else f"accuracy {format_number(one.accuracy)}, "
        tail = (
            f"loss {format_number(one.loss)} ({one.num_samples:,} samples in"
            f" {format_time(one.seconds)})"
        )
        yield _EVALUATIONS[one.name], f"{accuracy}{tail}{mark}"
    if (memory := metrics.get("peak_memory_bytes")) is not None:
        before = metrics.get("memory_before_model_bytes")
        yield (
            "Memory",
            format_bytes(memory)
            + ("" if before is None else f" ({format_bytes(before)} before the model)"),
        )
    if result.status == "FINISHED":
        yield from (("Published", text) for text in _describe_published(result, summary))
    yield from cost_facts(result, is_full=is_full)


def energy_facts(
    result: RunResult, metrics: Mapping[str, float | None], *, is_full: bool = False
) -> Iterator[tuple[str, str]]:
    """Yields joules, watts and what a joule trains, as far as they were measured.

    In full also why there is no more.
    """
    energy = find_energy(result)
    if energy is None:
        return
    if known := [
        f"{format_number(metrics[name])} {unit}"
        for name, unit in _ENERGY_UNITS.items()
        if metrics.get(name)
    ]:
        yield "Energy", f"{', '.join(known)} ({name_parts(energy.parts)})"
    if is_full:
        yield from (("Energy", f"not measured: {problem}") for problem in energy.problems)


def cost_facts(result: RunResult, *, is_full: bool = False) -> Iterator[tuple[str, str]]:
    """Yields what the machine cost, for how long and at which price.

    In full also an epoch, and the way to a target.
    """
    cost = compute_cost(result)
    if cost is None:
        return

    def money(value: float) -> str:
        return f"{format_number(value)} {cost.currency}"

    hours = f"{format_number(cost.hours)} h" if cost.hours >= 1 else format_time(cost.hours * 3600)
    instance = f" ({cost.instance})" if cost.instance else ""
    yield (
        "Cost",
        f"{money(cost.machine)} for {hours} at {money(cost.price_per_hour)} an hour{instance}",
    )
    if is_full and cost.epoch is not None:
        yield "Cost", f"{money(cost.epoch)} an epoch, training and validation"
    if is_full and (target := cost.target):
        wanted = f"val_accuracy {format_number(target.val_accuracy)}"
        reached = (
            None
            if target.machine is None
            else f"{money(target.machine)} to {wanted} in epoch {target.epoch}"
        )
        yield "Cost", reached or f"not reached: {wanted}"


def _describe_published(result: RunResult, summary: Summary) -> list[str]:
    """Returns how a run compares with each of some published results, or why with none.

    Nothing without any.
    """
    matches = [match for match in match_run(result, summary) if match.reason != NO_SPEED]
    texts = [describe_ratio(match.reference, pair) for match in matches for pair in match.pairs]
    if texts:
        left_out = len(texts) - _MAX_PUBLISHED
        return [*texts[:_MAX_PUBLISHED], *([f"{left_out} more"] if left_out > 0 else [])]
    reasons = {match.reason for match in matches}
    why = f"not comparable: {reasons.pop()}" if len(reasons) == 1 else "none of them comparable"
    return [f"{count(len(matches), 'result')}, {why}"] if matches else []


def _predictions(result: RunResult) -> Iterator[Section]:
    """Yields labels beside predictions, and the accuracy of each class.

    Each is there only if the recipe asked for it.
    """
    found = result.predictions
    mark = f" {SYNTHETIC}" if result.is_synthetic else ""
    if found is None:
        return
    if labels := found.first_labels:
        width = max(len(str(number)) for number in (*labels, *found.first_predictions))
        named = {"label": labels, "prediction": found.first_predictions}
        pairs = [
            (name, " ".join(f"{number:{width}}" for number in numbers))
            for name, numbers in named.items()
        ]
        yield Section(f"First {len(labels)} validation samples{mark}", tables=(facts(pairs),))
    if found.class_samples:
        classes = [*range(len(found.class_samples)), "all"]
        correct, samples = (
            [*counts, sum(counts)] for counts in (found.class_correct, found.class_samples)
        )
        rows = [
            {"class": name, "accuracy": right / num if num else None, "correct": right, "of": num}
            for name, right, num in zip(classes, correct, samples, strict=True)
        ]
        columns = (
            Column("class", "class"),
            Column("accuracy", "accuracy", "{:.6f}".format),
            *(Column(name, name, "{:,}".format) for name in ("correct", "of")),
        )
        table = Table("accuracy of each class", columns, rows)
        yield Section(f"Validation accuracy of each class{mark}", tables=(table,))


def _figures(result: RunResult, summary: Summary) -> Section:
    """Returns every figure that exists, by the name that it has in JSON."""
    known = METRICS | PROFILE_METRICS
    rows = [
        {
            "name": name,
            "value": format_metric(name, value),
            "meaning": known[name].meaning if name in known else "",
        }
        for name, value in summary.metrics.items()
        if value is not None
        and not name.startswith(("log2_", "log10_"))
        and (value or not name.startswith("breakdown/"))
    ]
    columns = (
        Column("name", "figure", align="left"),
        Column("value", "value"),
        Column("meaning", "meaning", align="left", rank=1),
    )
    checks = []
    if check := result.replica_check:
        found = check.fault or check.reason or "sums over them contain each once"
        checks.append(f"Replicas: {check.num_replicas}, {found}.")
    return Section("Figures", tuple(checks), (Table("figures", columns, rows),))


def settings_sections(result: RunResult) -> list[Section]:
    """Returns where a run took place and with what settings, as they were read back; none.

    It never got that far.
    """
    values = {
        field.name: getattr(record, field.name)
        for record in (result.placement, result.settings)
        if record
        for field in dataclasses.fields(record)
        if field.name not in _NOT_LISTED
    }
    if values and result.environment:
        values |= {
            name: getattr(result.environment, name)
            for name in ("tensorflow_onednn", "thread_variables")
        }
    pairs = [
        (name, format_value(value))
        for name, value in values.items()
        if value not in (None, "", (), {})
    ]
    return [Section("Settings, as read back", tables=(facts(pairs),))] if pairs else []


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
    details = command_line("runs", token[:_ID_CHARACTERS], store=store)
    lines = [("Journal", store_hint if is_full else ""), ("Details", "" if is_full else details)]
    if tracked:
        lines += [
            ("MLflow", text) for text in (tracked.tracking_uri, f"run {tracked.run_id}") if is_full
        ]
        lines.append(("MLflow", mlflow_link(tracked, store)))
    elif is_full and result.status == "RUNNING":
        lines.append(("MLflow", "not there before its end"))
    else:
        lines.append(("To MLflow", recovery_command(store, server)))
    lines += [("Resume", resume_command(result, store)), *(("File", file) for file in files)]
    return Section("", code="\n".join(f"  {label:10}  {text}" for label, text in lines if text))


def recovery_command(store: Path | str, server: str | None) -> str:
    """Returns the command that brings runs into MLflow that are not there.

    Args:
        store: Where they are.
        server: Address of the MLflow server that they are to go to; None: into the store's own
            database.
    """
    named = ["--tracking-uri", without_secrets(server)] if server else []
    return command_line("recover", *named, store=store)


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
    resume = result.request.resume
    done = result.checkpoint_epoch or (
        len(resume.epochs) if resume else None
    )  # before one of its own, its predecessor's
    if (
        done is None
        or result.status == "RUNNING"
        or (result.status == "FINISHED" and not result.stop_reason)
    ):
        return ""
    return (
        f"{command_line('run', '--resume', result.request.run_id, store=store)}    # from epoch"
        f" {done + 1}"
    )
