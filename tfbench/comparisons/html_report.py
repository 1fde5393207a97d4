"""A comparison as one HTML file that needs nothing beside it."""

import dataclasses
from collections.abc import Iterator
from importlib.resources import files

from tfbench import __version__
from tfbench.comparisons.comparison import Comparison
from tfbench.comparisons.comparison_text import comparison_sections
from tfbench.comparisons.equality import flatten
from tfbench.comparisons.scaling import find_scaling, scaling_title
from tfbench.comparisons.verdict import find_caveats
from tfbench.machine.facts import Environment
from tfbench.runs.warnings import merge_warnings
from tfbench.schema import to_plain
from tfbench.show.formats import format_bytes, format_date, format_speed
from tfbench.show.plot import Plot
from tfbench.show.table import (
    Column,
    Facts,
    Section,
    Table,
    escaped,
    facts_section,
    html,
    text_column,
    warnings_section,
)
from tfbench.store.brief import RunBrief, setup_of
from tfbench.sweeps.plan import (
    BATCH_KEY,
    SweepPlan,
    describe_configuration,
    format_value,
    list_planned_runs,
)
from tfbench.wording import count

GENERATOR = '<meta name="generator" content="tfbench '  # by which a report is recognized


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ReportContents:
    """All that a report is made of."""

    created: float  # seconds since 1970, UTC
    comparison: Comparison
    verdict: tuple[str, ...]
    plan: SweepPlan | None  # of the sweep, if it is one
    plots: tuple[Plot, ...]
    environment: Environment | None  # of the newest run
    commands: tuple[str, ...]  # that make the runs again
    recipe_name: str
    recipe_toml: str  # as resolved


def render_report(contents: ReportContents) -> str:
    """Returns the report as HTML."""
    comparison = contents.comparison
    kind = f"sweep {contents.plan.sweep_id}" if contents.plan else "comparison of runs"
    names = dict.fromkeys(run.title or run.recipe for run in comparison.runs) or comparison.recipes
    title = escaped(", ".join(names) or "Runs")
    counts = f"{count(len(comparison.rows), 'configuration')}, {count(len(comparison.runs), 'run')}"
    style = files("tfbench.show").joinpath("style.css").read_text(encoding="utf-8")
    hint = "Wide tables scroll sideways."
    if contents.plots:
        hint += " A tap enlarges a plot."
    body = html(report_sections(contents))
    created = format_date(contents.created)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{GENERATOR}{__version__}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}: {escaped(kind)}, tfbench report</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p class="lead">{counts} ({escaped(kind)})</p>
