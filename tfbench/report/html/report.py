"""A comparison as one HTML file that needs nothing beside it."""

import base64
import datetime
from collections.abc import Iterator, Sequence
from typing import Any

from tfbench import __version__
from tfbench.analysis.comparison.brief import RunBrief
from tfbench.analysis.comparison.comparison import Comparison, Row
from tfbench.analysis.comparison.hosts import arm_of
from tfbench.analysis.comparison.machines import version_cautions
from tfbench.analysis.comparison.references import match_references
from tfbench.analysis.comparison.scaling import find_scaling
from tfbench.metrics import LEDGER_ENTRIES
from tfbench.recipe.sections import CUTTING_STRATEGIES
from tfbench.records.sweep import BATCH_KEY, describe_setting, format_value, list_cells
from tfbench.report.commands import fold_command
from tfbench.report.comparison.comparison import outcome_of, table_cells
from tfbench.report.comparison.machines import machine_cells
from tfbench.report.comparison.plots import median_ledgers
from tfbench.report.comparison.references import DISCLAIMER, describe_match, describe_pair, name_reference
from tfbench.report.comparison.scaling import (
    PUBLISHED_TITLE,
    published_cells,
    scaling_cells,
    scaling_notes,
    scaling_title,
)
from tfbench.report.comparison.speeds import legend
from tfbench.report.formats import format_bytes, format_number, format_speed
from tfbench.report.html.contents import Image, ReportContents
from tfbench.report.html.facts import describe_environment, group_cautions
from tfbench.report.html.page import Table, render
from tfbench.wording import count

MAX_RUNS = 1000  # in the list of runs
_SHOWN_SECONDS = 0.005  # from which an entry of the ledger has a row
_SHARED_CORES = "logical devices that share the cores of one processor"


def render_report(contents: ReportContents) -> str:
    """Returns the report as HTML."""
    comparison = contents.comparison
    kind = f"sweep {contents.plan.sweep_id}" if contents.plan else "comparison of runs"
    ledger = contents.images.get("ledger.png")
    listed = [(row, run) for row in comparison.rows for entry in row.entries.values() for run in entry.runs]
    return render(
        "report.html.jinja",
        version=__version__,
        title=_title(comparison),
        kind=kind,
        lead=_lead(comparison, kind),
        verdict=contents.verdict or ("Nothing is compared: there is one arm, or none with a speed.",),
        plan=list(_describe_plan(contents)),
        speeds=_speeds(comparison),
        legends=list(_legends(comparison)),
        machines=_machines(comparison),
        scaling=_scaling(comparison),
        plots=[_embedded(image) for name, image in contents.images.items() if name != "ledger.png"],
        published=_published(comparison),
        num_runs=len(comparison.runs),
        cautions=_cautions(comparison),
        failures=_failures(comparison),
        ledger_plot=_embedded(ledger) if ledger else None,
        ledger=_ledger(comparison),
        environment=list(describe_environment(contents.environment)) if contents.environment else [],
        same_environment="All runs were made in the same environment." if len(comparison.runs) > 1 else "",
        differing=_differing(contents),
        commands="\n".join(map(fold_command, contents.commands)),
        needs_recipe_file=contents.needs_recipe_file,
        recipe_file=f"{contents.recipe_name}.toml",
        recipe_toml=contents.recipe_toml,
        runs=_runs(listed[:MAX_RUNS]),
        runs_title=f"{count(len(listed), 'run')} with a speed",
        left_out=f"The first {MAX_RUNS} of {len(listed)} runs." if len(listed) > MAX_RUNS else "",
        made=_date(contents.created),
    )


def _embedded(image: Image) -> dict[str, str]:
    return {"base64": base64.b64encode(image.png).decode(), "alt": image.alt}


def _title(comparison: Comparison) -> str:
    return ", ".join(dict.fromkeys(run.title for run in comparison.runs)) or ", ".join(comparison.recipes) or "Runs"


def _lead(comparison: Comparison, kind: str) -> str:
    others = [arm for arm in comparison.arms if arm != comparison.baseline]
    against = f" against {', '.join(others)}" if others else ""
    counts = f"{count(len(comparison.rows), 'setting')}, {count(len(comparison.runs), 'run')}"
    return f"{comparison.baseline}{against}: {counts} ({kind})"


def _describe_plan(contents: ReportContents) -> Iterator[tuple[str, str]]:
    comparison, plan = contents.comparison, contents.plan
    runs, scaling = comparison.runs, find_scaling(comparison)
    yield "recipe", ", ".join(comparison.recipes)
    yield "data", "synthetic, made on the spot" if comparison.is_synthetic else "real"
    for key in comparison.keys:
        values = dict.fromkeys(format_value(row.setting.get(key)) for row in comparison.rows)
        yield key, ", ".join(values)
    batches = {row.global_batch_size for row in comparison.rows} - {None}
    if scaling:
        yield "scaling", scaling_title(scaling)
    elif BATCH_KEY not in comparison.keys and len(batches) == 1:
        yield BATCH_KEY, format_value(batches.pop())
    for arm in comparison.arms:
        mark = " (baseline)" if arm == comparison.baseline and len(comparison.arms) > 1 else ""
        yield f"arm{mark}", f"{arm}: {_describe_hardware(comparison, arm)}"
    if plan:
        cells = len(list_cells(plan))
        yield "rounds", f"{plan.num_rounds}, the arms of a setting taking turns; {count(cells, 'run')} planned"
        measurement = plan.tables.get("measurement", {})
        if (seconds := measurement.get("seconds")) is not None:
            yield "each run", f"{seconds:g} s of steady steps in a process of its own, without validation"
        elif measurement.get("steps") is None:
            yield "each run", f"{plan.tables['training']['epochs']} epochs in a process of its own"
        if plan.run_timeout_seconds is not None:
            yield "time limit", f"{plan.run_timeout_seconds:g} s a run"
        if plan.memory_limit_bytes is not None:
            yield "memory limit", f"{format_bytes(plan.memory_limit_bytes)} a run"
    if runs:
        times = sorted(run.created for run in runs)
        yield "measured", " to ".join(dict.fromkeys((_date(times[0]), _date(times[-1]))))


def _describe_hardware(comparison: Comparison, arm: str) -> str:
    runs = [run for row in comparison.rows for run in row.entries[arm].runs]
    if not runs:
        return "no run of it has a speed"
    names = sorted({", ".join(dict.fromkeys(run.hardware)) or "unknown hardware" for run in runs})
    has_parts = runs[0].strategy in CUTTING_STRATEGIES
    placed = count(runs[0].num_devices, "device") if has_parts else count(runs[0].num_replicas, "replica")
    shared = f", {_SHARED_CORES}" if arm in comparison.shares_cores else ""
    return f"{placed} on {'; '.join(names)}{shared}"


def _speeds(comparison: Comparison) -> Table:
    header, rows = table_cells(comparison)
    return Table(
        label="speed of every setting under every arm",
        header=header,
        rows=rows,
        text_columns=[place for place, key in enumerate(comparison.keys) if not _is_numeric(comparison, key)],
        is_stacked=True,
    )


def _legends(comparison: Comparison) -> Iterator[str]:
    entries = [entry for row in comparison.rows for entry in row.entries.values()]
    if any(entry.speedup for entry in entries):
        yield legend([comparison])
    if any(entry.interval for entry in entries):
        yield "Beside a speed stands half the width of its 95 % interval."


def _scaling(comparison: Comparison) -> dict[str, Any] | None:
    scaling = find_scaling(comparison)
    if not scaling:
        return None
    header, rows = scaling_cells(scaling)
    text_columns = [place for place, name in enumerate(header) if name == "mode"]
    table = Table(
        label="speed by number of devices", header=header, rows=rows, text_columns=text_columns, is_stacked=True
    )
    found = {"title": scaling_title(scaling), "table": table, "notes": scaling_notes(scaling), "published": None}
    if scaling.published:
        header, rows = published_cells(scaling)
        published = Table(label="published speed-ups", header=header, rows=rows, text_columns=[len(header) - 1])
        found |= {"published": published, "published_title": PUBLISHED_TITLE}
    return found