<p class="note narrow">{hint}</p>
</header>
{body}<footer>Made by tfbench {__version__} on {created}.</footer>
</body>
</html>
"""


def report_sections(contents: ReportContents) -> list[Section]:
    """Returns all that a report holds, the answer first."""
    comparison = contents.comparison
    verdict, table, *others = comparison_sections(comparison, contents.verdict)
    sections = [
        verdict,
        facts_section("What was measured", _describe_plan(contents)),
        table,
    ]
    sections += [Section("Plots", plots=contents.plots), *others, *_notes(comparison)]
    if contents.environment:
        environment = _describe_environment(contents.environment)
        sections.append(facts_section("Environment of the newest run", environment))
    sections += [*_reproduction(contents), _runs(comparison)]
    filled = []
    for section in sections:
        has_rows = any(table.rows for table in section.tables)
        if has_rows or section.sentences or section.code or section.plots:
            filled.append(section)
    return filled


def _describe_plan(contents: ReportContents) -> Facts:
    comparison = contents.comparison
    yield "recipe", ", ".join(comparison.recipes)
    yield "data", comparison.describe_data()
    for key in comparison.keys:
        values = dict.fromkeys(format_value(row.configuration.get(key)) for row in comparison.rows)
        yield key, ", ".join(values)
    batches = {row.global_batch_size for row in comparison.rows} - {None}
    if scaling := find_scaling(comparison):
        yield "scaling", scaling_title(scaling.kind, scaling.batch_size)
    elif BATCH_KEY not in comparison.keys and len(batches) == 1:
        yield BATCH_KEY, format_value(batches.pop())
    for setup in comparison.setups:
        is_baseline = setup == comparison.baseline and len(comparison.setups) > 1
        label = "setup (baseline)" if is_baseline else "setup"
        yield label, f"{setup}: {_describe_hardware(comparison, setup)}"
    if contents.plan:
        yield from _describe_rounds(contents.plan, comparison)
    if comparison.runs:
        times = [run.created for run in comparison.runs]
        first = format_date(min(times))
        last = format_date(max(times))
        yield "measured", first if first == last else f"{first} to {last}"


def _describe_rounds(plan: SweepPlan, comparison: Comparison) -> Facts:
    if plan.first_rounds is None:
        planned_runs = count(len(list_planned_runs(plan)), "run")
        yield "rounds", f"{plan.num_rounds}, setups take turns; {planned_runs} planned"
    else:
        most = max((entry.rounds for entry in comparison.all_entries()), default=0)
        yield (
            "rounds",
            f"{plan.first_rounds} to {plan.num_rounds}, until all is decided, setups take turns;"
            f" {most} made",
        )
    measurement = plan.tables.get("measurement", {})
    seconds = measurement.get("seconds")
    if seconds is not None:
        yield (
            "each run",
            f"{seconds:g} s of steady steps in a process of its own, without validation",
        )
    elif measurement.get("steps") is None:
        yield "each run", f"{plan.tables['training']['epochs']} epochs in a process of its own"


def _describe_hardware(comparison: Comparison, setup: str) -> str:
    runs: list[RunBrief] = []
    for row in comparison.rows:
        runs += row.entries[setup].runs
    if not runs:
        return "no run of it has a speed"
    names = set()
    for run in runs:
        names.add(", ".join(dict.fromkeys(run.hardware)) or "unknown hardware")
    return f"{count(runs[0].num_devices, 'device')}, {'; '.join(sorted(names))}"


def _notes(comparison: Comparison) -> Iterator[Section]:
    """Yields the notes of the runs, but for the caveats, which stand below the verdict."""
    caveats = tuple(find_caveats(comparison))
    notes_by_run = []
    for run in comparison.runs:
        notes_by_run.append([note for note in run.notes if not note.startswith(caveats)])
    if notes := merge_warnings(notes_by_run):
        yield warnings_section(notes, "Notes")


def _describe_environment(environment: Environment) -> Facts:
    """Yields all that is known of hardware and software."""
    for name, value in flatten(to_plain(environment)).items():
        if value is None:
            continue
        label = name.removesuffix("_bytes").replace("_", " ").replace(".", " ")
        text = str(value)
        if name.endswith("_bytes"):
            text = format_bytes(value)
        elif isinstance(value, float):
            text = f"{value:.3g}"
        yield label, text


def _reproduction(contents: ReportContents) -> Iterator[Section]:
    file = f"{contents.recipe_name}.toml"
    if contents.commands:
        how = "Use the same data. If you do not have the recipe's file, save the recipe below."
        yield Section("How to reproduce", (how,), code="\n".join(contents.commands))
    yield Section(
        f"The recipe with its defaults ({file})", code=contents.recipe_toml, is_folded=True
    )


def _runs(comparison: Comparison) -> Section:
    rows = []
    for row in comparison.rows:
        configuration = describe_configuration(row.configuration)
        for entry in row.entries.values():
            for run in entry.runs:
                values = {
                    "id": run.run_id,
                    "name": run.name,
                    "setup": setup_of(run),
                    "configuration": configuration,
                    "speed": run.speed,
                    "created": run.created,
                }
                rows.append(values)
    columns = (
        *(text_column(name, name) for name in ("id", "name", "setup", "configuration")),
        Column("speed", "samples/s", format_speed),
        Column("created", "started", format_date),
    )
    table = Table("all runs with a speed", columns, rows)
    return Section(f"{count(len(rows), 'run')} with a speed", tables=(table,), is_folded=True)