def _speed(samples_per_second: float | None) -> str:
    return "-" if samples_per_second is None else format_speed(samples_per_second)


def _is_numeric(comparison: Comparison, key: str) -> bool:
    return all(isinstance(row.setting.get(key), int | float) for row in comparison.rows)


def _published(comparison: Comparison) -> dict[str, Any] | None:
    matches = match_references(comparison)
    if not matches:
        return None
    names = list(dict.fromkeys(name for match in matches for name in match.reference["figures"]))
    rows = [
        [
            name_reference(match.reference),
            describe_match(match),
            *(format_number(match.reference["figures"].get(name)) for name in names),
        ]
        for match in matches
    ]
    pairs = [f"{name_reference(match.reference)}: {describe_pair(pair)}" for match in matches for pair in match.pairs]
    remarks = [f"{one['hardware']}: {one['notes']}" for one in comparison.references if one.get("notes")]
    remarks += [f"Source: {source}" for source in dict.fromkeys(one["source"] for one in comparison.references)]
    header = ["hardware and devices", "with these runs", *names]
    return {
        "table": Table(label="published figures", header=header, rows=rows, long_columns=(0, 1), is_stacked=True),
        "pairs": pairs,
        "disclaimer": DISCLAIMER if pairs else "",
        "remarks": remarks,
    }


def _machines(comparison: Comparison) -> Table | None:
    cells = machine_cells(comparison)
    if cells is None:
        return None
    left = [cells.header.index(name) for name in cells.left]
    return Table(label="arms of each machine", header=cells.header, rows=cells.rows, text_columns=left, is_stacked=True)


def _cautions(comparison: Comparison) -> list[str]:
    runs = comparison.runs
    cautions = [f"run {run_id} is left out: {why}" for run_id, why in comparison.unreadable.items()]
    cautions += version_cautions(comparison)
    return cautions + [f"{num} of {count(len(runs), 'run')}: {caution}" for caution, num in group_cautions(runs)]


def _failures(comparison: Comparison) -> Table:
    rows = [
        [describe_setting(row.setting) or "the recipe as it is", entry.arm, *outcome_of(entry)]
        for row in comparison.rows
        for entry in row.entries.values()
        if entry.speed is None or entry.outcome != "FINISHED"
    ]
    return Table(
        label="points without a speed",
        header=["setting", "arm", "outcome", "reason"],
        rows=rows,
        text_columns=(0, 1, 2),
        long_columns=(3,),
        is_stacked=True,
    )


def _ledger(comparison: Comparison) -> Table:
    ledgers = median_ledgers(comparison)
    meanings = LEDGER_ENTRIES | {"unaccounted": "what is in no entry"}
    rows = [
        [name.replace("_", " "), *(f"{ledger[name]:.2f}" for ledger in ledgers.values()), meanings[name]]
        for name in next(iter(ledgers.values()), {})
        if any(abs(ledger[name]) >= _SHOWN_SECONDS for ledger in ledgers.values())
    ]
    header = ["entry", *ledgers, "meaning"]
    return Table(
        label="ledger of each arm", header=header, rows=rows, text_columns=(0,), long_columns=(len(header) - 1,)
    )


def _differing(contents: ReportContents) -> Table:
    rows = [
        [name, "; ".join(f"{value} ({count(num, 'run')})" for value, num in values.items())]
        for name, values in contents.differing.items()
    ]
    return Table(
        label="what differs between the runs", header=["", "values"], rows=rows, text_columns=(0,), long_columns=(1,)
    )


def _runs(listed: Sequence[tuple[Row, RunBrief]]) -> Table:
    rows = [
        [run.run_id, run.name, arm_of(run), describe_setting(row.setting), _speed(run.speed), _date(run.created)]
        for row, run in listed
    ]
    header = ["id", "name", "arm", "setting", "samples/s", "asked for"]
    return Table(label="all runs with a speed", header=header, rows=rows, text_columns=(0, 1, 2, 3))


def _date(seconds: float) -> str:
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M} UTC"
